"""Debates: each reviewer discusses a question with copies of itself before the verdict (ChatEval)."""

from __future__ import annotations

ADDS = {
    "goldless.review_stages": {
        "C1": "goldless.apps.debate.stage:C1",
        "C2": "goldless.apps.debate.stage:C2",
        "C3": "goldless.apps.debate.stage:C3",
    },
}
"""Parts that the app adds to goldless, by group and name: the debates that ``--debate`` names."""
