"""The judgements a search for bias rests on: those the study carries, and those asked of reviewers now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from goldless.errors import UserError, nearest
from goldless.evidence import JudgementEvidence, judgement_rows
from goldless.judging.judges import find_judge
from goldless.metrics.judgement_table import (
    PairJudgements,
    ResponseRatings,
    pair_judgements,
    response_ratings,
)
from goldless.runs.opening import Spending
from goldless.runs.options import Options as ReviewOptions
from goldless.runs.review_evidence import recorded_review
from goldless.runs.reviewing import review_study
from goldless.studies import Study

Reviewers = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Judgements of reviewers, and what they cost now."""

    rows: tuple[JudgementEvidence, ...] = ()
    reviewers: tuple[str, ...] = ()
    reason: str | None = None
    """Why there are none."""
    spending: tuple[Spending, ...] = ()
    signature: str | None = None
    """Of what was asked now."""
    open: int = 0
    """Judgements missing for a cause that may pass."""

    @property
    def spent_usd(self) -> float:
        """What was spent now, as far as prices are known."""
        return sum(row.cost_usd or 0.0 for row in self.spending)


async def reviewers_judgements(study: Study, how: ReviewOptions) -> Reviewed:
    """What the study carries of the named reviewers, of all where none is named; others are models, and asked.

    With ``how.recorded`` nobody is asked.
    """
    known = _recorded_names(study, how.scale)
    given: Reviewers = how.reviewers
    if not given and not known:
        others = f" (there are some on {', '.join(_scales(study))})" if _scales(study) else ""
        return Reviewed(reason=f"no judgements on the scale {how.scale}{others}")
    names = [] if isinstance(given, Mapping) else [one for one in given if isinstance(one, str) and one in known]
    asked = given if isinstance(given, Mapping) else [one for one in given if one not in names]
    _check_asked(study, how, asked, known)
    rows: list[JudgementEvidence] = []
    if names or not given:
        found = recorded_review(study, scale=how.chosen_scale, reviewers=names, convention=how.convention)
        rows += judgement_rows(found.judgements)
    review = await review_study(study, replace(how, reviewers=asked)) if asked else None
    if review is not None:
        rows += judgement_rows(review.judgements)
    return Reviewed(
        rows=tuple(rows),
        reviewers=tuple(dict.fromkeys([*names, *(row.reviewer for row in rows)])),
        reason=None if rows else "the reviewers judged nothing",
        spending=() if review is None else review.spending,
        signature=None if review is None else review.signature,
        open=0 if review is None else review.open,
    )


def _check_asked(study: Study, how: ReviewOptions, asked: Reviewers, known: Sequence[str]) -> None:
    """Refuse names without judgements where nobody is to be asked, or that are no models either."""
    strange = [
        str(name)
        for name in asked
        if how.recorded or (known and isinstance(name, str) and name != "embedded" and not set(name) & set(":=/."))
    ]
    if strange:
        listed = f"Reviewers it has: {', '.join(known)}." if known else "It has none at all."
        raise UserError(
            f"{study.name} carries no judgements of {', '.join(strange)} on the scale {how.scale}"
            f"{nearest(strange[0], known) or '.'} {listed} A model to be asked is named as openai:MODEL or "
            "http://HOST:PORT/v1#MODEL, without --recorded."
        )


def judgement_arrays(study: Study, reviewed: Reviewed, scale: str) -> PairJudgements | ResponseRatings:
    """The judgements as arrays, numbered by the study's tasks and agents."""
    agents = [agent.agent for agent in study.agents]
    if find_judge(scale).pairwise:
        return pair_judgements(reviewed.rows, reviewers=reviewed.reviewers, tasks=study.tasks, agents=agents)
    return response_ratings(reviewed.rows, reviewers=reviewed.reviewers, tasks=study.tasks, agents=agents)


def _scales(study: Study) -> list[str]:
    """The scales that the study carries judgements on."""
    table = study.table("judgements")
    if table is None or "format" not in table.columns:
        return []
    return sorted(table["format"].drop_nulls().unique().to_list())


def _recorded_names(study: Study, scale: str) -> list[str]:
    table = study.table("judgements")
    if table is None or not {"reviewer", "format"} <= set(table.columns):
        return []
    return table.filter(pl.col("format") == scale)["reviewer"].drop_nulls().unique(maintain_order=True).to_list()
