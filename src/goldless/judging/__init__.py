"""Judging: asking models for verdicts on responses."""

from __future__ import annotations
