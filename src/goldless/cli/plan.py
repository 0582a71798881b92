"""``goldless plan``: what a score will cost; ``--cost``: what metrics and reviewers cost, also on more tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from goldless.cli.command import verb
from goldless.cli.output import Output, plain_table
from goldless.runs.option_forms import LINES, option
from goldless.runs.options import CRITIC, DETECTION, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.cost import CostReport
    from goldless.runs.estimate import Plan
    from goldless.studies import Study

READING = (
    "calls: distinct calls (a repeated one is taken from the journal); known: already in the journal; tokens: as a "
    "server charges them; computed: with shared beginnings counted once; USD and time: of calls not yet known; "
    "?: unknown."
)
REVIEWERS = "Reviewers"


@verb(
    *(METRICS, CRITIC, "reviewers", "seed", DETECTION, "alpha", "at_least", MODELS),
    without=("on_too_long", "budget_usd"),
    first=("metrics", "scorer", "rewriters", "critic", "recorded"),
    averages_samples=True,
    questions={"--cost": "Estimate the cost of metrics and reviewers, also on more tasks."},
)
async def plan(study: Study, *, options: Options) -> Plan:
    """Estimate calls, tokens, cost and time of a score, for each metric alone and for all together. Calls no model.

    Examples:
      goldless plan answers.csv
      goldless plan answers.csv --metric gem-raw,tvd-mi --critic openai:gpt-4o-mini
      goldless plan answers.csv --detect 0.3
    """
    from goldless.runs.estimate import plan_study

    return await plan_study(study, options)


@plan.told
def _tell(found: Plan, output: Output) -> None:
    rows = [asdict(row) for row in (*found.rows, *found.together)]
    calls = plain_table(
        f"Plan for {found.study}",
        rows,
        metric=("metric", "text", "all together"),
        part="calls the",
        model=("model", "text", None, 4, True),
        calls=("calls", "count"),
        known=("known", "count", "?"),
        tokens=("tokens", "count"),
        computed_tokens=("computed", "count"),
        cost_usd=("USD", "usd", "?"),
        seconds=("time", "seconds", "?"),
    )
    tables = [replace(calls, apart=len(found.together))]
    if found.power is not None:
        deciding = plain_table(
            f"Tasks to detect {found.power.detect:g} standard deviations",
            map(asdict, found.power.rows),
            question="to decide",
            tests=("comparisons", "count"),
            tasks=("tasks", "count", "too many"),
            usd=("USD", "usd", "?"),
            seconds=("time", "seconds", "?"),
            tasks_until=("within", "count", "-"),
        )
        tables.append(deciding)
    models = {row.part: row.model for row in found.together}
    nobody = () if found.together else ("No model is called: everything is computed from the study.",)
    below = (*nobody, READING, *(f"{part}: {model}" for part, model in models.items()), *found.notes)
    output.print_tables(tables, lambda: asdict(found), below=below)


@dataclass(frozen=True, kw_only=True)
class Costing:
    tasks: int = option(10_000, "Also estimate the cost on N tasks like these.", at_least=1)
    reviewer_price: Sequence[str] = option(
        (), "Price of a reviewer in USD per million tokens, or NAME=IN,OUT.", "NAME=USD", group=REVIEWERS, form=LINES
    )
    tokens_per_judgement: float | None = option(
        None, "Tokens per judgement (default: a quarter of the question's characters)."
    )
    runs: Sequence[Path | str] = option(
        (), "Run folder whose actual spending is used instead of an estimate. Repeat it.", "--run FOLDER", group=MODELS
    )


@verb(
    *(METRICS, CRITIC, "reviewers", "scale", "orders", "own_family", STATISTICS, MODELS),
    without=("on_too_long", "recorded"),
    first=("metrics", "reviewers", "tasks", "folder"),
    usual={"metrics": ()},
    helps={"reviewers": "Comma-separated chat models, MODEL or NAME=MODEL. Their cost is estimated."},
    kept_as="cost",
)
async def cost(study: Study, own: Costing, options: Options) -> CostReport:
    """Estimate calls, tokens, USD and time of metrics and reviewers, here and on more tasks. Calls no model.

    Examples:
      goldless plan --cost answers.csv --metric gem-raw,tvd-mi --tasks 1000
      goldless plan --cost answers.csv --reviewers openai:gpt-4o-mini,openai:gpt-4o
    """
    from goldless.meta_evaluation.cost import find_costs, parse_reviewer_prices, reviewer_costs

    if not (options.metrics or options.reviewers or own.runs):
        options = replace(options, metrics=("gem-raw",))
    prices = parse_reviewer_prices(own.reviewer_price)
    known = reviewer_costs(study, options, prices=prices, tokens_a_judgement=own.tokens_per_judgement)
    return await find_costs(study, options, tasks=own.tasks, runs=own.runs, reviewers=known)


@cost.told
def _tell_cost(found: CostReport, output: Output) -> None:
    from goldless.reports.report_table import seconds_text, usd_text

    notes, total = [], found.total
    if total is not None and len(found.rows) > 1:
        money = "price unknown for a part of it" if total.usd is None else f"{usd_text(total.usd)} USD"
        time = "time not known" if total.seconds is None else seconds_text(total.seconds)
        notes = [f"all of it on {found.tasks:,} tasks: {total.tokens:,.0f} tokens, {money}, {time}"]
    output.tell(found, notes=notes)
