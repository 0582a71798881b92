"""The sample study that comes with goldless."""

from __future__ import annotations

from pathlib import Path


def sample_study() -> Path:
    """Folder of the sample study: 14 tasks and 6 invented agents of visibly different quality, written by us."""
    return Path(__file__).parent / "sample"
