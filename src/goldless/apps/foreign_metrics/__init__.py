"""Metrics of promptfoo, DeepEval and Inspect as metrics of goldless, each tool in a module of its own."""

from __future__ import annotations

ADDS = {
    "goldless.metric_forms": {
        "promptfoo": "goldless.apps.foreign_metrics.promptfoo:FORM",
        "deepeval": "goldless.apps.foreign_metrics.deepeval:FORM",
        "inspect": "goldless.apps.foreign_metrics.inspect:FORM",
    },
}
"""Parts that the app adds to goldless, by group and name."""
