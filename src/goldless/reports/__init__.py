"""Reports: results as tables."""

from __future__ import annotations
