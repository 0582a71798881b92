"""Linking of two editions' scales through anchors: papers of the earlier edition that are in the later one as well.

A review of an anchor that is the same in both editions, word for word, has a score x on the second scale and y on the
first. Linear linking of a single group (Kolen and Brennan, *Test Equating, Scaling, and Linking*, 3rd edition 2014,
chapter 2) gives both the same mean and standard deviation: y = slope x + intercept, with slope = sd(y) / sd(x) and
intercept = mean(y) - slope mean(x). Unlike a regression it is symmetric. Link, scores and their change are computed
anew from each draw of papers: of anchors, of the other papers of the first edition, and of those of the second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from goldless.apps.gre.edition import ANCHOR, RUN, is_edition, marked_papers, open_edition
from goldless.apps.gre.papers import is_reference
from goldless.apps.gre.submissions import estimate_cells, estimate_columns
from goldless.arrays import FloatArray
from goldless.errors import UserError
from goldless.meta_evaluation.judges import ScoredBy, Scores, run_scores
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.signature import Signature
from goldless.statistics.bootstrap import Estimate, draw_counts
from goldless.statistics.rank_correlation import percentile_interval
from goldless.studies import Study

FEWEST_ANCHORS = 10
"""Below, two means and two standard deviations are too uncertain to put years on one scale."""
RESAMPLES = 2000
LEVEL = 0.9
METHOD = (
    "Linear linking (Kolen and Brennan 2014, chapter 2): the reviews of the anchors get the same mean and standard "
    "deviation on both scales. Intervals: percentiles over resampled papers, anchors drawn separately."
)
Pair = tuple[str, str]
"""A task and an agent."""


@dataclass(frozen=True, slots=True)
class LinkedEdition:
    """An edition that is linked: its reviews, and their scores by metric."""

    name: str
    texts: Mapping[Pair, str]
    anchors: frozenset[str]
    """Its papers that are marked as anchors."""
    scores: Mapping[str, Scores]
    signatures: Mapping[str, str]

    @classmethod
    def of(cls, name: str, study: Study, scored: Sequence[ScoredBy]) -> LinkedEdition:
        """An edition with the scores of its first run."""
        texts = {(r.task, r.agent): r.text for _, responses in study for r in responses if not is_reference(r.agent)}
        own = {one.metric: one for one in scored if one.scorer == scored[0].scorer}
        scores = {metric: one.scores for metric, one in own.items()}
        signatures = {metric: one.signature for metric, one in own.items()}
        return cls(name, texts, frozenset(marked_papers(study, ANCHOR)), scores, signatures)


@dataclass(frozen=True, slots=True)
class LinkedScore:
    """An agent of the second edition on the scale of the first."""

    agent: str
    second: float
    """Its score on its own scale."""
    linked: Estimate
    """The same on the scale of the first edition."""
    first: float | None
    """Its score in the first edition; None: it has none."""
    change: Estimate | None
    """Linked score minus that of the first edition."""


@dataclass(frozen=True, slots=True)
class ScaleLink:
    """The link of one metric's scales."""

    metric: str
    first: str
    second: str
    slope: Estimate
    intercept: Estimate
    papers: int
    """Anchors with a review that is the same in both editions and has a score in both."""
    reviews: int
    scores: tuple[LinkedScore, ...]
    """Highest first."""
    signature: str

    def table(self) -> ReportTable:
        columns = (
            Column("agent", "agent", "name"),
            Column("first", self.first, "number", "-", 2),
            Column("second", f"{self.second} (own scale)", "number", decimals=2),
            *estimate_columns("linked", f"{self.second}, linked", LEVEL, absent="-"),
            *estimate_columns("change", "change", LEVEL, signed=True, absent="-"),
        )
        rows = tuple(
            estimate_cells(linked=one.linked, change=one.change)
            | {"agent": one.agent, "first": one.first, "second": one.second}
            for one in self.scores
        )
        slope, intercept = (
            f"{one.value:.3f}" + ("" if one.low is None or one.high is None else f" ({one.low:.3f} … {one.high:.3f})")
            for one in (self.slope, self.intercept)
        )
        linked = (
            f"Linked by {self.reviews} reviews of {self.papers} anchors that are the same in both editions: slope "
            f"{slope}, intercept {intercept}."
        )
        title = f"{self.metric}: {self.second} on the scale of {self.first}"
        return ReportTable(title, columns, rows, self.signature, (linked, METHOD))


def link_boards(first: str, second: str, *, seed: int = 0) -> tuple[list[ScaleLink], list[str]]:
    """The links of two editions by metric, and notes; nothing where one is no edition or they share no anchors."""
    editions = [open_edition(folder) for folder in (Path(first), Path(second)) if is_edition(folder)]
    if len(editions) < 2 or not all(one.collected for one in editions):
        return [], []
    sides = [LinkedEdition.of(one.name, one.study(), run_scores(RunFolder(one.run_folder(), RUN))) for one in editions]
    return link_sides(*sides, seed=seed)


def link_sides(first: LinkedEdition, second: LinkedEdition, *, seed: int = 0) -> tuple[list[ScaleLink], list[str]]:
    """The links by metric that both have, and why there is none for others."""
    shared = {task for task, _ in first.texts} & {task for task, _ in second.texts} & (first.anchors | second.anchors)
    if not shared:
        return [], [f"Not linked: {first.name} and {second.name} share no anchors."]
    links, notes = [], []
    for metric in [metric for metric in first.scores if metric in second.scores]:
        try:
            links.append(_link(first, second, metric, shared, seed))
        except UserError as error:
            notes.append(f"{metric} is not linked: {error}")
    return links, notes


def _link(first: LinkedEdition, second: LinkedEdition, metric: str, shared: set[str], seed: int) -> ScaleLink:
    """The second edition's scores under a metric on the scale of the first. Raises if there are too few anchors.

    ``shared``: papers in both editions that one of them marks as anchors.
    """
    ours, theirs = ({pair: s for pair, s in one.scores[metric].items() if s is not None} for one in (first, second))
    same = [pair for pair in first.texts if pair[0] in shared and first.texts[pair] == second.texts.get(pair)]
    used = sorted(pair for pair in same if pair in ours and pair in theirs)
    papers = sorted({task for task, _ in used})
    if len(papers) < FEWEST_ANCHORS:
        raise UserError(
            f"{len(papers)} of {len(shared)} anchors have a review that is the same in {first.name} and {second.name} "
            f"and has a score in both; at least {FEWEST_ANCHORS} are needed. Collect the later edition with more "
            "anchors, and score the human reviews in both"
        )
    x, y = (np.array([scores[pair] for pair in used]) for scores in (theirs, ours))
    if not (np.ptp(x) > 0 and np.ptp(y) > 0):
        raise UserError("all reviews of the anchors have the same score in one edition")
    # how often each paper counts: in the first row once, in the others as often as it is drawn; anchors, the other
    # papers of the first edition and those of the second are drawn separately
    groups = [papers, *(sorted({task for task, _ in scores} - set(papers)) for scores in (ours, theirs))]
    drawn = [
        np.concatenate([np.ones((1, len(tasks))), *draw_counts(len(tasks), seed=seed + place, resamples=RESAMPLES)])
        if tasks
        else np.zeros((1 + RESAMPLES, 0))
        for place, tasks in enumerate(groups)
    ]

    def means(scores: Mapping[Pair, float], agent: str, other: int) -> FloatArray:
        """The means of an agent's scores on anchors and other papers, by row of counts; NaN where it has none."""
        values = np.array([scores.get((task, agent), np.nan) for task in (*papers, *groups[other])])
        counts, there = np.hstack([drawn[0], drawn[other]]), ~np.isnan(values)
        n = counts[:, there].sum(axis=1)
        found: FloatArray = np.full(len(n), np.nan)
        np.divide(counts[:, there] @ values[there], n, out=found, where=n > 0)
        return found

    def estimate(rows: FloatArray) -> Estimate:
        low, high, note = percentile_interval(rows[1:], level=LEVEL)
        return Estimate(float(rows[0]), low, high, len(papers), LEVEL, note)

    weights = drawn[0][:, [papers.index(task) for task, _ in used]]
    (mean_x, sd_x), (mean_y, sd_y) = _moments(weights, x), _moments(weights, y)
    slopes = np.divide(sd_y, sd_x, out=np.full(len(sd_x), np.nan), where=sd_x > 0)
    intercepts = mean_y - slopes * mean_x
    rows = []
    for agent in sorted({agent for _, agent in theirs if not is_reference(agent)}):
        own, befores = means(theirs, agent, 2), means(ours, agent, 1)
        linked, before = slopes * own + intercepts, None if math.isnan(befores[0]) else float(befores[0])
        change = None if before is None else estimate(linked - befores)
        rows.append(LinkedScore(agent, float(own[0]), estimate(linked), before, change))
    told = {
        "first": first.signatures.get(metric, first.name),
        "second": second.signatures.get(metric, second.name),
        "link": "linear-single-group",
        "anchors": str(len(papers)),
        "interval": f"papers-percentile-{LEVEL:g}",
        "resamples": str(RESAMPLES),
        "seed": str(seed),
    }
    return ScaleLink(
        metric,
        first.name,
        second.name,
        estimate(slopes),
        estimate(intercepts),
        papers=len(papers),
        reviews=len(used),
        scores=tuple(sorted(rows, key=lambda row: (-(row.linked.value or 0.0), row.agent))),
        signature=str(Signature(f"link[{metric}]", told)),
    )


def _moments(weights: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations by row of weights; centred first, so that squares lose no digits."""
    n, centre = weights.sum(axis=1), float(np.mean(values))
    away = values - centre
    mean = weights @ away / n
    return mean + centre, np.sqrt(np.maximum(weights @ away**2 / n - mean**2, 0.0))
