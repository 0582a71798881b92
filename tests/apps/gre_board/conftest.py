"""Fixtures of several files: editions of two papers."""

from __future__ import annotations

from tests.apps.gre.edition_folders import asking, collected, edition

__all__ = ["asking", "collected", "edition"]
