"""Ways of asking: which template, whose rewrites and which synopsis a log-probability was asked with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from goldless.errors import UserError
from goldless.evidence import LogprobEvidence, RewriteEvidence
from goldless.metrics.catalogue import Metric
from goldless.templates import Template

RewritesByResponse = Mapping[tuple[str, str], RewriteEvidence]
"""By task and agent."""


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """Rewrites of all responses, made by one rewriter with one template."""

    template: str | None
    """Name of the template; None: recorded, and good for any."""
    rewrites: RewritesByResponse

    @property
    def name(self) -> str:
        """Who rewrote."""
        return "+".join(sorted({row.rewriter for row in self.rewrites.values()}))


@dataclass(frozen=True, slots=True)
class Wording:
    """One way of asking for a log-probability."""

    template: str
    rewriter: str | None
    """Whose rewrites are scored; None: the responses as they are."""
    synopsis: str | None

    @property
    def name(self) -> str:
        """One word for tables."""
        return self.template if self.rewriter is None else f"{self.template}/{self.rewriter}"


@dataclass(slots=True)
class Need:
    """What all metrics together must know in one way of asking."""

    template: Template
    preprocessor: Preprocessor | None
    both_directions: bool = False
    marginals: bool = False


def needs(
    metrics: Iterable[Metric], templates: Sequence[Template], preprocessors: Sequence[Preprocessor]
) -> dict[Wording, Need]:
    """What must be known to compute the metrics over log-probabilities, each thing once."""
    found: dict[Wording, Need] = {}
    for metric in metrics:
        if metric.likelihood is None:
            continue
        for template in templates:
            for preprocessor in _preprocessors(metric, template, preprocessors):
                rewriter = None if preprocessor is None else preprocessor.name
                wording = Wording(template.name, rewriter, metric.synopsis)
                need = found.setdefault(wording, Need(template, preprocessor))
                need.both_directions |= "agent given peer" in metric.likelihood.terms
                need.marginals |= metric.likelihood.marginals
    return found


def _preprocessors(
    metric: Metric, template: Template, preprocessors: Sequence[Preprocessor]
) -> Sequence[Preprocessor | None]:
    if metric.text == "responses" or (metric.text == "rewrites if any" and not preprocessors):
        return [None]
    # rewrites made with another wording serve where there are none of this one
    return [p for p in preprocessors if p.template in {None, template.name}] or list(preprocessors)


def by_wording(metric: Metric, evidence: Iterable[LogprobEvidence]) -> dict[Wording, list[LogprobEvidence]]:
    """The evidence a metric rests on, by way of asking; several are averaged over."""
    found: dict[Wording, list[LogprobEvidence]] = {}
    for row in evidence:
        if row.synopsis == metric.synopsis:
            found.setdefault(Wording(row.template, row.rewriter, row.synopsis), []).append(row)
    raw = {wording: rows for wording, rows in found.items() if wording.rewriter is None}
    rewritten = {wording: rows for wording, rows in found.items() if wording.rewriter is not None}
    if metric.text == "responses":
        return raw
    return rewritten or (raw if metric.text == "rewrites if any" else {})


def check_rewriters(names: Sequence[str]) -> None:
    """Refuse two rewriters of one name: their rewrites could not be told apart."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"two rewriters are called {twice[0]}; average over rewriters of different names")
