"""Aggregates of the rows of a group in their order: the same bits on any number of threads.

Polars adds the rows of a group in one part per thread, with or without ``maintain_order``, and floats added in another
order differ in the last digit. A list is added by one thread.
"""

from __future__ import annotations

import polars as pl


def sum_in_order(values: pl.Expr) -> pl.Expr:
    """Sum of the values that are not null."""
    return values.implode().list.sum()


def mean_in_order(values: pl.Expr) -> pl.Expr:
    """Mean of the values that are not null; null if there is none."""
    return values.implode().list.mean()


def sd_in_order(values: pl.Expr) -> pl.Expr:
    """Standard deviation (n - 1) of the values that are not null; null if there are fewer than two."""
    return values.implode().list.std()
