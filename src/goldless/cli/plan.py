"""``goldless plan``: what a score will cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from goldless.cli.command import verb
from goldless.cli.output import Output
from goldless.runs.options import CRITIC, DETECTION, METRICS, MODELS, Options

if TYPE_CHECKING:
    from goldless.runs.estimate import Plan
    from goldless.studies import Study

READING = (
    "calls: distinct calls (a repeated one is taken from the journal); known: already in the journal; tokens: as a "
    "server charges them; computed: with shared beginnings counted once; USD and time: of calls not yet known; "
    "?: unknown."
)


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
    from goldless.reports.report_table import Column, ReportTable

    calls = (
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
    rows = tuple(asdict(row) for row in (*found.rows, *found.together))
    tables = [ReportTable(f"Plan for {found.study}", calls, rows, apart=len(found.together))]
    if found.power is not None:
        questions = (
            Column("question", "to decide"),
            Column("tests", "comparisons", "count"),
            Column("tasks", "tasks", "count", "too many"),
            Column("usd", "USD", "usd", "?"),
            Column("seconds", "time", "seconds", "?"),
            Column("tasks_until", "within", "count", "-"),
        )
        title = f"Tasks to detect {found.power.detect:g} standard deviations"
        tables.append(ReportTable(title, questions, tuple(asdict(row) for row in found.power.rows)))
    models = {row.part: row.model for row in found.together}
    nobody = () if found.together else ("No model is called: everything is computed from the study.",)
    below = (*nobody, READING, *(f"{part}: {model}" for part, model in models.items()), *found.notes)
    output.print_tables(tables, lambda: asdict(found), below=below)
