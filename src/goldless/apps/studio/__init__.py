"""The studio: the viewer, and pages that do things, in the browser of this machine."""

from __future__ import annotations

ADDS = {
    "goldless.verbs": {
        "studio": (
            "Start",
            "Work in your browser: paste two texts, drop a file, press Run, look at the results.",
            "goldless.apps.studio.commands",
        ),
        "view": (
            "Start",
            "Browse runs, down to the prompt and reply behind each number.",
            "goldless.apps.studio.commands",
        ),
    },
}
"""Entry points of the app, by group and name."""
