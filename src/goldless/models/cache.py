"""Where goldless keeps what it downloads and what it has paid for."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def models_folder() -> Path:
    """Folder of downloaded and converted models; may be deleted at any time, it is then made again."""
    home = os.environ.get("GOLDLESS_HOME")
    return (Path(home) if home else platformdirs.user_cache_path("goldless", appauthor=False)) / "models"


def default_journal() -> Path:
    """The journal used where none is named; holds paid results, so it lies with the user's data, not in a cache."""
    home = os.environ.get("GOLDLESS_HOME")
    return (Path(home) if home else platformdirs.user_data_path("goldless", appauthor=False)) / "journal.sqlite"


def compiled_folder() -> Path:
    """Folder of code compiled for this machine's graphics card; may be deleted at any time, it is then made again."""
    return models_folder().parent / "compiled"
