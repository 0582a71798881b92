"""``goldless cost``: what metrics and panels of reviewers cost, and what accuracy the money buys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from goldless.cli.console import say, tell_folder, tell_spending
from goldless.cli.exit_codes import INCOMPLETE
from goldless.cli.metric_options import (
    COST,
    STATISTICS,
    FormatOption,
    JsonOption,
    MarginOption,
    ResultOption,
    StudyArgument,
    metric_options,
    names,
    run_on_study,
)
from goldless.cli.tables import print_tables
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
from goldless.reports.report_table import ReportTable, seconds_text, usd_text
from goldless.runs.options import Options
from goldless.runs.review_options import ReviewOptions
from goldless.runs.store import save_result
from goldless.studies import Study, as_study

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
    margin: MarginOption = None,
    own_family: Annotated[
        bool,
        typer.Option("--own-family", help="Count judgements on a reviewer's own family too.", rich_help_panel=PANELS),
    ] = False,
    out_folder: ResultOption = None,
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
        margin=margin,
        own_family=own_family,
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

    async def find_costs_and_panels(
        source: Study, how: Options
    ) -> tuple[CostReport, dict[str, ReviewerCost], PanelCosts | None]:
        panels, known = None, {}
        if recorded or ask:
            panels = await find_panels(source, replace(asked, progress=how.progress), **given, splits=splits)
            known = dict(panels.reviewers)
        elif reviewers:
            known = planned_reviewer_costs(source, asked, **given)
        report = await find_costs(source, how, tasks=tasks, runs=run or (), reviewers=known, scale=scale)
        return report, known, panels

    report, known, panels = run_on_study(find_costs_and_panels, opened, options, out_folder=out_folder)
    tables = _tables(report, known, panels)
    data = {
        **report.as_json(),
        "reviewers": [cost.as_row() for cost in known.values()],
        "panels": None if panels is None else panels.frontier.as_json(),
    }
    if out_folder is not None:
        markdown = "\n".join(one.to_markdown() for one in tables)
        spending = () if panels is None else panels.review.spending
        save_result(opened, out_folder, verb="cost", name="cost", data=data, markdown=markdown, spending=spending)
    print_tables(tables, "json" if json_only else table, as_json=lambda: data)
    _tell(report, panels, out_folder)


def _tables(report: CostReport, reviewers: Mapping[str, ReviewerCost], panels: PanelCosts | None) -> list[ReportTable]:
    tables = [report.table(), report.scaled_table()]
    if reviewers:
        tables.append(reviewer_table(reviewers.values()))
    if panels is not None:
        tables.append(panels.frontier.size_table())
        if panels.frontier.frontier:
            tables.append(panels.frontier.frontier_table())
    return tables


def _tell(report: CostReport, panels: PanelCosts | None, folder: Path | None) -> None:
    """Say the rest on standard error; exit with 3 where judgements are missing that could be asked for again."""
    total = report.total
    if total is not None and len(report.rows) > 1:
        money = "price unknown for a part of it" if total.usd is None else f"{usd_text(total.usd)} USD"
        time = "time not known" if total.seconds is None else seconds_text(total.seconds)
        say(f"all of it on {report.tasks:,} tasks: {total.tokens:,.0f} tokens, {money}, {time}")
    for note in report.notes:
        say(note)
    if panels is not None:
        _tell_panels(panels)
    tell_folder(folder, "result")
    if panels is not None and not panels.review.complete:
        say(f"incomplete: {panels.review.open} judgements left; run the same command again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)


def _tell_panels(panels: PanelCosts) -> None:
    tell_spending(panels.review.spending)
    frontier = panels.frontier
    for note in (*frontier.notes, OPTIMISTIC):
        say(note, style="yellow")
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
