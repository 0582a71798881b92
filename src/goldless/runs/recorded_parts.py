"""Recorded tables that do not fit memory: on disk in parts of whole tasks, checked and described part by part."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import polars as pl

from goldless.evidence import LargeTable, failure_counts, failure_examples
from goldless.metrics.metric import Metric
from goldless.runs.recorded import (
    LOGPROB_KEY,
    LOGPROB_NAMES,
    LOGPROB_WAYS,
    LOGPROBS_HASHED,
    VERDICT_KEY,
    VERDICT_NAMES,
    VERDICTS_HASHED,
    checked_logprobs,
    checked_verdicts,
    logprob_rows,
    no_logprobs,
    of_one_critic,
    of_one_scorer,
    refuse_means,
    verdict_rows,
)
from goldless.runs.recorded_table import ROWS_IN_MEMORY, RecordedTable, find_table
from goldless.signature import TableHash
from goldless.studies import Study


def large_table(study: Study, name: str) -> RecordedTable | None:
    """The study's table of this name, if it has too many rows for memory."""
    table = find_table(study, name)
    return None if table is None or table.height <= ROWS_IN_MEMORY else table


def large_logprobs(
    table: RecordedTable, metrics: Sequence[Metric], scorer: str | None, templates: Sequence[str]
) -> LargeTable:
    """The log-probabilities of one scorer, for the given templates or all. Raises like ``usable_logprobs``."""
    seen: list[pl.DataFrame] = []

    def checked(rows: pl.DataFrame) -> pl.DataFrame:
        found = checked_logprobs(table, rows).drop("tokens", "texts")
        sums = pl.col("sum_logprob_nats").is_not_null()
        means = pl.col("mean_token_logprob_nats").is_not_null()
        seen.append(found.group_by(LOGPROB_WAYS, maintain_order=True).agg(sums=sums.any(), means=means.any()))
        return found

    parts = table.read_in_parts(logprob_rows(table), LOGPROB_NAMES, checked)
    if not parts.height:
        raise no_logprobs(table.study, metrics)
    ways = pl.concat(seen)
    chosen = of_one_scorer(table.study, ways, scorer, templates)
    if chosen["means"].any() and not chosen["sums"].any():
        refuse_means(table.study, metrics)
    keep = _only(ways, chosen, ("scorer", "template"))
    found = LargeTable(parts, keep)
    return _described(table, found, key=LOGPROB_KEY, hashed=LOGPROBS_HASHED, ways=LOGPROB_WAYS)


def large_verdicts(table: RecordedTable, critic: str | None, prompt: str | None) -> LargeTable:
    """The verdicts of one critic on one prompt. Raises like ``recorded_verdicts``."""
    seen: list[pl.DataFrame] = []

    def checked(rows: pl.DataFrame) -> pl.DataFrame:
        found = checked_verdicts(table, rows).with_columns(pl.col("read_from").cast(pl.Categorical))
        seen.append(found.select("critic", "prompt").unique(maintain_order=True))
        return found.with_columns(matched=pl.col("task") == pl.col("second_task"))

    parts = table.read_in_parts(verdict_rows(table), VERDICT_NAMES, checked)
    ways = pl.concat(seen)
    keep = _only(ways, of_one_critic(table.study, ways, critic, prompt), ("critic", "prompt"))
    how = ("critic", "prompt")
    found = LargeTable(parts, keep)
    return _described(
        table, found, key=(*how, *VERDICT_KEY), hashed=VERDICTS_HASHED, ways=(*how, "read_from", "matched")
    )


def _only(ways: pl.DataFrame, chosen: pl.DataFrame, columns: Sequence[str]) -> pl.Expr | None:
    """What the chosen rows have in common; None: all rows are chosen."""
    if len(ways) == len(chosen):
        return None
    return reduce(lambda a, b: a & b, (pl.col(name).is_in(chosen[name].unique().to_list()) for name in columns))


def _described(
    table: RecordedTable, found: LargeTable, *, key: Sequence[str], hashed: Sequence[str], ways: Sequence[str]
) -> LargeTable:
    """The table with what signatures and messages say of it, read once more."""
    digits, counts = TableHash(), []
    for whole in found.parts:
        table.check_once(whole, key)
        rows = found.kept(whole)
        digits.add(rows.select(hashed))
        counts.append(rows.group_by(ways, maintain_order=True).len())
        found.failures.update(failure_counts(rows))
        found.examples.update(failure_examples(rows))
    found.ways = pl.concat(counts).group_by(ways, maintain_order=True).agg(pl.col("len").cast(pl.Int64).sum())
    found.hash = digits.digits()
    return found
