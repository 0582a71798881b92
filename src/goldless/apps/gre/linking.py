"""Linking of two editions' scales through anchors: papers of the earlier edition that are in the later one as well.

Scores of two years are on different scales, because scorer, preprocessing or references differ. A review of an anchor
that is the same in both editions, word for word, has a score x on the second scale and y on the first. Linear linking
of a single group (Kolen and Brennan, *Test Equating, Scaling, and Linking*, 3rd edition 2014, chapter 2) gives both the
same mean and the same standard deviation: y = slope x + intercept, with slope = sd(y) / sd(x) and intercept = mean(y) -
slope mean(x). Unlike a regression it is symmetric: linking back is its inverse.

Intervals are percentiles over resampled papers: anchors, the other papers of the first edition and those of the second
are drawn separately, and the link, the scores and their change are computed anew from each draw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from goldless.apps.gre.edition import RUN, anchored_papers, is_edition, open_edition
from goldless.apps.gre.papers import is_reference
from goldless.arrays import FloatArray
from goldless.errors import UserError
from goldless.meta_evaluation.judges import ScoredBy, Scores, run_scores
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.signature import Signature
from goldless.statistics.bootstrap import draw_counts
from goldless.statistics.rank_correlation import percentile_interval
from goldless.studies import Study

FEWEST_ANCHORS = 10
"""Below, two means and two standard deviations are too uncertain to put years on one scale."""
RESAMPLES = 2000
LEVEL = 0.9
Pair = tuple[str, str]
"""A task and an agent."""


@dataclass(frozen=True, slots=True)
class Side:
    """An edition that is linked: its reviews, and their scores by metric."""

    name: str
    texts: Mapping[Pair, str]
    anchors: frozenset[str]
    """Its papers that are marked as anchors."""
    scores: Mapping[str, Scores]
    signatures: Mapping[str, str]

    @classmethod
    def of(cls, name: str, study: Study, scored: Sequence[ScoredBy]) -> Side:
        """An edition with the scores of a run."""
        texts = {(r.task, r.agent): r.text for _, responses in study for r in responses if not is_reference(r.agent)}
        scores = {one.metric: one.scores for one in scored}
        signatures = {one.metric: one.signature for one in scored}
        return cls(name, texts, frozenset(anchored_papers(study)), scores, signatures)


@dataclass(frozen=True, slots=True)
class LinkedScore:
    """An agent of the second edition on the scale of the first."""

    agent: str
    second: float
    """Its score on its own scale."""
    linked: float
    """The same on the scale of the first edition."""
    linked_low: float | None
    linked_high: float | None
    first: float | None
    """Its score in the first edition; None: it is not there."""
    change: float | None
    """Linked score minus that of the first edition."""
    change_low: float | None
    change_high: float | None


@dataclass(frozen=True, slots=True)
class Link:
    """The link of one metric's scales."""

    metric: str
    first: str
    second: str
    slope: float
    slope_low: float | None
    slope_high: float | None
    intercept: float
    intercept_low: float | None
    intercept_high: float | None
    papers: int
    """Anchors with a review that is the same in both editions and has a score in both."""
    reviews: int
    scores: tuple[LinkedScore, ...]
    """Highest first."""
    level: float
    signature: str

    def table(self) -> ReportTable:
        """One row per agent of the second edition."""
        interval = f"{self.level * 100:g}%"
        columns = (
            Column("agent", "agent", "name"),
            Column("first", self.first, "number", "-", 2),
            Column("second", f"{self.second} (own scale)", "number", decimals=2),
            Column("linked", f"{self.second}, linked", "number", decimals=2),
            Column("linked_low linked_high", interval, "interval", "-", 2),
            Column("change", "change", "signed", "-", 2),
            Column("change_low change_high", interval, "signed interval", "-", 2),
        )
        title = f"{self.metric}: {self.second} on the scale of {self.first}"
        return ReportTable(title, columns, tuple(map(asdict, self.scores)), self.signature, (self.sentence, METHOD))

    @property
    def sentence(self) -> str:
        """The link in words."""
        slope = _with_ends(self.slope, self.slope_low, self.slope_high)
        intercept = _with_ends(self.intercept, self.intercept_low, self.intercept_high)
        return (
            f"Linked by {self.reviews} reviews of {self.papers} anchors that are the same in both editions: slope "
            f"{slope}, intercept {intercept}."
        )


METHOD = (
    "Linear linking (Kolen and Brennan 2014, chapter 2): the reviews of the anchors get the same mean and standard "
    "deviation on both scales. Intervals: percentiles over resampled papers, anchors drawn separately."
)


def _with_ends(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f} ({low:.3f} … {high:.3f})"


class NotLinkedError(UserError):
    """The scales of two editions cannot be linked."""


def link_boards(first: str, second: str, *, seed: int = 0) -> tuple[list[Link], list[str]]:
    """The links of two editions by metric, and notes; nothing where one is no edition or they share no anchors."""
    if not all(is_edition(Path(one)) and open_edition(Path(one)).collected for one in (first, second)):
        return [], []
    editions = [open_edition(Path(folder)) for folder in (first, second)]
    return link_sides(
        *(
            Side.of(one.folder.resolve().name, one.study(), run_scores(RunFolder(one.run_folder(RUN), RUN)))
            for one in editions
        ),
        seed=seed,
    )


def link_sides(first: Side, second: Side, *, seed: int = 0) -> tuple[list[Link], list[str]]:
    """The links by metric that both have, and why there is none for others."""
    shared = {task for task, _ in first.texts} & {task for task, _ in second.texts} & (first.anchors | second.anchors)
    if not shared:
        return [], [f"Not linked: {first.name} and {second.name} share no anchors."]
    links, notes = [], []
    for metric in first.scores:
        if metric in second.scores:
            try:
                links.append(link(first, second, metric, shared, seed=seed))
            except NotLinkedError as error:
                notes.append(str(error))
    return links, notes


def link(first: Side, second: Side, metric: str, shared: set[str], *, seed: int = 0) -> Link:
    """The second edition's scores under a metric on the scale of the first. Raises if there are too few anchors.

    ``shared``: papers in both editions that one of them marks as anchors.
    """
    ours, theirs = ({pair: s for pair, s in one.scores[metric].items() if s is not None} for one in (first, second))
    same = [pair for pair in first.texts if pair[0] in shared and first.texts[pair] == second.texts.get(pair)]
    used = sorted(pair for pair in same if pair in ours and pair in theirs)
    papers = sorted({task for task, _ in used})
    if len(papers) < FEWEST_ANCHORS:
        raise NotLinkedError(
            f"{metric} is not linked: {len(papers)} of {len(shared)} anchors have a review that is the same in "
            f"{first.name} and {second.name} and has a score in both; at least {FEWEST_ANCHORS} are needed. Collect "
            "the later edition with more anchors, and score the human reviews in both"
        )
    x, y = (np.array([scores[pair] for pair in used]) for scores in (theirs, ours))
    if not (np.ptp(x) > 0 and np.ptp(y) > 0):
        raise NotLinkedError(f"{metric} is not linked: all reviews of the anchors have the same score in one edition")
    slope, intercept = linear_link(x, y)
    # anchors, the other papers of the first edition and those of the second are drawn separately
    others = [sorted({task for task, _ in scores} - set(papers)) for scores in (ours, theirs)]
    drawn = [_drawn(len(tasks), seed + place) for place, tasks in enumerate((papers, *others))]
    before_draws = [*papers, *others[0]], np.hstack([drawn[0], drawn[1]])
    after_draws = [*papers, *others[1]], np.hstack([drawn[0], drawn[2]])
    slopes, intercepts = _drawn_links(drawn[0][:, [papers.index(task) for task, _ in used]], x, y)
    rows = []
    for agent in sorted({agent for _, agent in theirs if not is_reference(agent)}):
        mean, means = _means(*after_draws, theirs, agent)
        before, befores = _means(*before_draws, ours, agent)
        linked, linkeds = slope * mean + intercept, slopes * means + intercepts
        there = not math.isnan(before)
        rows.append(
            LinkedScore(
                agent,
                mean,
                linked,
                *_ends(linkeds),
                before if there else None,
                linked - before if there else None,
                *(_ends(linkeds - befores) if there else (None, None)),
            )
        )
    told = {
        "first": first.signatures.get(metric, first.name),
        "second": second.signatures.get(metric, second.name),
        "link": "linear-single-group",
        "anchors": str(len(papers)),
        "interval": f"papers-percentile-{LEVEL:g}",
        "resamples": str(RESAMPLES),
        "seed": str(seed),
    }
    return Link(
        metric,
        first.name,
        second.name,
        slope,
        *_ends(slopes),
        intercept,
        *_ends(intercepts),
        papers=len(papers),
        reviews=len(used),
        scores=tuple(sorted(rows, key=lambda row: (-row.linked, row.agent))),
        level=LEVEL,
        signature=str(Signature(f"link[{metric}]", told)),
    )


def linear_link(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Slope and intercept that give x the mean and standard deviation of y."""
    slope = float(np.std(y) / np.std(x))
    return slope, float(np.mean(y) - slope * np.mean(x))


def _ends(draws: FloatArray) -> tuple[float | None, float | None]:
    return percentile_interval(draws, level=LEVEL)[:2]


def _drawn(papers: int, seed: int) -> FloatArray:
    """How often each paper is drawn: [resamples, papers]."""
    if not papers:
        return np.zeros((RESAMPLES, 0))
    return np.concatenate(list(draw_counts(papers, seed=seed, resamples=RESAMPLES)))


def _drawn_links(weights: FloatArray, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Slopes and intercepts over the draws; NaN where all reviews drawn have the same score."""
    n = weights.sum(axis=1)
    means, spreads = [], []
    for values in (x, y):
        # centred, so that squares lose no digits
        centre = float(np.mean(values))
        away = values - centre
        mean = weights @ away / n
        means.append(mean + centre)
        spreads.append(np.sqrt(np.maximum(weights @ away**2 / n - mean**2, 0.0)))
    slopes = np.full(len(n), np.nan)
    np.divide(spreads[1], spreads[0], out=slopes, where=spreads[0] > 0)
    return slopes, means[1] - slopes * means[0]


def _means(
    tasks: Sequence[str], counts: FloatArray, scores: Mapping[Pair, float], agent: str
) -> tuple[float, FloatArray]:
    """The mean of an agent's scores, and its means over the draws; NaN where it has none."""
    values = np.array([scores.get((task, agent), np.nan) for task in tasks])
    there = ~np.isnan(values)
    n = counts[:, there].sum(axis=1)
    means = np.full(len(counts), np.nan)
    np.divide(counts[:, there] @ values[there], n, out=means, where=n > 0)
    return (float(np.mean(values[there])) if there.any() else math.nan), means
