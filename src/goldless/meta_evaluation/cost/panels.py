"""A study's panels: judgements that are recorded or asked for, what they cost, and how far each panel agrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from goldless.errors import MetricError, UserError
from goldless.meta_evaluation.cost.judgement_costs import ReviewerCost, reviewer_costs
from goldless.meta_evaluation.cost.panel_frontier import Frontier, panel_frontier
from goldless.metrics.judgement_table import pair_judgements
from goldless.models.usage import Price
from goldless.runs.options import Options as ReviewOptions
from goldless.runs.options import check_review_options
from goldless.runs.recorded import evidence_hash
from goldless.runs.review_labels import what_people_said
from goldless.runs.review_results import Review
from goldless.runs.reviewing import review_study
from goldless.studies import Study


@dataclass(frozen=True, slots=True)
class PanelCosts:
    """What reviewers cost, and what their panels are worth."""

    reviewers: Mapping[str, ReviewerCost]
    frontier: Frontier
    review: Review
    """What it rests on."""


async def find_panels(
    study: Study,
    options: ReviewOptions,
    *,
    prices: Mapping[str, Price] | None = None,
    tokens_a_judgement: float | None = None,
    splits: int = 200,
) -> PanelCosts:
    """Accuracy and cost of all panels of the reviewers, from recorded judgements or by asking them.

    ``prices``: by reviewer; others are looked up. ``tokens_a_judgement``: instead of those counted or estimated.
    """
    check_review_options(options)
    if not options.chosen_scale.pairwise:
        raise UserError(
            f"panels are compared by their votes on pairs, and the scale {options.scale} rates one response; take a "
            "pairwise scale"
        )
    if options.traits:
        raise UserError("all panels are compared, whoever would pass an exam: leave the exam out")
    people = what_people_said(study, options)
    if people.tested is None or not people.tested.n_pairs:
        raise MetricError(
            f"{study.name} has no labels that decide a pair, so nobody's accuracy is known: add a labels table, or ask "
            "for the cost alone"
        )
    review = await review_study(study, options)
    heard = [reviewer.name for reviewer in review.reviewers if reviewer.asked]
    if not heard:
        raise MetricError("no reviewer judged anything, so there is no panel")
    costs = reviewer_costs(study, review, options, prices=prices, tokens_a_judgement=tokens_a_judgement)
    table = pair_judgements(
        review.judgements, reviewers=heard, tasks=study.tasks, agents=[agent.agent for agent in study.agents]
    )
    rows = review.judgements.select("reviewer", "task", "first", "second", "value").iter_rows()
    frontier = panel_frontier(
        table,
        people.tested,
        {name: cost.usd for name, cost in costs.items()},
        convention=options.convention,
        splits=splits,
        seed=options.seed,
        resamples=options.resamples,
        level=options.level,
        described={
            "scale": options.scale,
            "pairs": people.tested.rule,
            "own-family": "judged" if options.judges_own_family else "left out",
            "evidence": evidence_hash(rows),
            "tokens": "+".join(sorted({cost.tokens_from for cost in costs.values()})),
            "prices": ",".join(f"{name}={_price(cost.price)}" for name, cost in costs.items()),
        },
    )
    return PanelCosts(costs, frontier, review)


def _price(price: Price | None) -> str:
    if price is None:
        return "unknown"
    return (
        f"{price.input_usd:g}" if price.input_usd == price.output_usd else f"{price.input_usd:g}/{price.output_usd:g}"
    )
