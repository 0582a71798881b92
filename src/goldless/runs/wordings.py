"""Ways of asking: which templates and whose rewrites the metrics over log-probabilities are asked with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from goldless.errors import UserError
from goldless.metrics.likelihood import Wording
from goldless.metrics.metric import LogprobNeed, Metric
from goldless.records import CallFailure
from goldless.templates import Template

Texts = Mapping[tuple[str, str], str | CallFailure]
"""By task and agent."""


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """Rewrites of all responses, made by one rewriter with one template."""

    template: str | None
    """Name of the template; None: recorded, and good for any."""
    table: pl.DataFrame
    """Columns of ``evidence.REWRITES``."""

    @property
    def name(self) -> str:
        """Who rewrote."""
        return "+".join(sorted(self.table["rewriter"].unique()))

    def texts(self) -> dict[tuple[str, str], str | CallFailure]:
        """What was written, or why it is missing."""
        columns = ("task", "agent", "text", "failure", "failure_message")
        return {
            (task, agent): text or CallFailure(failure or "not_recorded", said or "")
            for task, agent, text, failure, said in self.table.select(columns).iter_rows()
        }


def preprocessors(rewrites: pl.DataFrame) -> list[Preprocessor]:
    """Recorded rewrites by rewriter and template; of several rewrites of one response the last holds."""
    groups = rewrites.partition_by("rewriter", "template", maintain_order=True) if len(rewrites) else []
    return [
        Preprocessor(rows["template"][0], rows.unique(("task", "agent"), keep="last", maintain_order=True))
        for rows in groups
    ]


@dataclass(slots=True)
class Need:
    """What all metrics together must know in one way of asking."""

    template: Template
    preprocessor: Preprocessor | None
    both_directions: bool = False
    marginals: bool = False


def needs(
    metrics: Iterable[Metric], templates: Sequence[Template], rewritten: Sequence[Preprocessor]
) -> dict[Wording, Need]:
    """What must be known to compute the metrics over log-probabilities, each thing once."""
    found: dict[Wording, Need] = {}
    for wanted in (metric.needs.logprobs for metric in metrics):
        if wanted is None:
            continue
        for template in templates:
            for preprocessor in _preprocessors(wanted, template, rewritten):
                rewriter = None if preprocessor is None else preprocessor.name
                wording = Wording(template.name, rewriter, wanted.synopsis)
                need = found.setdefault(wording, Need(template, preprocessor))
                need.both_directions |= wanted.both_directions
                need.marginals |= wanted.marginals
    return found


def _preprocessors(
    wanted: LogprobNeed, template: Template, rewritten: Sequence[Preprocessor]
) -> Sequence[Preprocessor | None]:
    if wanted.text == "responses" or (wanted.text == "rewrites if any" and not rewritten):
        return [None]
    # rewrites made with another wording serve where there are none of this one
    return [p for p in rewritten if p.template in {None, template.name}] or list(rewritten)


def check_rewriters(names: Sequence[str]) -> None:
    """Refuse two rewriters of one name: their rewrites could not be told apart."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"two rewriters are called {twice[0]}; average over rewriters of different names")
