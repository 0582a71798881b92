"""``goldless cost``: what metrics and panels of reviewers cost, and what accuracy the money buys."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import typer

from goldless.cli.console import ProgressBars, out, say
from goldless.cli.metric_options import (
    COST,
    STATISTICS,
    Format,
    FormatOption,
    JsonOption,
    StudyArgument,
    metric_options,
    names,
)
from goldless.errors import UserError
from goldless.judging.judges import JUDGES
from goldless.meta_evaluation.cost.cost_report import CostReport
from goldless.meta_evaluation.cost.judgement_costs import (
    ReviewerCost,
    parse_reviewer_prices,
    planned_reviewer_costs,
    reviewer_table,
)
from goldless.meta_evaluation.cost.panel_frontier import OPTIMISTIC
from goldless.meta_evaluation.cost.panels import PanelCosts, find_panels
from goldless.meta_evaluation.cost.spending import find_costs
from goldless.models.usage import Price
from goldless.reports.report_table import ReportTable, seconds_text, usd_text
from goldless.runs.options import Options
from goldless.runs.review_options import ReviewOptions
from goldless.studies import Study, as_study

INCOMPLETE = 3
PANELS = "Panels of reviewers"


@metric_options(default=None, leave_out=("on_too_long",))
def cost(
    study: StudyArgument,
    *,
    options: Options,
    tasks: Annotated[
        int, typer.Option(help="What would it cost on so many tasks like these?", rich_help_panel=COST)
    ] = 10_000,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN_DIR",
            help="Folder of a run or review of this study, whose spending is used instead of a plan. Repeat it.",
            rich_help_panel=COST,
        ),
    ] = None,
    reviewers: Annotated[
        list[str] | None,
        typer.Option(
            "--reviewers",
            help="Chat models, by commas or repeated: SPEC or NAME=SPEC; with --recorded names. Their cost is "
            "planned; with --recorded or --ask all their panels are compared with people's labels.",
            rich_help_panel=PANELS,
        ),
    ] = None,
    recorded: Annotated[
        bool,
        typer.Option("--recorded", help="Compare panels by judgements that the study carries.", rich_help_panel=PANELS),
    ] = False,
    ask: Annotated[
        bool,
        typer.Option(
            "--ask", help="Ask the reviewers now, as goldless review does, and compare panels.", rich_help_panel=PANELS
        ),
    ] = False,
    scale: Annotated[
        str, typer.Option(help=f"What they are asked: {', '.join(JUDGES)}.", rich_help_panel=PANELS)
    ] = "pairwise",
    reviewer_price: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=USD",
            help="USD per million tokens of a reviewer, or NAME=IN,OUT. Repeat it; 0 for an open model.",
            rich_help_panel=PANELS,
        ),
    ] = None,
    tokens_per_judgement: Annotated[
        float | None,
        typer.Option(
            help="Tokens of one judgement; by default those counted, or the question's text at 4 characters a token.",
            rich_help_panel=PANELS,
        ),
    ] = None,
    criterion: Annotated[
        str | None, typer.Option(help="Of the labels, where they have several.", rich_help_panel=STATISTICS)
    ] = None,
    convention: Annotated[
        Literal["default", "paper"],
        typer.Option(help="paper: what is missing counts one half, as in Auto-PRE.", rich_help_panel=STATISTICS),
    ] = "default",
    splits: Annotated[
        int,
        typer.Option(
            help="How often tasks are halved to choose on one and measure on the other.", rich_help_panel=PANELS
        ),
    ] = 200,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Print calls, tokens, USD and time of metrics and reviewers, here and on more tasks; compare panels of every size.

    Asks no model but with --ask. Example: goldless cost study/ --metric gem-raw,tvd-mi --critic openai:gpt-4o-mini
    """
    if recorded and ask:
        raise UserError("--recorded uses the judgements that are there and --ask asks for them: give one of the two")
    if ask and not reviewers:
        raise UserError("--ask asks reviewers: name them with --reviewers")
    if not (options.metrics or reviewers or recorded or run):
        options = replace(options, metrics=("gem-raw",))
    asked = ReviewOptions(
        reviewers=names(reviewers),
        scale=scale,
        recorded=recorded,
        criterion=criterion,
        convention=convention,
        seed=options.seed,
        resamples=options.resamples,
        level=options.level,
        verdicts=options.verdicts,
        budget_usd=options.budget_usd,
        price=options.price,
        journal=options.journal,
        say=say,
    )
    given: dict[str, Any] = {
        "prices": parse_reviewer_prices(reviewer_price or []),
        "tokens_a_judgement": tokens_per_judgement,
    }
    opened = as_study(study)
    panels = _panels(opened, asked, given, splits) if recorded or ask else None
    known = panels.reviewers if panels else _planned(opened, asked, given) if reviewers else {}
    work = functools.partial(
        find_costs,
        tasks=tasks,
        runs=run or (),
        reviewers=known,
        scale=scale,
    )
    report = anyio.run(work, opened, options)
    _print(report, known, panels, "json" if json_only else table)
    if panels is not None and not panels.review.complete:
        say(f"incomplete: {panels.review.open} judgements left; run the same command again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)


def _panels(study: Study, options: ReviewOptions, given: dict[str, Any], splits: int) -> PanelCosts:
    with ProgressBars() as bars:
        work = functools.partial(find_panels, **given, splits=splits)
        return anyio.run(work, study, replace(options, progress=bars))


def _planned(study: Study, options: ReviewOptions, given: dict[str, Any]) -> dict[str, ReviewerCost]:
    prices: dict[str, Price] = given["prices"]
    return planned_reviewer_costs(study, options, prices=prices, tokens_a_judgement=given["tokens_a_judgement"])


def _print(report: CostReport, reviewers: Any, panels: PanelCosts | None, table: Format) -> None:
    if table == "json":
        data = {
            **report.as_json(),
            "reviewers": [cost.as_row() for cost in reviewers.values()],
            "panels": None if panels is None else panels.frontier.as_json(),
        }
        typer.echo(json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False))
        return
    tables = [report.table(), report.scaled_table()]
    if reviewers:
        tables.append(reviewer_table(reviewers.values()))
    if panels is not None:
        tables.append(panels.frontier.size_table())
        if panels.frontier.frontier:
            tables.append(panels.frontier.frontier_table())
    print_tables(tables, table)
    _tell(report, panels)


def print_tables(tables: list[ReportTable], table: Format) -> None:
    """Print tables one after the other on standard output, each with its signature."""
    for i, one in enumerate(tables):
        if table == "csv":
            typer.echo(("\n" if i else "") + one.to_csv(), nl=False)
        elif table == "markdown":
            typer.echo(one.to_markdown())
        else:
            out.print(one.to_rich())
            if one.signature and one.signature not in {later.signature for later in tables[i + 1 :]}:
                out.print(one.signature, markup=False, soft_wrap=True, style="dim")


def _tell(report: CostReport, panels: PanelCosts | None) -> None:
    """Say on standard error what a reader of the tables must know."""
    total = report.total
    if total is not None and len(report.rows) > 1:
        money = "price unknown for a part of it" if total.usd is None else f"{usd_text(total.usd)} USD"
        time = "time not known" if total.seconds is None else seconds_text(total.seconds)
        say(f"all of it on {report.tasks:,} tasks: {total.tokens:,.0f} tokens, {money}, {time}")
    for note in report.notes:
        say(note)
    if panels is None:
        return
    frontier = panels.frontier
    say(OPTIMISTIC, style="yellow")
    held = frontier.most_accurate.held_out
    if held is not None and held.accuracy is not None and held.on_choosing_half is not None:
        say(
            f"choosing the most accurate of all panels: {held.on_choosing_half:.4f} on the tasks it was chosen on, "
            f"{held.accuracy:.4f} on those held out ({held.splits} splits of {held.n_tasks} tasks)"
        )
    if frontier.unpriced:
        say(
            f"price unknown: {', '.join(frontier.unpriced)}; panels with them are on no frontier. Give prices with "
            "--reviewer-price NAME=USD_PER_MILLION, 0 for an open model.",
            style="yellow",
        )
