"""Estimates as cells and columns of tables: a value with its interval."""

from __future__ import annotations

from typing import Any

from goldless.reports.report_table import Column
from goldless.statistics.bootstrap import Estimate


def estimate_cells(**estimates: Estimate | None) -> dict[str, Any]:
    """Cells of a row: each estimate's value, low, high and n, under its name."""
    found: dict[str, Any] = {}
    for name, one in estimates.items():
        if one is not None:
            found |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high, f"{name}_n": one.n}
    return found


def estimate_columns(
    name: str, heading: str, level: float, *, signed: bool = False, absent: str | None = None
) -> tuple[Column, Column]:
    """The columns of an estimate's value and of its interval."""
    interval, ends = f"{level * 100:g}%", f"{name}_low {name}_high"
    if signed:
        return (
            Column(name, heading, "signed", absent, 2),
            Column(ends, interval, "signed interval", absent, 2),
        )
    return Column(name, heading, "number", absent or "missing", 2), Column(ends, interval, "interval", absent, 2)
