"""``goldless plan``: what a score would ask and cost, before anything runs."""

from __future__ import annotations

from dataclasses import asdict

from goldless.cli.metric_options import FormatOption, JsonOption, StudyArgument, metric_options, run_on_study
from goldless.cli.tables import print_tables
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.estimate import Plan, plan_study
from goldless.runs.options import Options

READING = (
    "calls: different ones; known: in the journal already; tokens: each call whole, as a server charges; computed: "
    "where beginnings are shared; USD and time: of what is not known yet; ?: cannot be told."
)
COLUMNS = (
    Column("metric", "metric", absent="all together"),
    Column("part", "asks the"),
    Column("model", "model", wide=True),
    Column("calls", "calls", "count"),
    Column("known", "known", "count", "?"),
    Column("tokens", "tokens", "count"),
    Column("computed_tokens", "computed", "count"),
    Column("cost_usd", "USD", "usd", "?"),
    Column("seconds", "time", "seconds", "?"),
)


@metric_options(leave_out=("on_too_long", "resamples", "level", "budget"))
def plan(
    study: StudyArgument, *, options: Options, table: FormatOption = "rich", json_only: JsonOption = False
) -> None:
    """Print calls, tokens, cost and time of a score, for each metric alone and for all together. Asks no server.

    Example: goldless plan answers.jsonl --metric gem-raw,tvd-mi --critic openai:gpt-4o-mini
    """
    planned = run_on_study(plan_study, study, options)
    models = {row.part: row.model for row in planned.together}
    nobody = () if planned.together else ("No model is asked: everything is computed from what the study carries.",)
    print_tables(
        [plan_table(planned)],
        "json" if json_only else table,
        as_json=lambda: asdict(planned),
        below=(*nobody, READING, *(f"{part}: {model}" for part, model in models.items()), *planned.notes),
    )


def plan_table(planned: Plan) -> ReportTable:
    """Each metric alone, then all of them in one run."""
    rows = tuple(asdict(row) for row in (*planned.rows, *planned.together))
    return ReportTable(f"Plan for {planned.study}", COLUMNS, rows, apart=len(planned.together))
