"""The judgements a search for bias rests on: those the study carries, and those asked of reviewers now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from goldless.errors import UserError, nearest
from goldless.evidence import JUDGEMENTS, empty
from goldless.meta_evaluation.judges import recorded_scales
from goldless.models.catalogue import find_provider
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.runs.pipeline import review_study
from goldless.runs.review_evidence import recorded_review
from goldless.studies import Study

Reviewers = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Judgements of reviewers, and what they cost now."""

    rows: pl.DataFrame = field(default_factory=lambda: empty(JUDGEMENTS))
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


async def reviewers_judgements(study: Study, how: Options) -> Reviewed:
    """What the study carries of the named reviewers, of all where none is named; others are models, and asked.

    With ``how.recorded`` nobody is asked.
    """
    recorded = recorded_scales(study)
    known = recorded.get(how.scale, [])
    given: Reviewers = how.reviewers
    if not given and not known:
        others = f" (there are some on {', '.join(recorded)})" if recorded else ""
        return Reviewed(reason=f"no judgements on the scale {how.scale}{others}")
    names = [] if isinstance(given, Mapping) else [one for one in given if isinstance(one, str) and one in known]
    asked = given if isinstance(given, Mapping) else [one for one in given if one not in names]
    _check_asked(study, how, asked, known)
    tables = [empty(JUDGEMENTS)]
    if names or not given:
        found = recorded_review(study, scale=how.chosen_scale, reviewers=names, convention=how.convention)
        tables.append(found.judgements)
    review = await review_study(study, replace(how, reviewers=asked)) if asked else None
    if review is not None:
        tables.append(review.judgements)
    # names are of the categories of their study, or plain text where there are none
    rows = pl.concat([table.cast(pl.Schema(JUDGEMENTS)) for table in tables])
    return Reviewed(
        rows=rows,
        reviewers=tuple(dict.fromkeys([*names, *rows["reviewer"]])),
        reason=None if len(rows) else "the reviewers judged nothing",
        spending=() if review is None else review.spending,
        signature=None if review is None else review.signature,
        open=0 if review is None else review.open,
    )


def _check_asked(study: Study, how: Options, asked: Reviewers, known: Sequence[str]) -> None:
    """Refuse names without judgements where nobody is to be asked, or that are no models either."""
    strange = [
        str(name)
        for name in asked
        if how.recorded
        or (known and isinstance(name, str) and find_provider(name) is None and not set(name) & set(":=/."))
    ]
    if strange:
        listed = f"Reviewers it has: {', '.join(known)}." if known else "It has none at all."
        raise UserError(
            f"{study.name} carries no judgements of {', '.join(strange)} on the scale {how.scale}"
            f"{nearest(strange[0], known) or '.'} {listed} A model to be asked is named as openai:MODEL or "
            "http://HOST:PORT/v1#MODEL, without --recorded."
        )
