"""The version, apart so that any layer may read it."""

from __future__ import annotations

__version__ = "0.4.0"
