"""Fine-tuning: train a scorer to predict responses with the prompts used for scoring (GEM, appendix E)."""

from __future__ import annotations

ADDS = {
    "goldless.verbs": {
        "finetune": (
            "Apps",
            "Train an adapter that makes a scorer predict responses better.",
            "goldless.apps.finetune.commands",
        ),
    },
}
"""Parts that the app adds to goldless, by group and name."""
