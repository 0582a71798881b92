"""``goldless compare``: two agents of one run or of two, on their common tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goldless.cli.command import own, verb
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.runs.options import STATISTICS, Options

RunsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="RUN [RUN_B]", help="A run folder, or two: before and after the change."),
]
METRIC_NAMES = "Comma-separated metrics of the runs (default: all that both have)."


@verb(STATISTICS, first=("agents", "metrics"))
def compare(
    runs: RunsArgument,
    *,
    agents: Annotated[
        str | None,
        own("The two agents to compare, before and after; one name is meant in both runs.", flags="--agents A,B"),
    ] = None,
    metrics: Annotated[list[str] | None, own(METRIC_NAMES, flags="--metric -m NAMES")] = None,
    options: Options,
    output: Output,
) -> None:
    """Compare two agents on common tasks: the difference, its interval, which tasks pull which way, what would decide.

    Scores must be of the same metric and model; differences are second minus first. Calls no model.

    Examples:
      goldless compare runs/pr --agents v1,v2
      goldless compare runs/main runs/pr --agents support-bot
    """
    from goldless.comparison.comparing import compare_runs
    from goldless.reports.document import write
    from goldless.runs.option_forms import metric_names, split

    found = compare_runs(
        runs,
        agents=split([agents or ""]),
        metrics=metric_names(metrics or ()),
        **options.some("seed", "resamples", "level"),
    )
    output.print_tables(found.tables(), lambda: write(found))
    for warning in found.warnings:
        say(f"warning: {warning}", style="yellow")
