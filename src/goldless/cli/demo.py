"""``goldless demo``: the sample study, scored on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import anyio
import typer

from goldless.cli.console import ProgressBars, out, say
from goldless.cli.score import print_leaderboards, tell_rest
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.store import check_writable, save_run
from goldless.studies import read_study, sample_study

READING = """\
An agent's score is how many nats, on average, its response makes another agent's response to the same task \
more predictable. Intervals come from resampling tasks. "beats #" lists the ranks an agent is better than on the \
same tasks, corrected for many comparisons. The always-same answer (null) and the answers to another task (off-task) \
should stand at the bottom: nobody told the metric which they are.

Next:
  goldless score YOUR_FILE.jsonl    # one row a response: task, agent, text
  goldless score --help
"""


def demo(
    *,
    out_folder: Annotated[
        Path | None, typer.Option("--out", metavar="RUN_DIR", help="Write results and evidence into this folder.")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Journal file; by default one for all your runs.", show_default=False)
    ] = None,
) -> None:
    """Score the sample study with GEM-raw on the embedded model: no account, key, GPU or model hub."""
    study = read_study(sample_study())
    say(
        f"Sample study: {len(study)} tasks (peer reviews of invented papers, open questions) answered by "
        f"{len(study.agents)} invented agents. Scorer: the embedded language model, on this machine's processor."
    )
    if out_folder is not None:
        check_writable(out_folder)
    with ProgressBars() as bars:
        options = Options(progress=bars, say=say, journal=journal)
        evaluation = anyio.run(evaluate_study, study, options)
    if out_folder is not None:
        save_run(evaluation, out_folder)
    print_leaderboards(evaluation, "rich")
    out.print(READING, markup=False)
    tell_rest(evaluation, out_folder)
