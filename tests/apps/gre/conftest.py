"""Fixtures of several files: an edition of two papers, and a study whose papers scripted models review."""

from __future__ import annotations

from edition_folders import asking, edition
from reviewed_papers import folder, generate

__all__ = ["asking", "edition", "folder", "generate"]
