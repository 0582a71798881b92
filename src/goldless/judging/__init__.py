"""Judging: putting responses to a model that says what it thinks of them."""

from __future__ import annotations
