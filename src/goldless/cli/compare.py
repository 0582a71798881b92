"""``goldless compare``: two agents of one run or of two, on their common tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goldless.cli.command import verb
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.runs.option_forms import FILES, METRIC_NAMES, ONE_LIST, argument, option, values
from goldless.runs.options import STATISTICS, Options

if TYPE_CHECKING:
    from goldless.comparison.comparing import PairedComparison

RUNS: Any = argument("RUN [RUN_B]", "A run folder, or two: before and after the change.", form=FILES)


@dataclass(frozen=True, kw_only=True)
class Comparing:
    """Options of ``compare``."""

    runs: Sequence[Path | str] = RUNS
    agents: Sequence[str] = option(
        (), "The two agents to compare, before and after; one name is meant in both runs.", "A,B", form=ONE_LIST
    )
    metrics: Sequence[str] = option(
        (), "Comma-separated metrics of the runs (default: all that both have).", "--metric -m NAMES", form=METRIC_NAMES
    )


@verb(
    STATISTICS,
    first=("agents", "metrics"),
    questions={"--rankings": "Compare the ranking of the agents under different scorers."},
)
def compare(own: Comparing, options: Options) -> PairedComparison:
    """Compare two agents on common tasks: the difference, its interval, which tasks pull which way, what would decide.

    Scores must be of the same metric and model; differences are second minus first. Calls no model.

    Examples:
      goldless compare runs/pr --agents v1,v2
      goldless compare runs/main runs/pr --agents support-bot
    """
    from goldless.comparison.comparing import compare_runs

    return compare_runs(own.runs, **values(own, "runs"), **options.some("seed", "resamples", "level"))


@compare.told
def _tell(found: PairedComparison, output: Output) -> None:
    output.show(found)
    for warning in found.warnings:
        say(f"warning: {warning}", style="yellow")
