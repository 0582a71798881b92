"""Comparisons of two responses by a judge, as tables ``judge_NAME``."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import polars as pl

SCHEMA = {"task": pl.String, "first": pl.String, "second": pl.String, "first_wins": pl.Float64}


class Votes:
    """Comparisons by judge."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def add(self, judge: str, task: str, first: str, second: str, first_wins: float) -> None:
        """Add one comparison; ``first_wins``: 1 the first is better, 0 the second, 0.5 a tie."""
        self._rows[judge].append({"task": task, "first": first, "second": second, "first_wins": first_wins})

    def tables(self) -> dict[str, pl.DataFrame]:
        """A table per judge."""
        return {f"judge_{_safe(judge)}": pl.DataFrame(rows, SCHEMA) for judge, rows in self._rows.items()}


def _safe(name: str) -> str:
    return "".join(ch if ch.isalnum() or ch in "-_." else "_" for ch in name)
