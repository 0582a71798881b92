"""How firm an edition's ranking is: ranks under each of its scorers, their consistency, and how few papers flip rank 1.

An edition is scored into the folder ``run``; with ``--run by-b`` a second scorer's results lie beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from goldless.apps.gre.edition import COLLECTED, RUN, STUDY, Edition
from goldless.apps.gre.papers import is_person, is_reference
from goldless.errors import MetricError
from goldless.meta_evaluation.consistency import Consistency, compare_scorers
from goldless.meta_evaluation.judges import ScoredBy, Scores, run_scores
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.signature import Signature
from goldless.statistics.bootstrap import Draws
from goldless.statistics.influence import fewest_to_flip

MOVED = re.compile(r".+-(?:[0-9a-f]{8}|before)(?:-\d+)?")
"""Names of results that newer ones replaced."""
FLIPS = (
    "The smallest number of papers without which another model has the higher mean, on the papers that both reviewed. "
    "Exact: those with the largest differences are removed."
)


@dataclass(frozen=True, slots=True)
class Flip:
    """The fewest papers without which another model is ahead of the first."""

    metric: str
    leader: str
    other: str | None
    """The model that is then ahead; None: whichever papers are removed, nobody is."""
    removed: tuple[str, ...]
    """These papers, the most decisive first."""
    papers: int
    """Papers on which both have a score."""

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.other is None:
            return f"{self.metric}: {self.leader} is first whichever papers are left out."
        few = len(self.removed)
        shown = f" ({', '.join(self.removed[:5])}{', …' * (few > 5)})" if few else ""
        without = f"without {few} of {self.papers} papers{shown}"
        return f"{self.metric}: {without}, {self.other} would be ahead of {self.leader}."


@dataclass(frozen=True, slots=True)
class Standing:
    """How firm the ranking is."""

    scorers: Mapping[str, str]
    """The scorer of each run, the edition's own first."""
    flips: tuple[Flip, ...]
    notes: tuple[str, ...]
    places: Mapping[str, Mapping[str, Mapping[str, int | None]]] = field(default_factory=dict)
    """Ranks by metric, model and run; None: no score there. Equal scores share the better rank."""
    agreement: Consistency | None = None
    """Of the scorers; None: there is one, or they have too few models in common."""

    def tables(self) -> list[ReportTable]:
        """Ranks by scorer with their consistency where there are two, and how few papers flip rank 1."""
        flips = ReportTable(
            "How few papers flip rank 1",
            (
                Column("metric", "metric"),
                Column("leader", "rank 1", "name"),
                Column("n", "papers to remove", "count", "no number"),
                Column("papers", "of", "count"),
                Column("other", "then ahead", "name", "nobody"),
            ),
            tuple({**asdict(one), "n": None if one.other is None else len(one.removed)} for one in self.flips),
            notes=(FLIPS,),
        )
        if len(self.scorers) < 2:
            return [flips]
        heads = [Column(f"#{run}", f"# {run} ({scorer})", "count", "-") for run, scorer in self.scorers.items()]
        rows = [
            {"metric": metric, "agent": agent, **{f"#{run}": rank for run, rank in ranks.items()}}
            for metric, places in self.places.items()
            for agent, ranks in places.items()
        ]
        columns = (Column("metric", "metric"), Column("agent", "agent", "name"), *heads)
        ranks = ReportTable("Ranks by scorer", columns, tuple(rows), notes=self.notes)
        return [ranks, *([] if self.agreement is None else self.agreement.tables()), flips]


def other_runs(edition: Edition) -> list[str]:
    """Names of the folders with results beside the edition's own, without those that newer ones replaced."""
    found = sorted(path.parent.name for path in edition.folder.glob("*/leaderboard.json"))
    return [name for name in found if name not in {RUN, STUDY, COLLECTED} and not MOVED.fullmatch(name)]


def edition_standing(edition: Edition, draws: Draws) -> Standing:
    """The standing of an edition's own results, from the scores in its folders."""
    own = RunFolder(edition.run_folder(), RUN)
    scored, notes = run_scores(own), []
    for other in (RunFolder(edition.folder / name) for name in other_runs(edition)):
        if other.made_by.fingerprint == own.made_by.fingerprint:
            scored += run_scores(other)
        else:
            notes.append(left_out(other.name))
    return standing(scored, draws, notes=notes)


def left_out(run: str) -> str:
    """A note on a run that cannot be compared."""
    return f"{run} was scored on other papers or reviews than {RUN} and is left out; score it again."


def standing(scored: Sequence[ScoredBy], draws: Draws, *, notes: Sequence[str] = ()) -> Standing:
    """The standing under every metric of the first run; ``scored``: of one study, run by run."""
    mine = [one for one in scored if one.scorer == scored[0].scorer]
    kept = [one for one in scored if one.metric in {own.metric for own in mine}]
    agreement, told = None, list(notes)
    if len({one.scorer for one in kept}) > 1:
        try:
            agreement = compare_scorers(kept, **draws)
            told += agreement.notes
        except MetricError as error:
            told.append(f"No consistency: {error}.")
    places: dict[str, dict[str, dict[str, int | None]]] = {}
    for own in mine:
        boards = {one.scorer: model_means(one.scores) for one in kept if one.metric == own.metric}
        first = boards[own.scorer]
        agents = sorted({a for means in boards.values() for a in means}, key=lambda a: (-first.get(a, -np.inf), a))
        places[own.metric] = {a: {run: model_rank(means, a) for run, means in boards.items()} for a in agents}
    return Standing(
        scorers={one.scorer: Signature.parse(one.signature).settings.get("scorer", "no scorer") for one in kept},
        flips=tuple(flip for one in mine for flip in rank_flip(one.metric, one.scores)),
        notes=tuple(told),
        places=places,
        agreement=agreement,
    )


def model_means(scores: Scores) -> dict[str, float]:
    """The mean score of each model."""
    found: dict[str, list[float]] = {}
    for (_, agent), score in scores.items():
        if score is not None and not is_person(agent):
            found.setdefault(agent, []).append(score)
    return {agent: float(np.mean(values)) for agent, values in found.items()}


def model_rank(means: Mapping[str, float], agent: str) -> int | None:
    """One more than the number of models with a higher mean; None without a score."""
    return None if agent not in means else 1 + sum(other > means[agent] for other in means.values())


def rank_flip(metric: str, scores: Scores) -> Iterator[Flip]:
    """The fewest papers that flip rank 1, against any other model; none if there are not two."""
    means = model_means(scores)
    leader, *others = sorted(means, key=lambda agent: (-means[agent], agent)) or [""]
    tasks = list(dict.fromkeys(task for task, agent in scores if not is_reference(agent)))
    flips = []
    for other in others:
        both = [(scores.get((task, leader)), scores.get((task, other))) for task in tasks]
        apart = np.array([np.nan if a is None or b is None else a - b for a, b in both])
        places = fewest_to_flip(apart)
        removed = tuple(tasks[place] for place in places or ())
        flips.append(Flip(metric, leader, None if places is None else other, removed, int(np.sum(~np.isnan(apart)))))
    if flips:
        yield min(flips, key=lambda flip: (flip.other is None, len(flip.removed), -flip.papers))
