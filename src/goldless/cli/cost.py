"""``goldless cost``: what metrics and reviewers cost, here and on more tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from goldless.cli.command import RESULT_FOLDER, StudyArgument, own, verb
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.errors import UserError
from goldless.runs.options import CRITIC, METRICS, MODELS, STATISTICS, Options

REVIEWERS = "Reviewers"
PANELS = "Panels are compared by benchmarks/panel_frontier.py in the source tree."


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
def cost(
    study: StudyArgument,
    *,
    tasks: Annotated[int, own("Also estimate the cost on N tasks like these.")] = 10_000,
    reviewer_price: Annotated[
        list[str] | None,
        own("Price of a reviewer in USD per million tokens, or NAME=IN,OUT.", REVIEWERS, "NAME=USD"),
    ] = None,
    tokens_per_judgement: Annotated[
        float | None, own("Tokens per judgement (default: a quarter of the question's characters).", REVIEWERS)
    ] = None,
    run: Annotated[
        list[Path] | None,
        own("Run folder whose actual spending is used instead of an estimate. Repeat it.", MODELS, "FOLDER"),
    ] = None,
    ask: Annotated[bool, own(PANELS, REVIEWERS, "--ask")] = False,
    options: Options,
    output: Output,
) -> None:
    """Estimate calls, tokens, USD and time of metrics and reviewers, here and on more tasks. Calls no model.

    Examples:
      goldless cost answers.csv --metric gem-raw,tvd-mi --tasks 1000
      goldless cost answers.csv --reviewers openai:gpt-4o-mini,openai:gpt-4o
    """
    from goldless.meta_evaluation.cost import find_costs, parse_reviewer_prices, reviewer_costs
    from goldless.reports.report_table import seconds_text, usd_text
    from goldless.studies import as_study

    if options.recorded or ask:
        raise UserError(
            "panels of reviewers are not compared here. Run python benchmarks/panel_frontier.py STUDY in the "
            "source tree, which prints every panel's accuracy and cost from recorded judgements"
        )
    if not (options.metrics or options.reviewers or run):
        options = replace(options, metrics=("gem-raw",))
    opened = as_study(study)
    prices = parse_reviewer_prices(reviewer_price or [])
    known = reviewer_costs(opened, options, prices=prices, tokens_a_judgement=tokens_per_judgement)
    report = output.run(find_costs, opened, options, tasks=tasks, runs=run or (), reviewers=known)
    output.keep(opened, "cost", report, lambda: "\n".join(one.to_markdown() for one in report.tables()))
    output.show(report)
    total = report.total
    if total is not None and len(report.rows) > 1:
        money = "price unknown for a part of it" if total.usd is None else f"{usd_text(total.usd)} USD"
        time = "time not known" if total.seconds is None else seconds_text(total.seconds)
        say(f"all of it on {report.tasks:,} tasks: {total.tokens:,.0f} tokens, {money}, {time}")
    for note in report.notes:
        say(note)
    output.tell_folder()
