"""How well a model predicts the held-out tasks, before and after it was trained; by the path that scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from goldless.evidence import LOGPROBS, empty
from goldless.finetuning.examples import task_questions
from goldless.finetuning.splitting import TaskTexts
from goldless.runs.collection import QUESTIONS_TOGETHER, task_groups
from goldless.scoring import ScoringJob, ScoringStage, score_together
from goldless.statistics.bootstrap import task_intervals

Term = Literal["conditional", "marginal", "difference"]
Key = tuple[str | None, str, str, str | None]
"""Synopsis, task, target, given."""


@dataclass(frozen=True, slots=True)
class Change:
    """A mean over tasks before and after, and the change with its interval over tasks."""

    before: float | None
    after: float | None
    change: float | None
    low: float | None
    high: float | None
    note: str | None = None
    """Why there is no interval."""


@dataclass(frozen=True, slots=True)
class HeldOutRow:
    """The log-likelihood of held-out texts in one way of asking, in nats; higher is better predicted."""

    metric: Literal["gem", "gem-s"]
    term: Term
    """``conditional``: given another response; ``marginal``: given none; ``difference``: what the first adds."""
    tasks: int
    asked: int
    """Texts that were to be predicted, each once for every response given."""
    missing: int
    tokens: int
    """Tokens of those that were, before as after."""
    per_token: Change | None
    """Of a task: its nats over its tokens. None for a difference."""
    per_response: Change
    """Of a task: its nats over its texts predicted."""


async def held_out_evidence(
    tasks: Sequence[TaskTexts], stages: Sequence[ScoringStage], *, done: Callable[[int], None] = lambda _: None
) -> pl.DataFrame:
    """The log-probabilities of every marginal and pair of the held-out tasks; ``done`` hears how many tasks are.

    A scorer that is faster with many is asked about many tasks in one call, as when it scores a study.
    """
    by_task = [[ScoringJob(stage, each.task, each.texts, task_questions(each)) for stage in stages] for each in tasks]
    least = QUESTIONS_TOGETHER if stages and stages[0].scorer.capabilities.together else 1
    found = [empty(LOGPROBS)]
    for places in task_groups([sum(len(job.questions) for job in jobs) for jobs in by_task], least):
        jobs = [job for place in places for job in by_task[place]]
        found.append(await score_together(jobs))
        done(places.stop)
    return pl.concat(found)


def compare_held_out(
    before: pl.DataFrame,
    after: pl.DataFrame,
    *,
    seed: int = 42,
    resamples: int = 10_000,
    level: float = 0.95,
) -> list[HeldOutRow]:
    """What the training changed, row by row. A text that one of the two could not predict is missing in both."""
    first, second = _by_key(before), _by_key(after)
    both = {key: (first[key], second[key]) for key in first if _there(first[key]) and _there(second.get(key))}
    intervals = {"seed": seed, "resamples": resamples, "level": level}
    rows: list[HeldOutRow] = []
    for synopsis in dict.fromkeys(key[0] for key in first):
        metric: Literal["gem", "gem-s"] = "gem" if synopsis is None else "gem-s"
        for term in ("conditional", "marginal"):
            asked = [k for k in first if k[0] == synopsis and (k[3] is None) == (term == "marginal")]
            used = {key: both[key] for key in asked if key in both}
            rows.append(_row(metric, term, len(asked), used, intervals))
        pairs = [k for k in first if k[0] == synopsis and k[3] is not None]
        rows.append(_difference(metric, pairs, both, intervals))
    return rows


class Predicted(NamedTuple):
    """One text as it was predicted."""

    sum_nats: float | None
    """None: it could not be."""
    tokens: int


Pairs = Mapping[Key, tuple[Predicted, Predicted]]


def _by_key(rows: pl.DataFrame) -> dict[Key, Predicted]:
    columns = rows.select("synopsis", "task", "target", "given", "sum_logprob_nats", pl.col("tokens").fill_null(0))
    return {(z, task, y, x): Predicted(total, tokens) for z, task, y, x, total, tokens in columns.iter_rows()}


def _there(row: Predicted | None) -> bool:
    return row is not None and row.sum_nats is not None


def _row(
    metric: Literal["gem", "gem-s"],
    term: Literal["conditional", "marginal"],
    asked: int,
    used: Pairs,
    intervals: Mapping[str, float],
) -> HeldOutRow:
    tokens = {key: one.tokens for key, (one, _) in used.items()}
    sums = {key: (one.sum_nats or 0.0, other.sum_nats or 0.0) for key, (one, other) in used.items()}
    return HeldOutRow(
        metric=metric,
        term=term,
        tasks=len({key[1] for key in used}),
        asked=asked,
        missing=asked - len(used),
        tokens=sum(tokens.values()),
        per_token=_change(sums, tokens, intervals),
        per_response=_change(sums, dict.fromkeys(used, 1), intervals),
    )


def _difference(
    metric: Literal["gem", "gem-s"], pairs: Sequence[Key], both: Pairs, intervals: Mapping[str, float]
) -> HeldOutRow:
    """What a response given adds to the log-likelihood of another: the mean pointwise mutual information."""
    sums: dict[Key, tuple[float, float]] = {}
    tokens = 0
    for key in pairs:
        alone = both.get((*key[:3], None))
        given = both.get(key)
        if alone is not None and given is not None:
            before, after = ((g.sum_nats or 0.0) - (a.sum_nats or 0.0) for g, a in zip(given, alone, strict=True))
            sums[key] = (before, after)
            tokens += given[0].tokens
    return HeldOutRow(
        metric=metric,
        term="difference",
        tasks=len({key[1] for key in sums}),
        asked=len(pairs),
        missing=len(pairs) - len(sums),
        tokens=tokens,
        per_token=None,
        per_response=_change(sums, dict.fromkeys(sums, 1), intervals),
    )


def _change(
    sums: Mapping[Key, tuple[float, float]], sizes: Mapping[Key, int], intervals: Mapping[str, float]
) -> Change:
    """Means over tasks of sums over sizes, and of their change."""
    by_task: dict[str, list[float]] = {}
    for key, (before, after) in sums.items():
        total = by_task.setdefault(key[1], [0.0, 0.0, 0.0])
        total[0] += before
        total[1] += after
        total[2] += sizes[key]
    if not by_task:
        return Change(None, None, None, None, None, "no task could be scored")
    table = np.array([[before / size, after / size] for before, after, size in by_task.values()])
    (interval,) = task_intervals(
        table[:, 1:] - table[:, :1],
        seed=int(intervals["seed"]),
        resamples=int(intervals["resamples"]),
        level=intervals["level"],
    )
    before, after = (float(x) for x in table.mean(axis=0))
    return Change(before, after, interval.mean, interval.low, interval.high, interval.note)
