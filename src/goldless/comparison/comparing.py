"""``goldless compare``: the paired difference of two agents, what pulls which way, and what it would take to decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from goldless.comparison.pairing import Paired, Run, Sides, known_metric, open_sides, paired_scores
from goldless.errors import UserError
from goldless.evidence import TOKENS
from goldless.metrics.information_map import sentence_gains
from goldless.metrics.metric import OverPeers
from goldless.models.embedded import TokenTexts
from goldless.reports.document import Result, cells, written_property
from goldless.reports.findings import comparative
from goldless.reports.report_table import Column, ReportTable
from goldless.sentences import split_sentences
from goldless.statistics.bootstrap import FLAT, Draws, Estimate
from goldless.statistics.comparisons import too_few_tasks
from goldless.statistics.deciding import more_tasks, outlook
from goldless.statistics.effects import paired_d
from goldless.statistics.sign_flips import alpha_of, mean_test

SHOWN = 3
"""Tasks per direction."""
EXCERPT = 90
"""Characters of a text that are shown."""


@dataclass(frozen=True)
class PulledSentence:
    """A sentence of a peer's response that one of the two agents makes more predictable than the other does."""

    peer: str
    text: str
    gain_nats: float
    """Second agent minus first."""


@dataclass(frozen=True)
class TaskPull:
    """One task on which the two agents differ most."""

    task: str
    difference: float
    """Second agent minus first."""
    first: float
    second: float
    sentence: PulledSentence | None
    """The sentence with the largest share in the difference; None: the evidence has no tokens, or no tokenizer."""
    first_text: str
    second_text: str
    """The beginnings of the two responses."""


def task_pulls(sides: Sides, paired: Paired) -> tuple[TaskPull, ...]:
    """The three tasks with the largest differences for the second agent, then the three for the first."""
    differences = paired.differences
    up = [i for i in np.argsort(-differences, kind="stable")[:SHOWN] if differences[i] > 0]
    down = [i for i in np.argsort(differences, kind="stable")[:SHOWN] if differences[i] < 0]
    known = known_metric(paired.metric)
    needs = None if known is None else known.needs.logprobs
    # a metric that takes log-probabilities of the responses as they are
    plain = needs is not None and needs.text != "rewrites" and needs.synopsis is None and bool(paired.peer_names)
    found, tokens = [], TokenTexts()
    for i in (*up, *down):
        task = paired.tasks[i]
        sentence = _pulled_sentence(sides, paired, tokens, task, up=bool(differences[i] > 0)) if plain else None
        texts = [" ".join((side.run.text(task, side.agent) or "").split()) for side in sides]
        begun = [text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1].rstrip()}…" for text in texts]
        scores = float(differences[i]), float(paired.first[i]), float(paired.second[i])
        found.append(TaskPull(task, *scores, sentence, *begun))
    return tuple(found)


def _pulled_sentence(sides: Sides, paired: Paired, tokens: TokenTexts, task: str, *, up: bool) -> PulledSentence | None:
    """The sentence of a common peer that gains most in this direction, by the stored log-probabilities of tokens."""
    before, after = (_token_nats(side.run, task, side.agent) for side in sides)
    found: list[PulledSentence] = []
    for key in [key for key in after if key in before]:
        peer, scorer, _ = key
        text = sides.first.run.text(task, peer)
        if peer not in paired.peer_names or text is None or text != sides.second.run.text(task, peer):
            continue
        split, sentences = tokens.pieces(scorer, text), split_sentences(text)
        if split is None or not len(split) == len(before[key]) == len(after[key]) or not sentences:
            continue
        gains = sentence_gains(split, sentences, after[key], before[key])
        found += [PulledSentence(peer, one.text, gain) for one, gain in zip(sentences, gains, strict=True)]
    signed = [one for one in found if (one.gain_nats > 0) == up]
    return max(signed, key=lambda one: abs(one.gain_nats), default=None)


def _token_nats(run: Run, task: str, agent: str) -> dict[tuple[str, str, str], list[float]]:
    """Values of each token of a peer's response given the agent's, by peer, scorer and template."""
    plain = pl.col("rewriter").is_null() & pl.col("synopsis").is_null() & pl.col(TOKENS).is_not_null()
    mine = (pl.col("task") == task) & (pl.col("given") == agent) & plain
    wanted = ("target", "scorer", "template", TOKENS)
    rows = run.rows("logprobs", lambda table: table.filter(mine).select(wanted))
    return {tuple(key): values for *key, values in rows.iter_rows()}


@dataclass(frozen=True)
class MetricDifference:
    """The second agent minus the first under one metric, on common tasks."""

    metric: str
    unit: str
    first: float | None
    second: float | None
    """Scores: in one run those of its leaderboard, in two means on the common tasks over common peers."""
    difference: Estimate
    """Over the common tasks with both scores."""
    effect: float | None
    """The difference in standard deviations of the task differences; how sure it is, the difference's interval says."""
    p: float | None
    """Two-sided sign-flip test of no difference; below 1 - level exactly if the interval excludes zero."""
    left_out: int
    """Common tasks without both scores."""
    peers: OverPeers | None
    peer_names: tuple[str, ...]
    more_tasks: int | None
    """The number of more tasks that decides in 80% of cases; 0: decided; None: too far to say."""
    skewed: bool
    """True if it would be decided if the differences were not skewed."""
    signature: str
    pulls: tuple[TaskPull, ...] = ()
    notes: tuple[str, ...] = ()

    @written_property
    def decided(self) -> bool:
        return self.p is not None and self.p < alpha_of(self.difference.level)

    @written_property
    def outlook(self) -> str:
        """Decided, or what it would take."""
        if self.decided:
            return "decided"
        return f"undecided: {outlook(self.difference.n, self.more_tasks, skewed=self.skewed)}"

    def cells(self, **more: Any) -> dict[str, Any]:
        """A row of a table."""
        return cells(self, "difference", **{"d": self.effect, "outcome": self.outlook, **more})


@dataclass(frozen=True)
class PairedComparison(Result):
    """Two agents of one run or of two, compared on their common tasks."""

    first: str
    second: str
    """Names that tell the two apart; differences are second minus first."""
    runs: tuple[str, ...]
    """Folders: one, or that of each."""
    metrics: tuple[MetricDifference, ...]
    warnings: tuple[str, ...] = ()

    def metric(self, name: str) -> MetricDifference:
        found = [one for one in self.metrics if one.metric == name]
        if not found:
            raise UserError(f"{name!r} was not compared. Compared: {', '.join(one.metric for one in self.metrics)}")
        return found[0]

    def _decimals(self) -> int:
        """Two, or three if all scores are small."""
        ends = [
            abs(x)
            for one in self.metrics
            for x in (one.first, one.second, one.difference.low, one.difference.high)
            if x is not None
        ]
        return 3 if max(ends, default=0.0) < 2 else 2

    def tables(self) -> list[ReportTable]:
        return [self.table(), *([self.pulls_table()] if self.metrics[0].pulls else [])]

    def table(self) -> ReportTable:
        interval = f"{self.metrics[0].difference.level * 100:g}% interval"
        digits = self._decimals()
        columns = (
            Column("metric", "metric"),
            Column("first", self.first, "number", decimals=digits),
            Column("second", self.second, "number", decimals=digits),
            Column("difference", "difference", "signed", decimals=digits),
            Column("low high", interval, "signed interval", decimals=digits),
            Column("d", "d", "signed", decimals=2),
            Column("p", "p", "probability"),
            Column("n", "tasks", "count"),
            Column("left_out", "left out", "count", wide=True),
            Column("more_tasks", "more tasks", "count", wide=True),
            Column("outcome", "outcome", wide=True),
            Column("unit", "unit", wide=True),
            Column("peers", "peers", wide=True),
        )
        rows = tuple(one.cells() for one in self.metrics)
        notes = tuple(f"{one.metric}: {self._sentence(one)}" for one in self.metrics)
        signatures = dict.fromkeys(one.signature for one in self.metrics)
        return ReportTable(f"{self.second} minus {self.first}", columns, rows, " || ".join(signatures), notes)

    def _sentence(self, one: MetricDifference) -> str:
        difference = one.difference
        if difference.value is None:
            return "no common task has both scores"
        if not one.decided:
            return too_few_tasks(difference.n) or one.outlook
        better, worse = (self.second, self.first) if difference.value > 0 else (self.first, self.second)
        return f"{better} is {comparative(one.metric)} than {worse}"

    def pulls_table(self) -> ReportTable:
        """The tasks with the largest differences either way, by the first metric."""
        one = self.metrics[0]
        sentences = any(pull.sentence is not None for pull in one.pulls)
        digits = self._decimals()
        columns = (
            Column("task", "task", "name"),
            Column("difference", "difference", "signed", decimals=digits),
            Column("first", self.first, "number", decimals=digits, wide=True),
            Column("second", self.second, "number", decimals=digits, wide=True),
            # why: the sentences of peers, or else the beginnings of the two responses
            *[Column("sentence", "a peer's sentence that one predicts better")] * sentences,
            Column("first_text", f"{self.first} says", wide=sentences),
            Column("second_text", f"{self.second} says", wide=sentences),
        )
        rows = [cells(pull) for pull in one.pulls]
        for row, pull in zip(rows, one.pulls, strict=True):
            if (found := pull.sentence) is not None:
                better = self.second if found.gain_nats > 0 else self.first
                row["sentence"] = (
                    f"{better} gives {abs(found.gain_nats):.2f} nats more about {found.peer}'s: {found.text}"
                )
        return ReportTable(f"{one.metric}: tasks that pull most", columns, tuple(rows))


def compare_runs(
    folders: Sequence[Path | str],
    *,
    agents: Sequence[str] = (),
    metrics: Sequence[str] = (),
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
) -> PairedComparison:
    """Compare two agents of one run folder, or of two: the second minus the first, on common tasks."""
    sides = open_sides(folders, agents)
    paired = [paired_scores(sides, metric) for metric in sides.common_metrics(metrics)]
    return compared(sides, paired, {"seed": seed, "resamples": resamples, "level": level})


def compared(sides: Sides, paired: Sequence[Paired], draws: Draws) -> PairedComparison:
    """The comparison of two agents by their paired scores under each metric."""
    return PairedComparison(
        *sides.names,
        runs=tuple(str(run.path) for run in sides.runs),
        metrics=tuple(difference(one, task_pulls(sides, one), draws) for one in paired),
        warnings=tuple(dict.fromkeys(line for one in paired for line in one.warnings)),
    )


def difference(paired: Paired, pulls: Sequence[TaskPull], draws: Draws) -> MetricDifference:
    """The difference of paired scores, with interval, effect size and test."""
    values, level = paired.differences, draws["level"]
    alpha, n = alpha_of(level), len(values)
    test = mean_test(values, draws)
    p, plain_p = test.p(), test.p(skewed=False)
    decided = p is not None and p < alpha
    interval = test.interval(level, paired.limits)
    if interval.method == "exact" and decided != interval.excludes(0.0):
        # it allows for tasks that were not seen, which no sign flip does
        interval = replace(interval, low=None, high=None, method=None, note=FLAT)
    effect = paired_d(values, level=level)
    more = 0 if decided else more_tasks(values, alpha=alpha)
    return MetricDifference(
        metric=paired.metric,
        unit=paired.unit,
        first=float(paired.first.mean()) if n else None,
        second=float(paired.second.mean()) if n else None,
        difference=interval,
        effect=effect.value,
        p=p,
        left_out=paired.left_out,
        peers=paired.peers,
        peer_names=paired.peer_names,
        more_tasks=more,
        skewed=not decided and plain_p is not None and plain_p < alpha,
        signature=paired.signature,
        pulls=tuple(pulls),
        notes=tuple(note for note in (interval.note, effect.note) if note),
    )
