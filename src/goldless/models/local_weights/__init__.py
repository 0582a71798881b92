"""Hugging Face causal language models as scorer and chat model: ``hf:NAME_OR_PATH``."""

from __future__ import annotations

from goldless.models.local_weights.model import HfModel

__all__ = ["HfModel", "open_hf"]

open_hf = HfModel.from_specification
"""The model of an ``hf:`` specification."""
