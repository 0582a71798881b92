"""``goldless plan``: what a score would ask and cost, before anything runs."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from goldless.cli.console import out
from goldless.cli.metric_options import JsonOption, StudyArgument, metric_options, run_on_study
from goldless.runs.options import Options
from goldless.runs.planning import Plan, PlannedCalls, plan_study


@metric_options(leave_out=("on_too_long", "resamples", "level", "budget"))
def plan(study: StudyArgument, *, options: Options, json_only: JsonOption = False) -> None:
    """Print calls, tokens, cost and time of a score, for each metric alone and for all together. Asks no server.

    Example: goldless plan answers.jsonl --metric gem-raw,tvd-mi --critic openai:gpt-4o-mini
    """
    planned = run_on_study(plan_study, study, options)
    if json_only:
        typer.echo(json.dumps(asdict(planned), ensure_ascii=False, indent=2))
    else:
        _print(planned)


def _print(planned: Plan) -> None:
    table = Table(
        title=Text(f"Plan for {planned.study}"),
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("metric", no_wrap=True)
    table.add_column("asks the", no_wrap=True)
    for name in ("calls", "known", "tokens", "computed", "USD", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in planned.rows:
        table.add_row(Text(row.metric or ""), *_cells(row))
    table.add_section()
    for i, row in enumerate(planned.together):
        table.add_row("all together" if i == 0 else "", *_cells(row), style="bold")
    out.print(table)
    if not planned.together:
        out.print("No model is asked: everything is computed from what the study carries.")
    out.print(
        "calls: different ones; known: in the journal already; tokens: each call whole, as a server charges; computed: "
        "where beginnings are shared; USD and time: of what is not known yet; ?: cannot be told.",
        style="dim",
    )
    for part, model in {row.part: row.model for row in planned.together}.items():
        out.print(f"{part}: {model}", style="dim", markup=False)
    for note in planned.notes:
        out.print(note, style="dim", markup=False)


def _cells(row: PlannedCalls) -> tuple[str, ...]:
    return (
        row.part,
        f"{row.calls:,}",
        "?" if row.known is None else f"{row.known:,}",
        f"{row.tokens:,}",
        "-" if row.computed_tokens is None else f"{row.computed_tokens:,}",
        "?" if row.cost_usd is None else f"{row.cost_usd:.2f}",
        _time(row.seconds),
    )


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
