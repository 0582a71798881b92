"""Sentences: where a text is cut into them."""

from __future__ import annotations
