"""Watching: fixed anchors asked again, and whether the judge or the system changed.

watching.py          the folder, the occasions, and who changed
change_evidence.py   evidence of a change, with a false-alarm rate that is valid for as long as it is watched
"""

from __future__ import annotations

from typing import Any

ADDS = {
    "goldless.verbs": {
        "watch": (
            "In production",
            "Ask fixed anchors again and say whether the judge or the system changed.",
            "goldless.apps.watch.commands",
        ),
    },
}
"""Parts that the app adds to goldless, by group and name."""


def __getattr__(name: str) -> Any:
    """Make the Python function of the verb on first use: it needs the whole of goldless."""
    if name != "watch":
        raise AttributeError(f"module 'goldless.apps.watch' has no attribute {name!r}")
    from goldless.api import function  # noqa: PLC0415 - listing the apps imports this module
    from goldless.apps.watch import commands  # noqa: PLC0415

    globals()[name] = function(commands.watch, name)
    return globals()[name]
