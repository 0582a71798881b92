"""People: their labels, which of them an exam is made of, and which the panel is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from goldless.errors import MetricError, UserError, nearest
from goldless.metrics.pair_labels import PairLabels, RatingTable, check_margin, pair_labels, rating_table, usual_margin
from goldless.models.interface import content_hash
from goldless.runs.options import Options
from goldless.studies import Study

QUESTIONERS = 3
"""Agents that the human exam is made of where none are named."""


@dataclass(frozen=True, slots=True)
class People:
    """What people said, where they said anything."""

    labels: PairLabels | None
    """All pairs that have a label."""
    tested: PairLabels | None
    """Decided pairs that the panel is held against."""
    ratings: RatingTable | None
    questioners: tuple[str, ...]
    """Agents whose responses the human exam is made of."""


def what_people_said(study: Study, options: Options) -> People:
    """The labels of a study, as far as it has any. Raises where an exam needs what is not there."""
    check_margin(options.margin)
    agents = [agent.agent for agent in study.agents]
    if not study.n_ratings and not study.n_preferences:
        if "human exam" in options.traits:
            raise MetricError(f"{study.name} has no labels, which the human exam is held against; use the exam auto")
        return People(None, None, None, ())
    names: _Names = {"tasks": study.tasks, "agents": agents, "criterion": _criterion(study, options)}
    preferences = list(study.preferences())
    margin = options.margin
    if margin is None:
        margin = usual_margin(preferences, criterion=names["criterion"], convention=options.convention)
    labels = pair_labels(study.ratings(), preferences, **names, least_margin=margin)
    ratings = rating_table(study.ratings(), **names) if study.n_ratings else None
    tested = labels.decided()
    questioners: tuple[str, ...] = ()
    if "human exam" in options.traits:
        questioners = _questioners(labels, options)
        tested = tested if options.overlapping else tested.outside(questioners)
        if not tested.n_pairs:
            raise MetricError(
                "the human exam takes all pairs that people decided, so none is left to test on; name fewer "
                "questioners, or test on the same pairs with --overlap"
            )
    return People(labels, tested, ratings, questioners)


class _Names(TypedDict):
    """How labels are numbered."""

    tasks: Sequence[str]
    agents: Sequence[str]
    criterion: str | None


def _criterion(study: Study, options: Options) -> str | None:
    known = sorted({label.criterion for label in study.labels() if label.criterion is not None})
    if options.criterion is not None and options.criterion not in known:
        raise UserError(f"no label has the criterion {options.criterion!r}{nearest(options.criterion, known)}")
    if options.criterion is None and len(known) > 1:
        raise UserError(f"labels are by several criteria: {', '.join(known)}. Name one with --criterion.")
    return options.criterion


def _questioners(labels: PairLabels, options: Options) -> tuple[str, ...]:
    """The agents named, or some drawn by the seed among those that people decided about."""
    if options.questioners is not None:
        return tuple(options.questioners)
    decided = labels.decided()
    agents = [decided.agents[i] for i in sorted({*decided.low.tolist(), *decided.high.tolist()})]
    if len(agents) < 2:
        raise MetricError("people decided no pair of responses, so there is nothing to hold a human exam with")
    drawn = sorted(agents, key=lambda name: content_hash("questioners", options.seed, name))
    return tuple(drawn[: min(QUESTIONERS, max(2, len(agents) - 1))])
