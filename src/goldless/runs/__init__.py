"""Runs: the pipeline, its results, and the folder they are kept in."""

from __future__ import annotations
