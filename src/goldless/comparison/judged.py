"""The verdicts behind a judged score: which questions about the two agents were asked, and what was decided.

A verdict of a critic, or of a reviewer on two responses, is the side of one half that its answer is on. Where reviewers
rate single responses, a verdict is which of the two agents a reviewer rates higher on a task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from goldless.comparison.pairing import Side, Sides
from goldless.comparison.run_scores import ReviewedMetric, Run, Scored
from goldless.errors import GoldlessError, UserError
from goldless.evidence import OPEN_KINDS, TABLES, Schema
from goldless.files import write_table
from goldless.judging.judges import find_judge
from goldless.metrics.catalogue import find_metric
from goldless.reports.run_folder import RunFolder

REPEATS = "repeats"
"""The folder of a run with the answers of the second asking, in the tables and columns of the first."""
NO_VERDICT = "none"


class Question(NamedTuple):
    """The number of a run, and what identifies a row of evidence in it."""

    run: int
    judge: str
    way: str
    """The scale, or the critic's prompt."""
    task: str
    first: str | None
    second: str | None
    other: str | None
    """The agent that was rated, or the task of a critic's second response."""


Answer = float | str | None
"""A value; ``none``: the judge gave no verdict; None: not asked, or the call failed and can be made again."""
Unit = tuple[Question, ...]
"""The questions that make one verdict."""
KEYS = {
    "judgements": ("reviewer", "format", "task", "first", "second", "agent"),
    "verdicts": ("critic", "prompt", "task", "first", "second", "second_task"),
}
AGENTS = {"judgements": ("first", "second", "agent"), "verdicts": ("first", "second")}
Table = Literal["judgements", "verdicts"]


@dataclass(frozen=True, eq=False)
class Judged:
    """The questions about two agents under a judged metric."""

    sides: Sides
    metric: str
    table: Table
    scale: str | None = None
    """Of reviewers."""
    rates: bool = False
    """Whether single responses are rated."""
    voters: tuple[str, ...] = ()
    """Reviewers that count; empty: all."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """One run, or that of each agent."""
        return tuple(dict.fromkeys((self.sides.first.run, self.sides.second.run)))

    def agents(self, number: int) -> tuple[str, ...]:
        """The agents that are compared in the run of that number, with their samples."""
        sides: tuple[Side, ...] = (self.sides.first, self.sides.second)
        mine = (side for side in sides if side.run is self.runs[number])
        return tuple(name for side in mine for name in side.run.samples[side.agent])

    @cached_property
    def asked(self) -> dict[Question, Answer]:
        """The first asking: what the runs' scores are computed from."""
        return self._answers([run.path for run in self.runs])

    @cached_property
    def units(self) -> list[Unit]:
        """The verdicts on the two agents."""
        if not self.rates:
            return [(question,) for question in self.asked]
        first, second = self.sides.first, self.sides.second
        numbers = [self.runs.index(side.run) for side in (first, second)]
        pairs: list[Unit] = []
        for question in self.asked:
            if (question.run, question.other) == (numbers[0], first.agent):
                other = question._replace(run=numbers[1], other=second.agent)
                if other in self.asked:
                    pairs.append((question, other))
        return pairs

    def outcome(self, unit: Unit, answers: Mapping[Question, Answer]) -> str | None:
        """The verdict; None: a question of it has no answer yet."""
        found = [answers.get(question) for question in unit]
        if any(answer is None for answer in found):
            return None
        values = [answer for answer in found if isinstance(answer, float)]
        if len(values) < len(found):
            return NO_VERDICT
        lean = values[1] - values[0] if self.rates else values[0] - 0.5
        return "tie" if lean == 0 else "second" if (lean > 0) == self.rates else "first"

    def answered_again(self, folders: Sequence[Path] = ()) -> dict[Question, Answer]:
        """The second asking: of the folders given, one per run, or as kept with each run."""
        return self._answers(folders or [run.path / REPEATS for run in self.runs])

    def sample(self, n: int, seed: int) -> list[Unit]:
        """Units drawn without replacement; a larger n only adds to those of a smaller one."""
        order = np.random.default_rng(seed).permutation(len(self.units))
        return [self.units[i] for i in order[:n]]

    def keep(self, number: int, rows: pl.DataFrame) -> None:
        """Add answers to those kept with a run."""
        folder = self.runs[number].path / REPEATS
        stored = RunFolder(folder).scan(self.table)
        before = [] if stored is None else [stored.select(*self._schema).collect()]
        whole = pl.concat([*before, rows]).unique(KEYS[self.table], keep="last", maintain_order=True)
        folder.mkdir(exist_ok=True)
        write_table(whole.lazy(), folder, self.table)

    @property
    def _schema(self) -> Schema:
        return TABLES[self.table]

    def _answers(self, folders: Sequence[Path]) -> dict[Question, Answer]:
        found: dict[Question, Answer] = {}
        for number, folder in enumerate(folders):
            for row in self._rows(number, folder).iter_rows():
                *key, value, failure = row
                found[Question(number, *key)] = _answer(value, failure)
        return found

    def _rows(self, number: int, folder: Path) -> pl.DataFrame:
        """Key, value and failure of the rows about the agents of a run."""
        key = KEYS[self.table]
        table = RunFolder(folder).scan(self.table)
        if table is None:
            return pl.DataFrame(schema={**dict.fromkeys(key, pl.String), "value": pl.Float64, "failure": pl.String})
        there = table.collect_schema().names()
        lacking = [name for name in (*key[:3], "value") if name not in there]
        if lacking:
            raise UserError(f"{folder}: the table {self.table} has no column {', '.join(lacking)}")
        columns = [pl.col(name) if name in there else pl.lit(None, pl.String).alias(name) for name in (*key, "failure")]
        about = pl.any_horizontal(
            pl.col(name).is_in(list(self.agents(number))) for name in AGENTS[self.table] if name in there
        )
        rows = table.with_columns(columns).filter(about.fill_null(value=False))
        if self.scale is not None:
            rows = rows.filter(pl.col("format") == self.scale)
        if self.voters:
            rows = rows.filter(pl.col("reviewer").is_in(list(self.voters)))
        return rows.select(
            *(pl.col(name).cast(pl.String) for name in key), pl.col("value").cast(pl.Float64), "failure"
        ).collect()


def _answer(value: float | None, failure: str | None) -> Answer:
    if value is not None:
        return float(value)
    return None if failure in OPEN_KINDS else NO_VERDICT


def find_judged(sides: Sides, metric: str) -> Judged | None:
    """The verdicts behind a metric of the runs; None: it is not computed from verdicts."""
    scored: Scored = sides.first.run.metrics[metric]
    if isinstance(scored, ReviewedMetric):
        scale = scored.review.scale
        return Judged(sides, metric, "judgements", scale, not find_judge(scale).pairwise, tuple(scored.weights))
    try:
        needs = find_metric(metric).needs
    except GoldlessError:
        return None
    if needs.judgements is not None:
        return Judged(sides, metric, "judgements", needs.judgements, rates=True)
    return Judged(sides, metric, "verdicts") if needs.verdicts is not None else None
