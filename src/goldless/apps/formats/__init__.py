"""Formats of other tools that few studies are in, each importer and exporter in a module of its own."""

from __future__ import annotations

ADDS = {
    "goldless.importers": {
        "mt_bench": "goldless.apps.formats.fastchat:MT_BENCH",
        "arena_hard": "goldless.apps.formats.arena:ARENA_HARD",
        "arena_votes": "goldless.apps.formats.arena:ARENA_VOTES",
        "helm": "goldless.apps.formats.helm:HELM",
        "lighteval": "goldless.apps.formats.lighteval:LIGHTEVAL",
        "traces": "goldless.apps.formats.traces:TRACES",
    },
    "goldless.exporters": {"eee": "goldless.apps.formats.every_eval_ever:EVERY_EVAL_EVER"},
}
"""Parts that the app adds to goldless, by group and name."""
