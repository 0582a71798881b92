"""Fine-tuning: train a scorer to predict responses with the prompts used for scoring (GEM, appendix E)."""

from __future__ import annotations
