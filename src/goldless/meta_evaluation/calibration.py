"""Calibration: agents' means on the people's scale, from labels on some tasks and proxies on all.

study → labels and proxies checked → metrics computed → estimates, comparisons, corrected shares → the next labels
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import MetricError, UserError, check_known, listed
from goldless.meta_evaluation.agreement import label_criteria
from goldless.meta_evaluation.judges import (
    Given,
    ScoredBy,
    check_unlike,
    draws_of,
    given_judges,
    metric_judges,
    read_table,
    recorded_judges,
    refuse_rater_metrics,
    scoring_judge,
)
from goldless.metrics.label_agreement import Judge
from goldless.metrics.pair_labels import rater_voices
from goldless.reports.document import InMemory, Result, cells, written_property
from goldless.reports.findings import Name, Said
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import SCORES, RunFolder
from goldless.reports.run_record import Spending
from goldless.runs.evaluation import Evaluation, score_table
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.signature import Signature, evidence_hash
from goldless.statistics.bootstrap import Estimate, Limits
from goldless.statistics.comparisons import SIGNIFICANT, holm
from goldless.statistics.prediction_powered import (
    FEWEST,
    PoweredMean,
    Round,
    check_counts,
    check_proxies,
    corrected_share,
    draw_by_size,
    expected_errors,
    powered_mean,
)
from goldless.studies import Study, with_labels
from goldless.studies.checking import all_at_once

RANDOM = "Valid if the labelled tasks are a random draw from all tasks; --next N makes one."
UNLIKE = 0.01
"""Labelled tasks differ from the others if the smallest corrected p is below this."""
AT_RANDOM = "Drawn at random, each task with the same chance. Label the responses of all agents to these tasks."
BY_CHANGE = (
    "Drawn with chances proportional to the expected change: the error to be expected of the prediction of a task's "
    "difference (half that of the labelled tasks with the most similar proxies, half that of all), as root mean square "
    "over the undecided comparisons, each in units of its own spread. Label the responses of all agents to these tasks."
)


@dataclass(frozen=True)
class CalibratedAgent:
    """An agent's mean label over all tasks, estimated from labels and proxies."""

    agent: str
    mean: Estimate
    """``n``: tasks with labels."""
    unlabelled: int
    labels_worth: float
    """Number of labelled tasks that would give the same variance without proxies."""
    label_mean: float
    """Mean of the labels alone, of the tasks drawn at random."""
    missing: int
    """Responses for which a proxy has no score; the agent's mean of that proxy is used."""
    weights: Mapping[str, float]
    """λ of each proxy."""


@dataclass(frozen=True)
class CalibratedComparison:
    """Two agents on the people's scale, on the tasks that both answered."""

    first: str
    second: str
    difference: Estimate
    """Mean of first minus second, from the differences on each task; ``n``: tasks with labels."""
    p: float
    p_holm: float
    """Corrected for all comparisons; below 0.05 the difference is decided."""
    unlabelled: int
    more_labels: int | None
    """Further tasks to label until it is decided, if the difference stays as it is; None: all are not enough."""
    tasks_needed: int | None
    """Tasks, all labelled, that would decide it; None: no number of them."""
    decided: bool

    @written_property
    def verdict(self) -> str:
        if self.decided:
            return f"{self.first if (self.difference.value or 0.0) > 0 else self.second} is better"
        if self.more_labels is not None:
            return f"undecided: about {self.more_labels} more labelled tasks"
        if self.tasks_needed is None:
            return "undecided: no difference"
        return f"undecided: about {self.tasks_needed:,} tasks, all labelled"


@dataclass(frozen=True)
class JudgeShare:
    """An agent's share of good responses by one binary judge, corrected for the judge's errors."""

    agent: str
    judge: str
    share: Estimate
    """``n``: responses without labels."""
    judged: float | None
    """The share that the judge passes, on unlabelled tasks."""
    sensitivity: float | None
    specificity: float | None
    good: int
    """Labelled good responses."""
    bad: int


@dataclass(frozen=True)
class NextLabel:
    """A task to label next."""

    task: str
    chance: float
    """Its chance to be drawn, needed to use its labels."""
    expected_change: float | None
    """Expected effect of its labels on the undecided differences; None: drawn at random, before any label."""


@dataclass(frozen=True)
class Calibration(Result):
    """Agents on the people's scale."""

    study: str
    fingerprint: str
    criterion: str | None
    level: float
    proxies: tuple[str, ...] = ()
    labelled: int = 0
    """Labelled tasks, each for all of its agents."""
    tasks: int = 0
    agents: tuple[CalibratedAgent, ...] = ()
    comparisons: tuple[CalibratedComparison, ...] = ()
    shares: tuple[JudgeShare, ...] = ()
    next_labels: tuple[NextLabel, ...] = ()
    rule: str | None = None
    """The way the next labels were chosen; None: none were requested."""
    notes: tuple[str, ...] = ()
    signature: str = ""
    evaluation: InMemory[Evaluation | None] = None
    """The metrics computed as proxies."""

    @property
    def warnings(self) -> tuple[str, ...]:
        return () if self.evaluation is None else self.evaluation.warnings

    @property
    def spending(self) -> tuple[Spending, ...]:
        return () if self.evaluation is None else self.evaluation.spending

    @property
    def asked(self) -> int:
        return 0 if self.evaluation is None else self.evaluation.asked

    @property
    def open(self) -> int:
        return 0 if self.evaluation is None else self.evaluation.open

    @property
    def by_mean(self) -> list[CalibratedAgent]:
        """The agents, highest mean first."""
        return sorted(self.agents, key=lambda one: -(one.mean.value or 0.0))

    def sentences(self) -> Iterator[Said]:
        if self.agents:
            best = self.by_mean[0]
            ends = f"{best.mean.low:.3f} to {best.mean.high:.3f}"
            yield Name(best.agent), f" has the highest mean label: {best.mean.value:.3f} ({ends})."

    def tables(self) -> list[ReportTable]:
        parts = (self.agents, self._agent_table), (self.comparisons, self._comparison_table)
        others = (self.shares, self._share_table), (self.next_labels, self._next_table)
        return [table() for rows, table in (*parts, *others) if rows]

    def to_markdown(self) -> str:
        return "\n".join([*(table.to_markdown() for table in self.tables()), *(f"- {note}" for note in self.notes), ""])

    def _agent_table(self) -> ReportTable:
        columns = (
            Column("agent", "agent", "name"),
            Column("mean", "mean", "number", decimals=2),
            Column("low high", f"{self.level * 100:g}%", "interval", decimals=2),
            Column("label_mean", "labels alone", "number", decimals=2),
            Column("labelled", "labelled tasks", "count"),
            Column("labels_worth", "worth", "number", decimals=1),
            Column("unlabelled", "unlabelled", "count"),
            Column("missing", "missing", "count", wide=True),
            Column("weights", "weights", wide=True),
        )
        rows = tuple(
            cells(
                agent,
                "mean",
                labelled=agent.mean.n,
                weights=", ".join(f"{name} {weight:.3g}" for name, weight in agent.weights.items()),
            )
            for agent in self.by_mean
        )
        by = ", ".join(self.proxies)
        of = "" if self.criterion is None else f", {self.criterion}"
        return ReportTable(f"Agents on the people's scale{of}, with {by}", columns, rows, self.signature)

    def _comparison_table(self) -> ReportTable:
        columns = (
            *(Column(name, name, "name") for name in ("first", "second")),
            Column("difference", "difference", "signed", decimals=2),
            Column("low high", f"{self.level * 100:g}%", "signed interval", decimals=2),
            Column("p_holm", "p", "probability"),
            Column("verdict", "decision"),
        )
        rows = tuple(cells(one, "difference", verdict=one.verdict) for one in self.comparisons)
        return ReportTable("Which agent do people prefer?", columns, rows, self.signature)

    def _share_table(self) -> ReportTable:
        columns = (
            *(Column(name, name, "name") for name in ("agent", "judge")),
            Column("judged", "passed", "number", decimals=2),
            Column("share", "corrected", "number", decimals=2, reason="note"),
            Column("low high", f"{self.level * 100:g}%", "interval", decimals=2),
            *(Column(name, name, "number", decimals=2) for name in ("sensitivity", "specificity")),
            *(Column(name, name, "count") for name in ("good", "bad")),
        )
        rows = tuple(cells(share, "share") for share in self.shares)
        return ReportTable("Share of good responses, corrected for the judge's errors", columns, rows, self.signature)

    def _next_table(self) -> ReportTable:
        columns = (
            Column("task", "task", "name"),
            *([Column("expected_change", "expected change", "number", decimals=4)] if self.agents else []),
            Column("chance", "chance", "number", decimals=3),
        )
        rows = tuple(map(cells, self.next_labels))
        return ReportTable(f"Label these {len(rows)} tasks next", columns, rows, notes=(self.rule or "",))


# --- calibrating -----------------------------------------------------------------------------------------------------


async def calibrate(
    study: Study,
    options: Options,
    *,
    labels: Any = None,
    scale: str | None = None,
    scores: Given | None = None,
    drawn: Sequence[Path | str] = (),
    next_count: int = 0,
    average: bool = False,
) -> Calibration:
    """Estimate each agent's mean label over all tasks from labels on some of them and proxies on all.

    ``labels``: a file or frame in place of the study's labels. Proxies: ``options.scoring.metrics``, of a run folder
    those it has (all by default); recorded reviewers on a ``scale``; external ``scores``. ``average``: use the mean of
    the standardised proxies as the only one. ``drawn``: files of earlier draws, with their chances. ``next_count``:
    how many tasks to draw to be labelled next; without any label, at random. Everything that can be checked for free
    is checked before any model is called.
    """
    draws_of(options)
    study = study if labels is None else with_labels(study, labels)
    first_draw = bool(next_count) and not study.n_ratings and not study.n_preferences and not drawn
    labelled: BoolArray = np.zeros(len(study), np.bool_)
    criterion: str | None = None
    if not first_draw:
        table, answered, agents, criterion = label_table(study, options.labels.criterion)
        labelled = np.asarray(~np.isnan(table).all(axis=1))
    rounds = read_rounds(drawn, study, labelled)
    unlabelled = int((~labelled).sum())
    if not 0 <= next_count <= unlabelled:
        raise UserError(f"--next must be from 0 to {unlabelled}, the number of tasks without labels, got {next_count}")
    found = Calibration(study.name, study.fingerprint, criterion, options.statistics.level, tasks=len(study))
    if first_draw:
        one = draw_by_size(np.ones(len(study)), next_count, seed=options.statistics.seed)
        chosen = [NextLabel(study.tasks[t], float(c), None) for t, c in zip(one.task, one.chance, strict=True)]
        settings = {"next": str(next_count), "seed": str(options.statistics.seed), "study": study.fingerprint[:8]}
        signature = str(Signature("calibration", settings))
        return replace(found, next_labels=tuple(chosen), rule=AT_RANDOM, signature=signature)
    judges, of_run = proxy_judges(study, options, scale, scores)
    first = int(labelled.sum()) - sum(len(one.task) for one in rounds)
    proxies = len(judges) + (0 if of_run else len(options.scoring.metrics))
    check_counts(first, len(labelled) - first, 1 if average else proxies)
    evaluation = None
    if options.scoring.metrics and not of_run:
        evaluation = await evaluate_study(study, options)
        judges = [*metric_judges(evaluation, study), *judges]
    check_unlike(judges)
    known = study.agent_list
    kept = [known.index(agent) for agent in agents]
    values = np.stack([judge.response_scores.score[:, kept] for judge in judges], axis=2)
    names = tuple(judge.name for judge in judges)
    if average:
        values, names = average_of(values), (f"mean of {'+'.join(names)}",)
    # a missing score becomes the agent's mean of that proxy, which keeps estimates valid; 0 if it has none at all
    lacking = answered[:, :, None] & np.isnan(values)
    filled = np.where(lacking, np.ma.masked_invalid(values).mean(axis=0).filled(0.0), values)
    check_proxies(filled[answered], names)
    data = LabelledData(
        agents, table, answered, filled, lacking.sum(axis=(0, 2)), names, rounds, options.statistics.level
    )
    compared = data.comparisons(options.comparison.baseline)
    notes = data.notes(without=[agent for agent in known if agent not in agents])
    if next_count:
        chosen = next_labels(study.tasks, compared, labelled, next_count, seed=options.statistics.seed + len(rounds))
        found = replace(found, next_labels=tuple(chosen), rule=BY_CHANGE if chosen else None)
        if not chosen:
            notes.append("Every comparison is decided, so no further label would change a decision.")
    settings = {
        **({} if criterion is None else {"criterion": criterion}),
        "labels": evidence_hash([(t, a, v) for t, row in enumerate(table.tolist()) for a, v in enumerate(row)]),
        "proxies": ",".join(names),
        "estimate": "ppi++-by-task",
        "interval": f"t-{options.statistics.level:g}(exact-at-limits)",
        **({"rounds": str(len(rounds))} if rounds else {}),
        "study": study.fingerprint[:8],
    }
    return replace(
        found,
        evaluation=evaluation,
        labelled=int(labelled.sum()),
        proxies=names,
        agents=tuple(map(data.agent, range(len(agents)))),
        comparisons=tuple(one for one, _, _ in compared),
        shares=tuple(data.shares()) if not rounds else (),
        notes=tuple(notes),
        signature=" || ".join([str(Signature("calibration", settings)), *(j.signature for j in judges if j.signature)]),
    )


# --- labels and proxies ----------------------------------------------------------------------------------------------


def label_table(study: Study, criterion: str | None) -> tuple[FloatArray, BoolArray, tuple[str, ...], str | None]:
    """Mean ratings [tasks, agents], who answered, the agents that have labels, and the criterion."""
    if not study.n_ratings:
        has = "only preferences" if study.n_preferences else "no labels"
        raise MetricError(
            f"{study.name} has {has}; calibrating needs ratings. Give --labels FILE with the columns task, agent, "
            "rater, score, or draw the first tasks to label with --next 20"
        )
    known = label_criteria(study, criterion)
    if len(known) > 1:
        several = ", ".join("none" if name is None else name for name in known)
        raise UserError(f"labels must be of one criterion, got {several}. Choose one with --criterion")
    ratings = study.label_table.filter(pl.col("second").is_null(), pl.col("criterion").eq_missing(pl.lit(known[0])))
    by_rater = rater_voices(ratings, tasks=study.tasks, agents=study.agent_list)
    means = by_rater.group_by("task", "low", maintain_order=True).agg(pl.col("value").mean())
    table = np.full((len(study), len(study.agents)), np.nan)
    table[means["task"].to_numpy(), means["low"].to_numpy()] = means["value"].to_numpy()
    answered = ~np.isnan(score_table(study.response_table, study, pl.lit(1.0))) | (not study.n_responses)
    kept = np.flatnonzero(~np.isnan(table).all(axis=0))
    table, answered, agents = table[:, kept], answered[:, kept], tuple(study.agent_list[i] for i in kept)
    lacking = answered & np.isnan(table)
    partly = np.flatnonzero(~np.isnan(table).all(axis=1) & lacking.any(axis=1))
    if len(partly):
        said = [
            f"{study.tasks[t]} (no label for {', '.join(agents[a] for a in np.flatnonzero(lacking[t])[:3])})"
            for t in partly
        ]
        raise UserError(
            f"a task must be labelled for all agents or for none, got {len(partly)} partly labelled: "
            f"{listed(said)}. Label the other responses, or leave these tasks' labels out"
        )
    return table, answered, agents, known[0]


def proxy_judges(study: Study, options: Options, scale: str | None, scores: Given | None) -> tuple[list[Judge], bool]:
    """The proxies that need no model, and whether the metrics are among them because a run folder has their scores."""
    run = None if study.path is None or not (study.path / SCORES).is_file() else study.path
    if run is None:  # of a run folder, its own list says what is known
        refuse_rater_metrics(options, "calibrated")
    named = bool(options.scoring.metrics or options.review.reviewers or scores is not None)
    if run is None and not named:
        raise UserError(
            "nothing to calibrate. Name metrics, recorded reviewers or a file of scores, or give a run folder"
        )
    recorded = recorded_judges(study, list(options.review.reviewers), scale, convention="default", own_family=True)
    judges = [*(one for one in recorded if one.kind != "panel"), *given_judges(scores, study)]
    if run is None or (named and not options.scoring.metrics):
        return judges, False
    scored = ScoredBy.of_run(RunFolder(run))
    known = [one.metric for one in scored]
    check_known(map(str, options.scoring.metrics), known, f"{run} has no metric", "It has")
    names = {"tasks": study.tasks, "agents": study.agent_list}
    of_run = [
        scoring_judge(one.metric, "metric", one.scores, signature=one.signature, **names)
        for one in scored
        if not options.scoring.metrics or one.metric in options.scoring.metrics
    ]
    return [*of_run, *judges], True


def average_of(proxies: FloatArray) -> FloatArray:
    """The mean of the standardised proxies [tasks, agents, 1], over those that have a score of the response."""
    values = np.ma.masked_invalid(proxies)
    spread = values.std(axis=(0, 1))
    scaled = (values - values.mean(axis=(0, 1))) / np.where(spread > 0, spread, 1.0)
    mean: FloatArray = scaled.mean(axis=2, keepdims=True).filled(np.nan)
    return mean


# --- estimates -------------------------------------------------------------------------------------------------------

Compared = tuple[CalibratedComparison, FloatArray, FloatArray]
"""Two agents, with the differences of their labels [tasks] and of their proxies [tasks, k]."""


@dataclass(frozen=True, eq=False)
class LabelledData:
    """Labels and proxies by task and agent."""

    agents: tuple[str, ...]
    labels: FloatArray
    """[tasks, agents], NaN where there is none."""
    answered: BoolArray
    proxies: FloatArray
    """[tasks, agents, proxies], complete where answered."""
    missing: IntArray
    """[agents]: cells that were filled with the agent's mean."""
    names: tuple[str, ...]
    """Of the proxies."""
    rounds: Sequence[Round]
    level: float

    @property
    def labelled(self) -> BoolArray:
        return np.asarray(~np.isnan(self.labels).all(axis=1))

    @property
    def limits(self) -> Limits:
        """The smallest and the largest label that anybody gave."""
        return float(np.nanmin(self.labels)), float(np.nanmax(self.labels))

    def powered(self, labels: FloatArray, proxies: FloatArray, there: BoolArray, limits: Limits) -> PoweredMean:
        number = np.cumsum(there) - 1
        kept = [Round(number[one.task[there[one.task]]], one.chance[there[one.task]]) for one in self.rounds]
        kept = [one for one in kept if len(one.task)]
        return powered_mean(labels[there], proxies[there], rounds=kept, limits=limits, level=self.level)

    def agent(self, a: int) -> CalibratedAgent:
        """The estimated mean of agent number ``a``."""
        try:
            found = self.powered(self.labels[:, a], self.proxies[:, a], self.answered[:, a], self.limits)
        except UserError as error:
            raise UserError(f"{self.agents[a]}: {error}") from error
        return CalibratedAgent(
            agent=self.agents[a],
            mean=found.estimate,
            unlabelled=found.unlabelled,
            labels_worth=found.labels_worth,
            label_mean=found.label_mean,
            missing=int(self.missing[a]),
            weights=dict(zip(self.names, found.weights.tolist(), strict=True)),
        )

    def comparisons(self, baseline: str | None) -> list[Compared]:
        """Every pair of agents, or each with the baseline."""
        pairs = list(itertools.combinations(range(len(self.agents)), 2))
        if baseline is not None:
            check_known([baseline], self.agents, "unknown agent", "Agents with labels")
            own = self.agents.index(baseline)
            pairs = [(own, other) for other in range(len(self.agents)) if other != own]
        width = self.limits[1] - self.limits[0]
        made = []
        for first, second in pairs:
            there = self.answered[:, first] & self.answered[:, second]
            labels = self.labels[:, first] - self.labels[:, second]
            proxies = np.where(there[:, None], self.proxies[:, first] - self.proxies[:, second], np.nan)
            labelled = int((there & self.labelled).sum())
            if labelled >= max(FEWEST, proxies.shape[1] + 2) and there.sum() - labelled >= FEWEST:
                found = self.powered(labels, proxies, there, (-width, width))
                made.append((self.agents[first], self.agents[second], found, labels, proxies))
        alpha = SIGNIFICANT / max(1, len(made))
        compared = []
        corrected = holm([found.p for _, _, found, _, _ in made])
        for (one, other, found, labels, proxies), p_holm in zip(made, corrected, strict=True):
            decided = p_holm is not None and p_holm < SIGNIFICANT
            needed = None if decided else found.labels_to_decide(alpha)
            row = CalibratedComparison(
                first=one,
                second=other,
                difference=found.estimate,
                p=found.p,
                p_holm=found.p if p_holm is None else p_holm,
                unlabelled=found.unlabelled,
                more_labels=None if needed is None else max(1, needed - found.estimate.n),
                tasks_needed=None if decided else found.tasks_to_decide(alpha),
                decided=decided,
            )
            compared.append((row, labels, proxies))
        return compared

    def shares(self) -> Iterator[JudgeShare]:
        """Corrected shares of the judges that only say 0 or 1, where labels do too."""
        labels = self.labels[~np.isnan(self.labels)]
        for judge, said in zip(self.names, np.moveaxis(self.proxies, 2, 0), strict=True):
            if not np.isin([*labels, *said[self.answered]], (0.0, 1.0)).all():
                continue
            for agent, label, verdict, there in zip(self.agents, self.labels.T, said.T, self.answered.T, strict=True):
                rest, good, bad = verdict[there & np.isnan(label)], verdict[label == 1], verdict[label == 0]
                counts = {"n": len(rest), "good": len(good), "bad": len(bad)}
                right = {"good_passed": int(good.sum()), "bad_failed": int((1 - bad).sum())}
                one = corrected_share(passed=int(rest.sum()), **right, **counts, level=self.level)
                passed, hits, misses = (None if one.value is None else float(x.mean()) for x in (rest, good, 1 - bad))
                yield JudgeShare(agent, judge, one, passed, hits, misses, len(good), len(bad))

    def notes(self, *, without: Sequence[str]) -> list[str]:
        """Notes on the labels and proxies; ``without``: agents that have no labels."""
        notes = [RANDOM]
        if without:
            notes.append(f"Without labels, and so left out: {', '.join(without)}.")
        if self.missing.any():
            notes.append(
                f"{int(self.missing.sum())} scores of proxies are missing; the agent's mean of the proxy is used for "
                "them, which keeps the estimate valid."
            )
        first = self.labelled.copy()
        for one in self.rounds:
            first[one.task] = False
        ps = []
        for k in range(len(self.names)):
            by_task = np.nanmean(np.where(self.answered, self.proxies[:, :, k], np.nan), axis=1)
            ps.append(_welch_p(by_task[first & ~np.isnan(by_task)], by_task[~first & ~np.isnan(by_task)]))
        return notes + [
            f"Labelled tasks differ from the others in {name} (p = {p:.2g}): they do not look like a random draw, "
            "so the estimate may be biased."
            for name, p in zip(self.names, holm(ps), strict=True)
            if p is not None and p < UNLIKE
        ]


def _welch_p(first: FloatArray, second: FloatArray) -> float | None:
    """Two-sided p of equal means; None: too few values, or no spread."""
    from scipy.stats import ttest_ind  # noqa: PLC0415 - it takes most of a second to import

    if min(len(first), len(second)) < 2 or not first.var() + second.var():
        return None
    return float(ttest_ind(first, second, equal_var=False).pvalue)


# --- the next labels -------------------------------------------------------------------------------------------------


def next_labels(
    tasks: Sequence[str], compared: Sequence[Compared], labelled: BoolArray, count: int, *, seed: int
) -> list[NextLabel]:
    """Tasks drawn by the expected change of the undecided comparisons, largest first; empty if all are decided."""
    relative, change = [], []
    for comparison, labels, proxies in compared:
        if not comparison.decided:
            there = ~np.isnan(proxies).any(axis=1)
            errors = np.full(len(tasks), np.nan)
            errors[there] = expected_errors(labels[there], proxies[there])
            change.append(errors / there.sum())
            relative.append(errors / (float(np.nanstd(labels)) or 1.0))
    if not relative:
        return []
    # root mean squares over the comparisons that have a value; 0 where none has
    size, expected = (
        np.sqrt((np.ma.masked_invalid(rows) ** 2).mean(axis=0).filled(0.0)) for rows in (relative, change)
    )
    drawn = draw_by_size(np.where(labelled, np.nan, size), count, seed=seed)
    found = [NextLabel(tasks[t], float(c), float(expected[t])) for t, c in zip(drawn.task, drawn.chance, strict=True)]
    return sorted(found, key=lambda one: -(one.expected_change or 0.0))


def read_rounds(paths: Sequence[Path | str], study: Study, labelled: BoolArray) -> list[Round]:
    """Drawn tasks with their chances, in the order of the files. All of them must be labelled."""
    rounds: list[Round] = []
    drawn = pl.Series("task", [], pl.String)
    with all_at_once("drawn tasks") as problems:
        for path in map(Path, paths):
            rows, check = read_table(path, {"task": "name", "chance": "number"}, problems, study=study)
            outside = ~pl.col("chance").is_between(0, 1, closed="right")
            rows = check.report(rows, outside, "chance must be above 0 and at most 1, got {chance:g}")
            again = pl.col("task").is_in(drawn.implode()) | ~pl.col("task").is_first_distinct()
            rows = check.report(rows, again, "task {task!r} was drawn before")
            drawn = pl.concat([drawn, rows["task"]])
            numbers = rows["task"].cast(study.task_names).to_physical()
            rounds.append(Round(numbers.cast(pl.Int64).to_numpy(), rows["chance"].to_numpy()))
    if without := [study.tasks[number] for one in rounds for number in one.task if not labelled[number]]:
        raise UserError(
            f"{len(without)} of the {len(drawn)} drawn tasks have no labels: {listed(without)}. Label all of them: "
            "leaving some out is a choice that biases the estimate"
        )
    return rounds
