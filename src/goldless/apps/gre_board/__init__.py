"""A public board for GRE-bench: registered before there are reviews, open to submissions, published as a static site.

The one app that builds on another: it adds verbs to ``goldless gre`` and results to an edition's results.
"""

from __future__ import annotations

ADDS = {
    "goldless.gre_verbs": {
        "submit": "goldless.apps.gre_board.commands:submit",
        "publish": "goldless.apps.gre_board.commands:publish",
    },
    "goldless.gre_results": {"board": "goldless.apps.gre_board.results:PUBLIC_BOARD"},
    "goldless.sections": {"board": "goldless.apps.gre_board.results:board_section"},
}
"""Parts that the app adds to goldless, by group and name."""
