"""GGUF models on this machine: checkpoint, graphs, tokenizer, engine."""

from __future__ import annotations
