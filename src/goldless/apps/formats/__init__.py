"""Formats of other tools that few studies are in, importers and an exporter."""

from __future__ import annotations

ADDS = {
    "goldless.importers": {
        "mt_bench": "goldless.apps.formats.boards:MT_BENCH",
        "arena_hard": "goldless.apps.formats.boards:ARENA_HARD",
        "arena_votes": "goldless.apps.formats.boards:ARENA_VOTES",
        "helm": "goldless.apps.formats.harnesses:HELM",
        "lighteval": "goldless.apps.formats.harnesses:LIGHTEVAL",
        "traces": "goldless.apps.formats.traces:TRACES",
    },
    "goldless.exporters": {"eee": "goldless.apps.formats.every_eval_ever:EVERY_EVAL_EVER"},
}
"""Parts that the app adds to goldless, by group and name."""
