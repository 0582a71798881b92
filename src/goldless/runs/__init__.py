"""Runs: the pipeline, its results, and the folder they are written to."""

from __future__ import annotations
