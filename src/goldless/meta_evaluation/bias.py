"""Bias: what a reviewer, a panel or a metric favours besides quality, with intervals over tasks.

A measure is the mean of a value over some rows of one frame of votes (``pairwise``); docs/bias.md defines each.

*Position*: share of pairs whose verdict changes with the order, 1 - Pc of Auto-PRE; share of decided verdicts for the
response shown first. *Length* and *format*: how often the one with more of it wins, over pairs that people tied, over
those that they decided (the mean of the rates where they prefer the one with more and the one with less), and over all.
*Preference gap* (PRE, equation 2): PG(i, j) = P_i(i ≻ j) - P_j(i ≻ j), for reviewers i and j that are agents as well,
over the pairs that both judged; PG(j, i) is the same number. *Own-family wins*: less those by reviewers of neither
agent's family, and by people, on the same pairs. *Favour rate* (Auto-PRE, equation 5): over the tasks on which people
find two agents tied or prefer the second, the share of verdicts for the first.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from goldless.arrays import FloatArray
from goldless.errors import MetricError, UserError, check_known, listed, suggested
from goldless.evidence import JUDGEMENTS, empty
from goldless.judging.judges import find_judge
from goldless.meta_evaluation.judges import (
    PAIR,
    Orders,
    draws_of,
    judgements_hash,
    metric_judges,
    people_votes,
    recorded_scales,
    toward,
    verdicts,
    votes,
)
from goldless.metrics.chair import voting_weights
from goldless.metrics.judgement_table import NEITHER, PairJudgements, judgement_arrays
from goldless.metrics.label_agreement import Kind, panel_judge, reviewer_judges
from goldless.reports.document import InMemory, Result, cells, written_property
from goldless.reports.findings import Name, Said
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.evaluation import Evaluation
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study, review_study
from goldless.runs.review_evidence import People, recorded_review, reviewer_family, what_people_said
from goldless.runs.review_outcome import Review
from goldless.signature import Signature
from goldless.statistics.bootstrap import FEW_TASKS, FLAT, Draws, Estimate, task_intervals, task_shares
from goldless.studies import Study

Bias = Literal["position", "length", "format", "self-preference", "family preference", "favour rate"]
JudgeKind = Kind | Literal["people", "reviewers"]
ROUNDING = 1e-12
"""A sum of squares below this share of the squares themselves is rounding."""
STAR = "*: with at least ten tasks, the interval excludes the value of no bias"


@dataclass(frozen=True, kw_only=True)
class BiasRow(Estimate):
    """One number about one judge; its interval is from resampling tasks."""

    bias: Bias
    judge: str
    kind: JudgeKind
    measure: str
    """The meaning of the value, in words."""
    neutral: float | None
    """The value of a judge without this bias; None: not known, for example because better responses may be longer."""
    asked: int
    """Number of pairs, verdicts or responses that the measure is about."""
    n_tasks: int = 0
    ties: int = 0
    """Number of those used that found neither better."""
    about: str | None = None
    """The agents it is about, if given."""
    pair: tuple[str, str] | None = None
    """For a preference gap: the two reviewers."""

    @property
    def used(self) -> int:
        return self.n

    @property
    def missing(self) -> int:
        """Requested but not used: unparsable, refused, or without a score."""
        return self.asked - self.n

    @written_property
    def shown(self) -> bool | None:
        """True if the interval excludes the neutral value.

        None: there is no interval or no neutral value, or there are fewer than ten tasks, too few to trust it.
        """
        if self.neutral is None or self.low is None or self.high is None or self.n_tasks < FEW_TASKS:
            return None
        return not self.low <= self.neutral <= self.high

    def cells(self, **more: Any) -> dict[str, Any]:
        """A row of a table."""
        return cells(self, used=self.used, missing=self.missing, shown=self.shown, **more)


COLUMNS = (
    *("bias", "judge", "kind", "measure", "about", "value", "low", "high", "neutral", "shown", "asked", "used"),
    *("missing", "ties", "n_tasks", "level", "method", "note"),
)
"""Columns of the CSV."""


@dataclass(frozen=True)
class Unavailable:
    """A bias that could not be measured, and why."""

    bias: Bias
    reason: str
    judges: tuple[str, ...] = ()
    """The judges concerned; empty: all."""


Found = Iterator[BiasRow | Unavailable]


@dataclass(frozen=True)
class Coverage:
    """The share of what was requested from a judge that is present."""

    judge: str
    kind: JudgeKind
    of: str
    """The things counted: judgements, or responses scored."""
    asked: int
    used: int

    @property
    def missing(self) -> int:
        """Unparsable, refused, failed or without a score."""
        return self.asked - self.used


@dataclass(frozen=True)
class BiasReport(Result):
    """The biases of reviewers, their panel and metrics on one study."""

    study: str
    fingerprint: str
    scale: str
    convention: str
    orders: str
    level: float
    reviewers: tuple[str, ...]
    weights: Mapping[str, float]
    """Weights of the panel's vote; empty: there is no panel."""
    metrics: tuple[str, ...]
    labels: Mapping[str, int]
    """Labelled pairs: all, decided, tied; empty: no labels."""
    coverage: tuple[Coverage, ...]
    rows: tuple[BiasRow, ...]
    unavailable: tuple[Unavailable, ...]
    notes: tuple[str, ...] = field()
    complete: bool
    """True if no calls are left for another run of the same command."""
    signature: str
    review_signature: str | None = None
    """Of the reviewers' judgements; None: there are none."""
    metric_signatures: Mapping[str, str] = field(default_factory=dict)
    spending: InMemory[tuple[Spending, ...]] = ()
    open: InMemory[int] = 0
    """Number of pieces of evidence missing for a temporary cause: run again."""

    def of(self, bias: Bias) -> tuple[BiasRow, ...]:
        return tuple(row for row in self.rows if row.bias == bias)

    def row(self, bias: Bias, judge: str, measure: str, about: str | None = None) -> BiasRow:
        """One number; raises ``KeyError`` if there is none."""
        for row in self.of(bias):
            if (row.judge, row.measure) == (judge, measure) and about in {None, row.about}:
                return row
        raise KeyError((bias, judge, measure, about))

    def sentences(self) -> Iterator[Said]:
        kind = "reviewer" if any(row.kind == "reviewer" for row in self.rows) else "metric"
        judges = {row.judge for row in self.rows if row.kind == kind}
        tested = [row for row in self.rows if row.judge in judges and None not in (row.neutral, row.value)]
        if not tested:
            yield ("No bias could be tested.",)
            return
        yield (f"{len({row.judge for row in tested if row.shown})} of {len(judges)} {kind}s show a bias.",)
        parts: list[str | Name] = []
        for bias in dict.fromkeys(row.bias for row in tested):
            rows = [row for row in tested if row.bias == bias]
            shown = [row for row in rows if row.shown]
            whose = len({row.judge for row in rows})
            parts += ["; "] * bool(parts)
            if shown:
                worst = max(shown, key=lambda row: abs((row.value or 0.0) - (row.neutral or 0.0)))
                parts += [f"{bias}: {len({row.judge for row in shown})} of {whose}, most ", Name(worst.judge)]
                parts.append(f" ({worst.measure} {worst.value:.3f}, unbiased {worst.neutral:g})")
            else:
                parts.append(f"{bias}: shown by none of {whose}")
        yield (*parts, ".")

    def to_csv(self) -> str:
        made = {name: f"{self.signature} {own}" for name, own in self.metric_signatures.items()}
        rows = tuple(row.cells(signature=made.get(row.judge, self.signature)) for row in self.rows)
        return ReportTable("", tuple(Column(name, name) for name in (*COLUMNS, "signature")), rows).to_csv()

    def tables(self) -> list[ReportTable]:
        columns = (
            Column("judge", "judge", "name"),
            Column("of", ""),
            *(Column(name, name, "figure") for name in ("asked", "used", "missing")),
        )
        signed = " || ".join(filter(None, [self.signature, self.review_signature, *self.metric_signatures.values()]))
        coverage = tuple(cells(row, missing=row.missing) for row in self.coverage)
        tables = [ReportTable("Coverage", columns, coverage, signed)]
        for bias in get_args(Bias):
            tables += [table for _, table in self.measures(self.of(bias))]
        return [*tables, self.unavailable_table()] if self.unavailable else tables

    def unavailable_table(self) -> ReportTable:
        columns = (Column("bias", "bias"), Column("judges", "judges", absent="all"), Column("reason", "reason"))
        rows = tuple(cells(one, judges=", ".join(one.judges) or None) for one in self.unavailable)
        return ReportTable("Not measured", columns, rows)

    def measures(self, rows: Iterable[BiasRow]) -> list[tuple[list[BiasRow], ReportTable]]:
        """The rows of one bias by measure, with the table of each."""
        groups: dict[tuple[str, str | None], list[BiasRow]] = {}
        for row in rows:
            groups.setdefault((row.measure, row.about if row.bias == "favour rate" else None), []).append(row)
        return [(group, self._table(group, about)) for (_, about), group in groups.items()]

    def _table(self, rows: Sequence[BiasRow], about: str | None) -> ReportTable:
        """One measure; ``about``: what all its rows are about."""
        named = about is None and any(row.about not in (None, row.judge) for row in rows)
        neutral = rows[0].neutral
        signed = neutral == 0.0
        columns = (
            Column("judge", "judge", "name"),
            *[Column("about", "family", "name", "")] * named,
            Column("value", "value", "signed" if signed else "number", "missing"),
            Column("low high", f"{self.level * 100:g}% interval", "signed interval" if signed else "interval", "-"),
            Column("used", "n", "figure"),
            Column("missing asked", "missing", "fraction", data=not any(row.missing for row in rows)),
            Column("ties", "ties", "figure", data=not any(row.ties for row in rows)),
            Column("n_tasks", "tasks", "figure"),
            Column("star", "", absent="", data=not any(row.shown for row in rows)),
        )
        values = tuple(row.cells(star="*" if row.shown else None) for row in rows)
        notes = [STAR] * any(row.shown for row in rows)
        for note in dict.fromkeys(row.note for row in rows if row.note):
            notes.append(f"{listed(row.judge for row in rows if row.note == note)}: {note}")
        title = f"{rows[0].bias.capitalize()}{'' if about is None else f' of {about}'}: {rows[0].measure}"
        if neutral is not None:
            title += f" (no bias: {neutral:g})"
        return ReportTable(title, columns, values, self.signature, tuple(notes))


# --- who is asked ----------------------------------------------------------------------------------------------------


async def find_bias(
    study: Study,
    options: Options,
    *,
    favours: Sequence[str | tuple[str, str]] = (),
    weights: Mapping[str, float] | None = None,
    orders: Orders = "each",
) -> BiasReport:
    """Measure what reviewers, their panel and the metrics of the options favour besides quality, with intervals.

    ``options.review.reviewers``: names of reviewers with recorded judgements, or models to ask; empty: all recorded
    ones. ``options.scoring.metrics`` may be empty. ``favours``: pairs of agents, ``FIRST:SECOND``. ``weights``: of the
    panel's vote; only these reviewers vote. ``orders``: of the favour rate. Biases that the study has no data for are
    listed with the reason.
    """
    find_judge(options.review.scale)
    if weights is not None and not (weights and all(weight >= 0 for weight in weights.values())):
        named = ", ".join(f"{name}={weight:g}" for name, weight in weights.items()) or "none"
        raise UserError(f"weights must be of at least one reviewer and not negative, got {named}. Leave out the others")
    draws_of(options)
    agents = study.agent_list
    pairs = read_favours(favours, agents)
    # what a reviewer makes of its own kind is what is looked for
    reviewing = options.changed(own_family=True, families={})
    people = what_people_said(study, reviewing)
    rows, reviewers, reason, review = await _judgements(study, reviewing)
    if not options.scoring.metrics and not len(rows):
        raise MetricError(
            f"nothing to test for bias: {reason}, and no metric was given. Name metrics with --metric, "
            "reviewers with --reviewers, or another --scale"
        )
    check_known(options.review.families, [*agents, *reviewers], "--family: no agent or reviewer", "Known")
    evaluation = None
    if options.scoring.metrics:
        spent = sum(row.cost_usd or 0.0 for row in (review.spending if review is not None else ()))
        left = None if options.models.budget_usd is None else max(0.0, options.models.budget_usd - spent)
        evaluation = await evaluate_study(study, options.changed(budget_usd=left))
    search = _Search(study, options, people, rows, reviewers, reason, evaluation, weights, orders)
    parts = [search.position(), *(search.feature(*one) for one in FEATURES), search.gaps(), search.families()]
    found = [one for part in (*parts, search.favours(pairs)) for one in part]
    paid = [one for one in (review, evaluation) if one is not None]
    outcomes = {} if evaluation is None else evaluation.outcomes
    labels = people.labels
    counted = {} if labels is None else {"pairs": labels.n_pairs, "decided": labels.n_decided, "tied": labels.n_ties}
    return BiasReport(
        study=study.name,
        fingerprint=study.fingerprint,
        scale=options.review.scale,
        convention=options.labels.convention,
        orders=orders,
        level=options.statistics.level,
        reviewers=reviewers,
        weights=search.panel,
        metrics=tuple(outcomes),
        labels=counted,
        coverage=tuple(search.coverage()),
        rows=tuple(one for one in found if isinstance(one, BiasRow)),
        unavailable=tuple(one for one in found if isinstance(one, Unavailable)),
        notes=tuple(search.notes()),
        complete=not any(one.open for one in paid),
        signature=str(Signature("bias", search.settings())),
        review_signature=None if review is None else review.signature,
        metric_signatures={name: outcome.signature for name, outcome in outcomes.items()},
        spending=tuple(row for one in paid for row in one.spending),
        open=sum(one.open for one in paid),
    )


def read_favours(given: Sequence[str | tuple[str, str]], agents: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of agents, each ``FIRST:SECOND`` or two names; names can contain colons."""
    found, problems = [], []
    for one in given:
        parts = one.split(":") if isinstance(one, str) else []
        splits = [(":".join(parts[:i]).strip(), ":".join(parts[i:]).strip()) for i in range(1, len(parts))]
        splits += [] if isinstance(one, str) else [one]
        pair = next((pair for pair in splits if set(pair) <= set(agents)), next(iter(splits), ("", "")))
        if strange := [name for name in pair if name not in agents and splits]:
            problems.append(f"--favours {one!r}: no agent {strange[0]!r}{suggested(strange[0], agents, 'Agents')}")
        elif len(set(pair)) < 2:
            problems.append(f"--favours must be two different agents as FIRST:SECOND, got {one!r}")
        else:
            found.append(pair)
    if problems:
        raise UserError("\n".join(problems))
    return list(dict.fromkeys(found))


async def _judgements(study: Study, options: Options) -> tuple[pl.DataFrame, tuple[str, ...], str, Review | None]:
    """The judgements of the reviewers, their names, why there would be none, and the review of those that are asked.

    The given reviewers (default: all) are recorded ones; other names are models, which are asked.
    """
    recorded = recorded_scales(study)
    known = recorded.get(options.review.scale, [])
    given: Any = options.review.reviewers
    if not given and not known:
        others = f" (there are some on {', '.join(recorded)})" if recorded else ""
        return empty(JUDGEMENTS), (), f"no judgements on the scale {options.review.scale}{others}", None
    listed = [] if isinstance(given, Mapping) else list(given)
    names = [one for one in listed if options.models.recorded or one in known]
    asked = given if isinstance(given, Mapping) else [one for one in listed if one not in names]
    tables = [empty(JUDGEMENTS)]
    if names or not given:
        found = recorded_review(
            study, scale=options.review.chosen_scale, reviewers=names, convention=options.labels.convention
        )
        tables.append(found.judgements)
    review = await review_study(study, options.changed(reviewers=asked)) if asked else None
    if review is not None:
        tables.append(review.judgements)
    # names are of the categories of their study, or plain text where there are none
    rows = pl.concat([table.cast(pl.Schema(JUDGEMENTS)) for table in tables])
    return rows, tuple(dict.fromkeys([*names, *rows["reviewer"]])), "there are no judgements by the reviewers", review


# --- the search ------------------------------------------------------------------------------------------------------


@dataclass
class _Search:
    """All votes, and how they are counted."""

    study: Study
    options: Options
    said: People
    rows: pl.DataFrame
    """Judgements."""
    reviewers: tuple[str, ...]
    reason: str
    """The reason why there would be no judgements."""
    evaluation: Evaluation | None
    weights: Mapping[str, float] | None
    orders: Orders

    def __post_init__(self) -> None:
        self.agents, self.draws = self.study.agent_list, draws_of(self.options)
        self.table, judges = None, metric_judges(self.evaluation, self.study)
        self.panel: dict[str, float] = {}
        if len(self.rows):
            how: dict[str, Any] = {"convention": self.options.labels.convention}
            names = {"reviewers": self.reviewers, "tasks": self.study.tasks, "agents": self.agents}
            self.table = judgement_arrays(self.rows, **names)
            if self.weights is not None or len(self.reviewers) > 1:
                self.panel = voting_weights(self.reviewers, self.weights)
                judges = [panel_judge(self.table, weights=self.weights, **how), *judges]
            judges = [*reviewer_judges(self.table, **how), *judges]
        self.scored = [judge for judge in judges if judge.compared is None]
        self.votes = pl.concat(map(votes, judges))
        self.each = pl.concat(verdicts(judge, "each") for judge in judges).filter(kind="reviewer")
        self.verdicts = pl.concat(verdicts(judge, self.orders) for judge in judges)
        self.people = None if self.said.labels is None else people_votes(self.said.labels)
        self.labels = None if self.people is None else self.people.select(*PAIR, said="vote")

    def coverage(self) -> Iterator[Coverage]:
        """Numbers of judgements and scores that are present, whatever the convention."""
        if self.table is not None:
            for name, asked, value in zip(self.table.reviewers, self.table.asked, self.table.value, strict=True):
                yield Coverage(name, "reviewer", "judgements", int(asked.sum()), int(np.sum(~np.isnan(value))))
        for name, outcome in ({} if self.evaluation is None else self.evaluation.outcomes).items():
            rows = outcome.responses
            yield Coverage(name, "metric", "responses", len(rows), rows["score"].count())

    def notes(self) -> Iterator[str]:
        evaluation, labels = self.evaluation, self.said.labels
        if evaluation is not None and evaluation.raters is not None:
            yield f"{evaluation.raters.metric} does not score responses, so it has no bias of these kinds"
        if labels is not None and labels.n_contradicted:
            yield f"ratings and preferences contradict each other on {labels.n_contradicted} pairs; ratings decide"
        if self.weights is not None and self.table is None:
            yield f"the weights of {', '.join(self.weights)} were not used: {self.reason}"

    def settings(self) -> dict[str, str]:
        options, labels = self.options, self.said.labels
        asked: dict[str, str] = {}
        if self.table is not None:
            asked = {
                "scale": find_judge(options.review.scale).name,
                "reviewers": ",".join(self.reviewers),
                "panel": ",".join(f"{name}={weight:.4g}" for name, weight in self.panel.items()) or "none",
                "orders": self.orders,
                "convention": options.labels.convention,
                "evidence": judgements_hash(self.rows),
            }
        families = ",".join(f"{name}={family}" for name, family in options.review.families.items())
        return {
            **asked,
            **({"labels": "none"} if labels is None else {"pairs": labels.rule}),
            **({} if options.labels.criterion is None else {"criterion": options.labels.criterion}),
            **({"families": families} if families else {}),
            "length": "log2(1+words)",
            "format": "headings+lists+bold+tables",
            "level": f"{options.statistics.level:g}",
            "resamples": str(options.statistics.resamples),
            "seed": str(options.statistics.seed),
            "study": self.study.fingerprint[:8],
        }

    # --- from values to rows

    def _share(self, items: pl.DataFrame, lowest: float = 0.0) -> Estimate:
        """The mean of the values that are not missing, with an interval by tasks."""
        used = items.drop_nulls("value")
        values = used["value"].cast(pl.Float64).to_numpy()
        (share,) = task_shares(values[None], used["task"].to_numpy(), lowest=lowest, **self.draws)
        return share

    def _mean_of_shares(self, shares: Sequence[pl.DataFrame], lowest: float = 0.0) -> Estimate:
        """The mean of shares, each the mean of its own values by task, null left out, with an interval by tasks.

        All have equal weight, however many values each has. A share's task values are share + (S_t - share N_t) T /
        Σ N, as in ``task_shares``: the same mean, and the same spread to first order. Their mean is taken task by task,
        so that all are resampled together.
        """
        used = [one.drop_nulls("value") for one in shares]
        n = sum(map(len, used))
        if not used or not all(map(len, used)):
            return Estimate(None, None, None, n, self.options.statistics.level, "one side has no judgement")
        places = np.unique(np.concatenate([one["task"].to_numpy() for one in used]))
        linear = np.zeros(len(places))
        for one in used:
            task = np.searchsorted(places, one["task"].to_numpy())
            count = np.bincount(task, minlength=len(places))
            sums = np.bincount(task, weights=one["value"].to_numpy(), minlength=len(places))
            share = float(sums.sum() / count.sum())
            linear += (share + (sums - share * count) * len(places) / count.sum()) / len(shares)
        (found,) = task_intervals(linear[:, None], **self.draws)
        return replace(found, n=n, n_tasks=len(places)).within(lowest, 1.0)

    def _rows(
        self,
        items: pl.DataFrame,
        *,
        lowest: float = 0.0,
        without_ties: bool = False,
        balanced: bool = False,
        **said: Any,
    ) -> Iterator[BiasRow]:
        """The mean of each judge's values. ``items``: judge, kind, task, vote (0.5 is a tie) and value.

        ``balanced``: the mean of the shares where people prefer one side and where they prefer the other.
        """
        for (judge, kind), every in items.group_by("judge", "kind", maintain_order=True):
            ties = int((every["vote"] == NEITHER).sum())
            own = every.filter(pl.col("vote").ne_missing(NEITHER)) if without_ties else every
            note = f"ties left out: {ties}" if without_ties and ties else None
            sides = [own.filter(pl.col("said") == side) for side in (1, 0)] if balanced else []
            share = _noted(self._mean_of_shares(sides) if balanced else self._share(own, lowest), note)
            yield BiasRow(**asdict(share) | {"judge": judge, "kind": kind, "asked": len(own), "ties": ties} | said)

    # --- which was shown first

    def position(self) -> Found:
        table = self.table
        if not isinstance(table, PairJudgements):
            alone = "ratings are of one response at a time, so there is no order"
            yield Unavailable("position", self.reason if table is None else alone)
            return
        pair = ("judge", "kind", *PAIR)
        both = self.each.filter(pl.len().over(pair) == 2)
        if silent := tuple(name for name in table.reviewers if name not in set(both["judge"])):
            yield Unavailable("position", "judgements are in one order only. Ask for both orders of every pair", silent)
        vote, whole = pl.col("vote"), pl.col("heard").all()
        changes = pl.when(vote.first() != vote.last()).then(1.0).otherwise(0.0)
        if self.options.labels.convention != "default":
            changes = pl.when((vote == NEITHER).any()).then(NEITHER).otherwise(changes)
        pairs = both.group_by(pair, maintain_order=True).agg(
            value=pl.when(vote.null_count() == 0).then(changes),
            vote=pl.when(whole & (vote == NEITHER).any()).then(NEITHER),
        )
        said: dict[str, Any] = {"bias": "position", "measure": "flips when the order is swapped", "neutral": None}
        yield from self._rows(pairs, **said)
        for_first = pl.when("first").then(vote).otherwise(1 - vote)
        shown = both.with_columns(vote=pl.when(whole.over(pair)).then(for_first))
        said |= {"measure": "decided for the one shown first", "neutral": NEITHER}
        yield from self._rows(shown.with_columns(value="vote"), without_ties=True, **said)

    # --- which has more of a feature

    def feature(self, bias: Bias, more: str, scale: str, count: Callable[[str], float]) -> Found:
        """``more``: the word for a response with more of it; ``scale``: the meaning of what is counted in a text."""
        names = {"task": self.study.task_names, "agent": self.study.agent_names}
        long = self.study.response_table.select(
            *(pl.col(name).cast(kind).to_physical().cast(pl.Int64) for name, kind in names.items()),
            x=pl.Series([count(text) for text in self.study.response_table["text"]], dtype=pl.Float64),
        )
        pairs = long.join(long, on="task", suffix="_high").filter(
            pl.col("agent") < pl.col("agent_high"), pl.col("x") != pl.col("x_high")
        )
        pairs = pairs.select("task", low="agent", high="agent_high", turned=pl.col("x") < pl.col("x_high"))
        if not len(pairs):
            yield Unavailable(bias, f"no two responses to a task differ in {scale}")
            return
        items = self._beside(self.votes, pairs).with_columns(value=toward("vote"))
        wins = f"{more} wins"
        if self.labels is None:
            yield Unavailable(bias, "no labels, so only the raw rate is shown; better responses may have more of it")
        else:
            labelled = self._beside(items, self.labels).with_columns(said=toward("said"))
            tied = labelled.filter(pl.col("said") == NEITHER)
            yield from self._rows(tied, bias=bias, measure=f"{wins}, tied by people", neutral=NEITHER)
            if not len(tied):
                yield Unavailable(bias, f"no judged pair with different {scale} is tied by people")
            decided = labelled.filter(pl.col("said") != NEITHER)
            said: dict[str, Any] = {"bias": bias, "measure": f"{wins}, adjusted", "neutral": NEITHER}
            yield from self._rows(decided, balanced=True, **said)
        ratings = self.said.ratings
        given, neutral = ("within tasks", None) if ratings is None else ("at equal rating", 0.0)
        for one in self.scored:
            share, asked = within_correlation(one.response_scores.score, long, ratings, draws=self.draws)
            said = {"judge": one.name, "kind": one.kind, "neutral": neutral, "asked": asked}
            yield BiasRow(**asdict(share), bias=bias, measure=f"correlation with {scale}, {given}", **said)
        if self.people is not None:
            people = self._beside(self.people, pairs).with_columns(value=toward("vote"))
            items = pl.concat([items, people])
        yield from self._rows(items, bias=bias, measure=f"{wins}, all pairs", neutral=None)

    # --- one's own, and one's own kind

    def _between(self, frame: pl.DataFrame, first: str, second: str) -> pl.DataFrame:
        """The rows about two agents; ``turned``: whether the first has the higher number."""
        places = self.agents.index(first), self.agents.index(second)
        return frame.filter(low=min(places), high=max(places)).with_columns(turned=pl.lit(places[0] > places[1]))

    @staticmethod
    def _beside(frame: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
        return frame.join(other, on=PAIR, suffix="_other", maintain_order="left")

    def gaps(self) -> Found:
        """The preference gap of every two reviewers that are also agents, and their mean."""
        bias: Bias = "self-preference"
        if self.table is None:
            yield Unavailable(bias, self.reason)
            return
        own = [name for name in self.reviewers if name in self.agents]
        if others := tuple(name for name in self.reviewers if name not in self.agents):
            yield Unavailable(bias, "no agent with the same name", others)
        said: dict[str, Any] = {"bias": bias, "measure": "preference gap", "kind": "reviewers", "neutral": 0.0}
        gaps: list[tuple[BiasRow, pl.DataFrame]] = []
        silent = []
        for one, other in itertools.combinations(own, 2):
            pairs = self._between(self.votes.filter(kind="reviewer"), one, other).with_columns(vote=toward("vote"))
            both = self._beside(*(pairs.filter(judge=name) for name in (one, other)))
            gap = both.select("task", value=pl.col("vote") - pl.col("vote_other"))
            if not len(gap):
                silent.append(f"{one}, {other}")
                continue
            share = self._share(gap, lowest=-1.0)
            row = BiasRow(**asdict(share), **said, judge=f"{one}, {other}", asked=len(gap), pair=(one, other))
            gaps.append((row, gap))
        if silent:
            yield Unavailable(bias, "no pair that both reviewers judged", tuple(silent))
        elif not gaps:
            yield Unavailable(bias, "a preference gap needs two reviewers that are also agents")
        yield from (row for row, _ in gaps)
        if len(gaps) > 1:
            known = [(row.value, gap) for row, gap in gaps if row.value is not None]
            note = f"{sum(value > 0 for value, _ in known)} of {len(known)} gaps above 0"
            if len(known) < len(gaps):
                note += f"; {len(gaps) - len(known)} not defined"
            share = _noted(self._mean_of_shares([gap for _, gap in known], lowest=-1.0), note)
            yield BiasRow(**asdict(share), **said, judge="mean of all", asked=sum(row.asked for row, _ in gaps))

    def families(self) -> Found:
        """Each reviewer's view of its own family's responses, compared with other reviewers and people."""
        bias: Bias = "family preference"
        if self.table is None:
            yield Unavailable(bias, self.reason)
            return
        given = self.options.review.families
        of_agents = {one.agent: given.get(one.agent) or one.family or one.agent for one in self.study.agents}
        of_reviewers = {name: reviewer_family(name, None, given, of_agents) for name in self.reviewers}
        by_number = dict(enumerate(of_agents.values()))
        family = pl.col("judge").replace_strict(of_reviewers)
        every = self.votes.filter(kind="reviewer").with_columns(
            of_low=pl.col("low").replace_strict(by_number) == family,
            turned=pl.col("high").replace_strict(by_number) == family,
        )
        others = every.filter(~pl.col("of_low"), ~pl.col("turned")).drop_nulls("vote")
        others = others.group_by(PAIR).agg(said=pl.col("vote").mean())
        mine = every.filter(pl.col("of_low") != pl.col("turned")).with_columns(value=toward("vote"))
        compared = {"other reviewers": others} | ({} if self.labels is None else {"people": self.labels})
        alone = []
        for (name,), own in mine.group_by("judge", maintain_order=True):
            said: dict[str, Any] = {"bias": bias, "about": of_reviewers[str(name)]}
            yield from self._rows(own, measure="own family wins", neutral=None, **said)
            for whose, heard in compared.items():
                beside = self._beside(own, heard)
                alone += [str(name)] * (heard is others and not len(beside))
                less = beside.with_columns(value=pl.col("value") - toward("said"), vote=pl.lit(None, pl.Float64))
                yield from self._rows(less, lowest=-1.0, measure=f"own family wins, less {whose}", neutral=0.0, **said)
        speaking = set(mine["judge"])
        if lacking := tuple(name for name in self.reviewers if name not in speaking):
            reason = "no judged pair of an agent of its family and another. Set families in the agents table or with "
            yield Unavailable(bias, f"{reason}--family", lacking)
        if alone:
            yield Unavailable(bias, "no reviewer outside both families judged the same pairs", tuple(alone))
        if self.people is None and len(mine):
            yield Unavailable(bias, "no labels, so there is no comparison with people")

    # --- a named agent

    def favours(self, pairs: Sequence[tuple[str, str]]) -> Found:
        """Rate and accuracy of every judge for the first agent of each given pair, compared with the second."""
        bias: Bias = "favour rate"
        if not pairs or self.labels is None:
            yield Unavailable(bias, "no labels" if pairs else "no two agents were given (--favours FIRST:SECOND)")
            return
        for first, second in pairs:
            about = f"{first} over {second}"
            human = self._between(self.labels, first, second).with_columns(said=toward("said"))
            if not len(human.filter(pl.col("said") <= NEITHER)):
                yield Unavailable(bias, f"{about}: people always prefer {first}, or there are no labels")
                continue
            items = self._beside(self.verdicts, human).with_columns(vote=toward("vote"))
            unfavoured = items.filter(pl.col("said") <= NEITHER)
            heard = set(unfavoured["judge"])
            decided = items.filter(pl.col("said") != NEITHER, pl.col("judge").is_in(list(heard)))
            favours = (pl.col("vote") > NEITHER).cast(pl.Float64)
            earned = (1 + (pl.col("vote") - NEITHER).sign() * (pl.col("said") - NEITHER).sign()) / 2
            for measure, rows in (
                ("favours the first though people do not", unfavoured.with_columns(value=favours)),
                ("accuracy on pairs people decided", decided.with_columns(value=earned)),
            ):
                yield from self._rows(rows, bias=bias, measure=measure, neutral=None, about=about)
            if silent := tuple(name for name in dict.fromkeys(self.verdicts["judge"]) if name not in heard):
                yield Unavailable(bias, f"{about}: not judged where people see a tie or prefer {second}", silent)


def _noted(share: Estimate, note: str | None) -> Estimate:
    return replace(share, note="; ".join(filter(None, (share.note, note))) or None)


# --- features of texts ------------------------------------------------------------------------------------------------


def within_correlation(
    scores: FloatArray, feature: pl.DataFrame, ratings: FloatArray | None, *, draws: Draws
) -> tuple[Estimate, int]:
    """Correlation of scores [tasks, agents] and feature within groups of one task and one rating, None: one task.

    Also how many responses it is about. Groups are within tasks, so sums of squares and products are sums over tasks,
    S_t, and whole tasks are resampled. The interval is that of Fisher's z = artanh r as the mean over the T tasks of
    z + T (Sxy_t / sqrt(Sxx Syy) - r / 2 (Sxx_t / Sxx + Syy_t / Syy)) / (1 - r²), which has the same value, and the same
    spread to first order. Groups in which the feature is the same for all carry no information and are left out.
    """
    place = feature["task"].to_numpy(), feature["agent"].to_numpy()
    label = np.zeros(len(feature)) if ratings is None else ratings[place]
    more = pl.DataFrame({"label": label, "y": scores[place]}, nan_to_null=True)
    rows = feature.select("task", "x").hstack(more).drop_nulls("label")
    group = ("task", "label")
    varies = pl.col("x").max().over(group) > pl.col("x").min().over(group)
    about = rows.filter(varies)
    used = about.drop_nulls("y").filter(varies)
    asked, n, level = len(about), len(used), draws["level"]
    if not n:
        note = "no two responses to a task with the same label differ in this feature"
        return Estimate(None, None, None, 0, level, note), asked
    x, y = (pl.col(name) - pl.col(name).mean().over(group) for name in ("x", "y"))
    products = used.select("task", xx=x * x, yy=y * y, xy=x * y)
    sums = products.group_by("task", maintain_order=True).sum().drop("task").to_numpy()
    xx, yy, xy = sums.sum(axis=0)
    if yy <= ROUNDING * np.sum(used["y"].to_numpy() ** 2):
        note = "the score does not vary at equal label"
        return Estimate(None, None, None, n, level, note, n_tasks=len(sums)), asked
    r = float(xy / np.sqrt(xx * yy))
    if 1 - abs(r) <= ROUNDING:
        note = "no interval: the score is an exact function of the feature"
        return Estimate(r, None, None, n, level, note, n_tasks=len(sums)), asked
    influence = sums[:, 2] / np.sqrt(xx * yy) - r / 2 * (sums[:, 0] / xx + sums[:, 1] / yy)
    linear = np.arctanh(r) + len(sums) * influence / (1 - r**2)
    (found,) = task_intervals(linear[:, None], **draws)
    if found.low is None or found.high is None or found.low == found.high:
        return Estimate(r, None, None, n, level, found.note or FLAT, n_tasks=found.n), asked
    low, high = (float(np.tanh(end)) for end in (found.low, found.high))
    return Estimate(r, low, high, n, level, None, found.method, found.n), asked


# Chinese and Japanese are written without spaces: each sign stands for a word
_SIGN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_SIGN}]|[^\W{_SIGN}]+(?:['\u2019-][^\W{_SIGN}]+)*")

FORMAT_MARKS: Mapping[str, re.Pattern[str]] = {
    "headings": re.compile(r"^[ ]{0,3}#{1,6}[ \t]+\S|<h[1-6]\b", re.MULTILINE | re.IGNORECASE),
    "list items": re.compile(
        r"^[ \t]*(?:[-*+\u2022\u2023\u25e6\u25aa]|\d{1,3}[.)])[ \t]+\S|<li\b", re.MULTILINE | re.IGNORECASE
    ),
    "bold": re.compile(r"\*\*[^*\n]+\*\*|(?<!\w)__[^_\n]+__(?!\w)|<(?:b|strong)>", re.IGNORECASE),
    "table rows": re.compile(r"^[ \t]*\|[^\n]*\|[ \t]*$", re.MULTILINE),
}
"""Marks that are counted: Markdown, plain bullets and their HTML equivalents."""


def count_words(text: str) -> int:
    """Number of words; "don't" and "well-known" are one word each, as is each Chinese or Japanese character."""
    return sum(1 for _ in _WORD.finditer(text))


def count_format_marks(text: str) -> int:
    """Number of headings, list items, bold passages and table rows."""
    return sum(1 for pattern in FORMAT_MARKS.values() for _ in pattern.finditer(text))


FEATURES: tuple[tuple[Bias, str, str, Callable[[str], float]], ...] = (
    ("length", "longer", "log words", lambda text: math.log2(1 + count_words(text))),
    ("format", "more marked-up", "format marks", count_format_marks),
)
"""Each with the word for a response that has more of it, and the meaning of what is counted."""
