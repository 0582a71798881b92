"""``goldless gate``: whether a candidate may replace the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from goldless.cli.command import same, verb
from goldless.cli.compare import RUNS
from goldless.cli.console import BLOCKED, INCONCLUSIVE
from goldless.cli.output import OUTPUT, Output
from goldless.runs.option_forms import REQUIRED, TEXT, Form, option, values
from goldless.runs.options import CALLING, Options

if TYPE_CHECKING:
    from goldless.comparison.gating import Gate

CERTIFICATE = "A/A certificate"
CODES = {"SHIP": 0, "BLOCK": BLOCKED, "INCONCLUSIVE": INCONCLUSIVE}


def _writable(path: Path) -> Path:
    """A file to write, refused before anything is paid for it."""
    from goldless.runs.store import try_writing

    try_writing(path.resolve().parent, "Choose another file")
    return path


NEW_FILE = Form(Path, parse=_writable)


@dataclass(frozen=True, kw_only=True)
class Gating:
    """Options of ``gate``."""

    runs: Sequence[Path | str] = RUNS
    margin: str | float = option(
        REQUIRED,
        "How much worse the candidate may be: in the metric's unit, or in standard deviations of the baseline's "
        "scores, such as 0.2sd.",
        "NUMBER[sd]",
        form=TEXT,
        may_lack=True,
    )
    baseline: str | None = same("baseline", None, "Agent that the candidate is to replace.")
    candidate: str | None = option(
        None, "Agent that may replace it (default: the only other one).", "AGENT", group=None
    )
    metric: str | None = option(None, "Metric that decides.", "--metric -m NAME", shown="the run's only one")
    alpha: float = option(0.05, "Error rate to aim at: of a wrong SHIP, and of a wrong BLOCK.")
    aa: int | None = option(
        None, "Ask the run's judge N verdicts a second time and keep the answers.", group=CERTIFICATE
    )
    repeats: Sequence[Path | str] = option(
        (),
        "Run folder with the same questions asked a second time; once per run.",
        "--second-run RUN",
        keyword="second_runs",
        old="--repeats",
    )
    uncertified: bool = option(False, "Decide although the judge was never asked twice.")
    markdown: Path | None = option(
        None, "Write a summary for a pull request.", "FILE", group=OUTPUT, form=NEW_FILE, command_only=True
    )
    junit: Path | None = option(None, "Write the verdict as JUnit XML.", "FILE", form=NEW_FILE, command_only=True)


@verb(
    *("reviewers", "critic", "seed", "resamples", "level", "verdicts", "budget_usd", "price", "on", "journal"),
    *CALLING,
    first=("baseline", "candidate", "metric", "margin", "alpha"),
    helps={
        "reviewers": "With --aa: the run's reviewers, NAME=MODEL, as in the review.",
        "critic": "With --aa: the run's critic.",
    },
)
async def gate(own: Gating, options: Options) -> Gate:
    """Decide whether a candidate may replace the baseline: SHIP, BLOCK or INCONCLUSIVE.

    SHIP: a loss of more than the margin is excluded. BLOCK: it is shown. Otherwise INCONCLUSIVE, with what it would
    take. A score by a judge decides only where the judge repeats itself: see --aa. Exit codes: 0 SHIP, 6 BLOCK,
    7 INCONCLUSIVE.

    Examples:
      goldless gate runs/pr --baseline v1 --candidate v2 --margin 0.2sd
      goldless gate runs/main runs/pr --margin 0.2sd --markdown gate.md --junit gate.xml
    """
    from goldless.comparison.gating import gate_runs

    return await gate_runs(own.runs, options, **values(own, "runs"))


@gate.told
def _tell(found: Gate, output: Output, *, own: Gating) -> None:
    from goldless.comparison.gating import as_junit, as_markdown

    for path, write in ((own.markdown, as_markdown), (own.junit, as_junit)):
        if path is not None:
            path.write_text(write(found), encoding="utf-8")
    output.tell(found, markdown=lambda: as_markdown(found))
    raise typer.Exit(CODES[found.verdict])
