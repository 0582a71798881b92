"""Fixtures of several files: editions of two papers, and a study whose papers scripted models review."""

from __future__ import annotations

from tests.apps.gre.edition_folders import asking, collected, edition
from tests.apps.gre.reviewed_papers import folder, generate

__all__ = ["asking", "collected", "edition", "folder", "generate"]
