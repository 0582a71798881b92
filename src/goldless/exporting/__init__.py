"""Results in other tools' formats: one module per format."""

from __future__ import annotations
