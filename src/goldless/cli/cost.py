"""``goldless cost``: what metrics and panels of reviewers cost, and what accuracy the money buys."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from goldless.cli.command import RESULT_FOLDER, StudyArgument, own, verb
from goldless.cli.console import incomplete, say
from goldless.cli.output import Output, tell_spending
from goldless.errors import UserError
from goldless.runs.options import CRITIC, LABELS, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.cost.cost_report import CostReport
    from goldless.meta_evaluation.cost.panels import Frontier
    from goldless.runs.review_results import Review
    from goldless.studies import Study

PANELS = "Panels of reviewers"


@verb(
    *(METRICS, CRITIC, "reviewers", "scale", "orders", "own_family", LABELS, STATISTICS, MODELS),
    without=("on_too_long",),
    first=("metrics", "reviewers", "tasks", "recorded", "out_folder"),
    usual={"metrics": ()},
    helps={
        "reviewers": "Comma-separated chat models, MODEL or NAME=MODEL; with --recorded, names. Their cost is "
        "estimated; with --recorded or --ask all their panels are compared with human labels.",
        "recorded": "Compare panels by judgements recorded in the study.",
    },
    out=RESULT_FOLDER,
)
def cost(
    study: StudyArgument,
    *,
    tasks: Annotated[int, own("Also estimate the cost on N tasks like these.")] = 10_000,
    ask: Annotated[
        bool, own("Call the reviewers now, as goldless review does, and compare panels.", PANELS, "--ask")
    ] = False,
    reviewer_price: Annotated[
        list[str] | None,
        own("Price of a reviewer in USD per million tokens, or NAME=IN,OUT.", PANELS, "NAME=USD"),
    ] = None,
    tokens_per_judgement: Annotated[
        float | None,
        own("Tokens per judgement (default: as counted, or a quarter of the question's characters).", PANELS),
    ] = None,
    splits: Annotated[
        int, own("Random halvings of the tasks: one half to choose a panel, the other to measure it.", PANELS)
    ] = 200,
    run: Annotated[
        list[Path] | None,
        own("Run folder whose actual spending is used instead of an estimate. Repeat it.", MODELS, "FOLDER"),
    ] = None,
    options: Options,
    output: Output,
) -> None:
    """Estimate calls, tokens, USD and time of metrics and reviewers, here and on more tasks; compare panels.

    Calls no model unless --ask is given.

    Examples:
      goldless cost answers.csv --metric gem-raw,tvd-mi --tasks 1000
      goldless cost study/ --recorded
    """
    from goldless.meta_evaluation.cost.judgement_costs import parse_reviewer_prices
    from goldless.studies import as_study

    if options.recorded and ask:
        raise UserError("--recorded and --ask exclude each other: use recorded judgements, or call the reviewers")
    if ask and not options.reviewers:
        raise UserError("--ask needs reviewers. Name them with --reviewers")
    if not (options.metrics or options.reviewers or options.recorded or run):
        options = replace(options, metrics=("gem-raw",))
    given = {"prices": parse_reviewer_prices(reviewer_price or []), "tokens_a_judgement": tokens_per_judgement}
    opened = as_study(study)
    work = partial(_find, panels_too=options.recorded or ask, given=given, splits=splits, tasks=tasks, runs=run or ())
    work.__name__ = "find_costs_and_panels"  # type: ignore[attr-defined]
    report, review = output.run(work, opened, options)
    markdown = "\n".join(one.to_markdown() for one in report.tables())
    output.keep(opened, "cost", report, lambda: markdown, spending=() if review is None else review.spending)
    output.show(report)
    _tell(report, review, output)


async def _find(
    study: Study, options: Options, *, panels_too: bool, given: dict[str, Any], splits: int, **more: Any
) -> tuple[CostReport, Review | None]:
    """The costs of metrics and reviewers, and panels where judgements are recorded or requested, with their review."""
    from goldless.meta_evaluation.cost.judgement_costs import planned_reviewer_costs
    from goldless.meta_evaluation.cost.panels import find_panels
    from goldless.meta_evaluation.cost.spending import find_costs

    panels, known = None, {}
    if panels_too:
        panels = await find_panels(study, options, **given, splits=splits)
        known = dict(panels.reviewers)
    elif options.reviewers:
        known = planned_reviewer_costs(study, options, **given)
    metrics = replace(options, recorded=False)  # metrics are estimated: only judgements are recorded here
    report = await find_costs(study, metrics, reviewers=known, scale=options.scale, **more)
    return (report, None) if panels is None else (replace(report, panels=panels.frontier), panels.review)


def _tell(report: CostReport, review: Review | None, output: Output) -> None:
    """Report the rest on standard error; exit with 3 where judgements are missing that can still be requested."""
    from goldless.reports.report_table import seconds_text, usd_text

    total = report.total
    if total is not None and len(report.rows) > 1:
        money = "price unknown for a part of it" if total.usd is None else f"{usd_text(total.usd)} USD"
        time = "time not known" if total.seconds is None else seconds_text(total.seconds)
        say(f"all of it on {report.tasks:,} tasks: {total.tokens:,.0f} tokens, {money}, {time}")
    for note in report.notes:
        say(note)
    if review is not None:
        tell_spending(review.spending)
    if report.panels is not None:
        _tell_panels(report.panels)
    output.tell_folder()
    if review is not None and not review.complete:
        incomplete(f"{review.open} judgements left")


def _tell_panels(frontier: Frontier) -> None:
    for note in (*frontier.notes, frontier.note):
        say(note, style="yellow")
    held = frontier.most_accurate.held_out
    if held is not None and held.accuracy is not None and held.on_choosing_half is not None:
        say(
            f"choosing the most accurate of all panels: {held.on_choosing_half:.4f} on the tasks it was chosen on, "
            f"{held.accuracy:.4f} on the others ({held.splits} splits of {held.n_tasks} tasks)"
        )
    if frontier.unpriced:
        say(
            f"price unknown: {', '.join(frontier.unpriced)}; panels with them are not on the frontier. Try "
            "--reviewer-price NAME=USD_PER_MILLION, 0 for an open model",
            style="yellow",
        )
