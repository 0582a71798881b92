"""``goldless gate``: whether a candidate may replace the baseline."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goldless.cli.command import OUTPUT, like, own, verb
from goldless.cli.compare import RunsArgument
from goldless.cli.console import BLOCKED, INCONCLUSIVE, say
from goldless.cli.output import Output, tell_spending
from goldless.cli.signals import run_async
from goldless.runs.options import CALLING, Options

if TYPE_CHECKING:
    from goldless.comparison.gating import Gate

CERTIFICATE = "A/A certificate"
CODES = {"SHIP": 0, "BLOCK": BLOCKED, "INCONCLUSIVE": INCONCLUSIVE}


@verb(
    *(
        "reviewers",
        "critic",
        "seed",
        "resamples",
        "level",
        "verdicts",
        "budget_usd",
        "price",
        "on",
        "journal",
        *CALLING,
    ),
    first=("baseline", "candidate", "metric", "margin", "alpha"),
    helps={
        "reviewers": "With --aa: the run's reviewers, NAME=MODEL, as in the review.",
        "critic": "With --aa: the run's critic.",
    },
)
def gate(
    runs: RunsArgument,
    *,
    baseline: Annotated[str | None, like("baseline", "Agent that the candidate is to replace.")] = None,
    candidate: Annotated[
        str | None, own("Agent that may replace it (default: the only other one).", flags="--candidate AGENT")
    ] = None,
    metric: Annotated[
        str | None, own("Metric that decides.", flags="--metric -m NAME", default="the run's only one")
    ] = None,
    margin: Annotated[
        str | None,
        own(
            "How much worse the candidate may be: in the metric's unit, or in standard deviations of the baseline's "
            "scores, such as 0.2sd.",
            flags="--margin NUMBER[sd]",
        ),
    ] = None,
    alpha: Annotated[
        float, own("Error rate to aim at: of a wrong SHIP, and of a wrong BLOCK.", flags="--alpha NUMBER")
    ] = 0.05,
    aa: Annotated[
        int | None, own("Ask the run's judge N verdicts a second time and keep the answers.", CERTIFICATE, "--aa N")
    ] = None,
    repeats: Annotated[
        list[Path] | None,
        own("Run folder with the same questions asked a second time; once per run.", CERTIFICATE, "--repeats RUN"),
    ] = None,
    uncertified: Annotated[
        bool, own("Decide although the judge was never asked twice.", CERTIFICATE, "--uncertified")
    ] = False,
    markdown: Annotated[Path | None, own("Write a summary for a pull request.", OUTPUT, "--markdown FILE")] = None,
    junit: Annotated[Path | None, own("Write the verdict as JUnit XML.", OUTPUT, "--junit FILE")] = None,
    options: Options,
    output: Output,
) -> None:
    """Decide whether a candidate may replace the baseline: SHIP, BLOCK or INCONCLUSIVE.

    SHIP: a loss of more than the margin is excluded. BLOCK: it is shown. Otherwise INCONCLUSIVE, with what it would
    take. A score by a judge decides only where the judge repeats itself: see --aa. Exit codes: 0 SHIP, 6 BLOCK,
    7 INCONCLUSIVE.

    Examples:
      goldless gate runs/pr --baseline v1 --candidate v2 --margin 0.2sd
      goldless gate runs/main runs/pr --margin 0.2sd --markdown gate.md --junit gate.xml
    """
    from goldless.comparison.gating import gate_runs
    from goldless.comparison.pull_request import as_junit, as_markdown
    from goldless.reports.document import write

    work = functools.partial(
        gate_runs,
        runs,
        options,
        baseline=baseline,
        candidate=candidate,
        metric=metric,
        margin=margin,
        alpha=alpha,
        aa=aa,
        repeats=repeats or (),
        uncertified=uncertified,
    )
    for path in (markdown, junit):
        _check_file(path)
    found: Gate = run_async(work)
    for path, made in ((markdown, as_markdown), (junit, as_junit)):
        if path is not None:
            path.write_text(made(found), encoding="utf-8")
    output.print_tables([found.table()], lambda: write(found), markdown=lambda: as_markdown(found))
    for warning in found.warnings:
        say(f"warning: {warning}", style="yellow")
    tell_spending(found.spending)
    raise typer.Exit(CODES[found.verdict])


def _check_file(path: Path | None) -> None:
    """Refuse a file that cannot be written before anything is asked."""
    from goldless.runs.store import try_writing

    if path is not None:
        try_writing(path.resolve().parent, "Choose another file")
