"""GRE-bench: the model that writes the most informative reviews, on papers it cannot have seen."""

from __future__ import annotations

ADDS = {
    "goldless.verbs": {
        "gre": (
            "Apps",
            "Run GRE-bench: which model writes the most informative paper reviews?",
            "goldless.apps.gre.commands",
        )
    },
    "goldless.sections": {"edition": "goldless.apps.gre.results:edition_section"},
}
"""Parts that the app adds to goldless, by group and name: a verb's panel, line and module; the place of a section."""
