"""``goldless plan --cost``: what metrics and reviewers cost, here and on more tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from goldless.cli.command import RESULT_FOLDER, verb
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.errors import UserError
from goldless.runs.option_forms import FILES, LINES, option
from goldless.runs.options import CRITIC, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.cost import CostReport
    from goldless.studies import Study

REVIEWERS = "Reviewers"
PANELS = "Panels are compared by benchmarks/panel_frontier.py in the source tree."


@dataclass(frozen=True, kw_only=True)
class Costing:
    """Options of ``cost``."""

    tasks: int = option(10_000, "Also estimate the cost on N tasks like these.")
    reviewer_price: Sequence[str] = option(
        (), "Price of a reviewer in USD per million tokens, or NAME=IN,OUT.", "NAME=USD", group=REVIEWERS, form=LINES
    )
    tokens_per_judgement: float | None = option(
        None, "Tokens per judgement (default: a quarter of the question's characters)."
    )
    runs: Sequence[Path | str] = option(
        (),
        "Run folder whose actual spending is used instead of an estimate. Repeat it.",
        "--run FOLDER",
        group=MODELS,
        form=FILES,
    )
    ask: bool = option(False, PANELS, group=REVIEWERS)


@verb(
    *(METRICS, CRITIC, "reviewers", "scale", "orders", "own_family", STATISTICS, MODELS),
    without=("on_too_long",),
    first=("metrics", "reviewers", "tasks", "out_folder"),
    usual={"metrics": ()},
    helps={
        "reviewers": "Comma-separated chat models, MODEL or NAME=MODEL. Their cost is estimated.",
        "recorded": PANELS,
    },
    out=RESULT_FOLDER,
)
async def cost(study: Study, own: Costing, options: Options) -> CostReport:
    """Estimate calls, tokens, USD and time of metrics and reviewers, here and on more tasks. Calls no model.

    Examples:
      goldless plan --cost answers.csv --metric gem-raw,tvd-mi --tasks 1000
      goldless plan --cost answers.csv --reviewers openai:gpt-4o-mini,openai:gpt-4o
    """
    from goldless.meta_evaluation.cost import find_costs, parse_reviewer_prices, reviewer_costs

    if options.recorded or own.ask:
        raise UserError(
            "panels of reviewers are not compared here. Run python benchmarks/panel_frontier.py STUDY in the source "
            "tree, which prints every panel's accuracy and cost from recorded judgements"
        )
    if not (options.metrics or options.reviewers or own.runs):
        options = replace(options, metrics=("gem-raw",))
    prices = parse_reviewer_prices(own.reviewer_price)
    known = reviewer_costs(study, options, prices=prices, tokens_a_judgement=own.tokens_per_judgement)
    return await find_costs(study, options, tasks=own.tasks, runs=own.runs, reviewers=known)


@cost.told
def _tell(found: CostReport, output: Output, *, source: Study) -> None:
    from goldless.reports.report_table import seconds_text, usd_text

    output.keep(source, "cost", found, lambda: "\n".join(one.to_markdown() for one in found.tables()))
    output.show(found)
    total = found.total
    if total is not None and len(found.rows) > 1:
        money = "price unknown for a part of it" if total.usd is None else f"{usd_text(total.usd)} USD"
        time = "time not known" if total.seconds is None else seconds_text(total.seconds)
        say(f"all of it on {found.tasks:,} tasks: {total.tokens:,.0f} tokens, {money}, {time}")
    for note in found.notes:
        say(note)
    output.tell_folder()
