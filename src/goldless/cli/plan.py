"""``goldless plan``: calls and cost of a score, before anything runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from goldless.cli.command import StudyArgument, verb
from goldless.cli.output import Output
from goldless.runs.options import CRITIC, DETECTION, METRICS, MODELS, Options

if TYPE_CHECKING:
    from goldless.reports.report_table import ReportTable
    from goldless.runs.estimate import Plan
    from goldless.runs.power import Power

READING = (
    "calls: distinct calls (a repeated one is taken from the journal); known: already in the journal; tokens: as a "
    "server charges them; computed: with shared beginnings counted once; USD and time: of calls not yet known; "
    "?: unknown."
)


@verb(
    METRICS,
    CRITIC,
    "reviewers",
    "seed",
    DETECTION,
    "alpha",
    "at_least",
    MODELS,
    without=("on_too_long", "budget_usd"),
    first=("metrics", "scorer", "rewriters", "critic", "recorded"),
)
def plan(study: StudyArgument, *, options: Options, output: Output) -> None:
    """Estimate calls, tokens, cost and time of a score, for each metric alone and for all together. Calls no model.

    Examples:
      goldless plan answers.csv
      goldless plan answers.csv --metric gem-raw,tvd-mi --critic openai:gpt-4o-mini
      goldless plan answers.csv --detect 0.3
    """
    from goldless.runs.estimate import plan_study

    planned = output.run(plan_study, study, options, averages_samples=True)
    models = {row.part: row.model for row in planned.together}
    nobody = () if planned.together else ("No model is called: everything is computed from the study.",)
    output.print_tables(
        [_table(planned), *([] if planned.power is None else [_power_table(planned.power)])],
        lambda: asdict(planned),
        below=(*nobody, READING, *(f"{part}: {model}" for part, model in models.items()), *planned.notes),
    )


def _table(planned: Plan) -> ReportTable:
    """Each metric alone, then all of them in one run."""
    from goldless.reports.report_table import Column, ReportTable

    columns = (
        Column("metric", "metric", absent="all together"),
        Column("part", "calls the"),
        Column("model", "model", wide=True),
        Column("calls", "calls", "count"),
        Column("known", "known", "count", "?"),
        Column("tokens", "tokens", "count"),
        Column("computed_tokens", "computed", "count"),
        Column("cost_usd", "USD", "usd", "?"),
        Column("seconds", "time", "seconds", "?"),
    )
    rows = tuple(asdict(row) for row in (*planned.rows, *planned.together))
    return ReportTable(f"Plan for {planned.study}", columns, rows, apart=len(planned.together))


def _power_table(power: Power) -> ReportTable:
    """One row per kind of question."""
    from goldless.reports.report_table import Column, ReportTable

    columns = (
        Column("question", "to decide"),
        Column("tests", "comparisons", "count"),
        Column("tasks", "tasks", "count", "too many"),
        Column("usd", "USD", "usd", "?"),
        Column("seconds", "time", "seconds", "?"),
        Column("tasks_until", "within", "count", "-"),
    )
    rows = tuple(asdict(row) for row in power.rows)
    return ReportTable(f"Tasks to detect {power.detect:g} standard deviations", columns, rows)
