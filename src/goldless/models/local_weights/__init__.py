"""Hugging Face causal language models as scorer and chat model: ``hf:NAME_OR_PATH``."""

from __future__ import annotations

from goldless.models.local_weights.model import HfModel
from goldless.models.local_weights.specification import parse_specification

__all__ = ["HfModel", "open_hf"]


def open_hf(written: str) -> HfModel:
    """The model of an ``hf:`` specification."""
    return HfModel(parse_specification(written))
