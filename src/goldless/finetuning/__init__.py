"""Fine-tuning: a scorer is trained to predict responses the way it is asked to when it scores (GEM, appendix E)."""

from __future__ import annotations
