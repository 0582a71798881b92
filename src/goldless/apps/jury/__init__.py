"""A jury of qualified reviewers behind one address, for any tool that speaks OpenAI's API.

panel.py    Jury: every juror judges in both orders, one weighted verdict, and the tokens charged
wire.py     reads a case from JSON or from a judge prompt, and writes the reply in OpenAI's format
server.py   the server
"""

from __future__ import annotations

ADDS = {
    "goldless.verbs": {
        "jury": (
            "Apps",
            "Serve a panel of licensed reviewers as one OpenAI-compatible model.",
            "goldless.apps.jury.commands",
        ),
    },
}
"""Parts that the app adds to goldless, by group and name."""
