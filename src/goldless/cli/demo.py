"""``goldless demo``: the sample study, scored on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goldless.cli.console import out, say
from goldless.cli.metric_options import Format, FormatOption, JournalOption, JsonOption, OutOption, run_on_study
from goldless.cli.review import print_review, tell_review
from goldless.cli.score import print_leaderboards, tell_rest
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.review_options import ReviewOptions
from goldless.runs.review_store import save_review
from goldless.runs.reviewing import review_study
from goldless.runs.store import save_run
from goldless.studies import Study, read_study, sample_study

READING = """\
An agent's score is how many nats, on average, its response makes another agent's response to the same task \
more predictable. Intervals come from resampling tasks. "beats #" lists the ranks an agent is better than on the \
same tasks, corrected for many comparisons. The always-same answer (null) and the answers to another task (off-task) \
should stand at the bottom: nobody told the metric which they are.

Next:
  goldless demo --review            # the embedded model sits a reviewer's exam
  goldless score YOUR_FILE.jsonl    # one row a response: task, agent, text
  goldless score --help
"""


def demo(
    *,
    with_review: Annotated[
        bool, typer.Option("--review", help="Let the embedded model sit a reviewer's exam on the sample study instead.")
    ] = False,
    out_folder: OutOption = None,
    journal: JournalOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Score the sample study with GEM-raw on the embedded model: no account, key, GPU or model hub."""
    study = read_study(sample_study())
    shown_as: Format = "json" if json_only else table
    if with_review:
        _review(study, out_folder, journal, shown_as)
        return
    say(
        f"Sample study: {len(study)} tasks (peer reviews of invented papers, open questions) answered by "
        f"{len(study.agents)} invented agents. Scorer: the embedded language model, on this machine's processor."
    )
    evaluation = run_on_study(evaluate_study, study, Options(say=say, journal=journal), out_folder=out_folder)
    if out_folder is not None:
        save_run(evaluation, out_folder)
    print_leaderboards(evaluation, shown_as)
    if shown_as == "rich":
        out.print(READING, markup=False)
    tell_rest(evaluation, out_folder)


def _review(study: Study, out_folder: Path | None, journal: Path | None, shown_as: Format) -> None:
    """The exam of the embedded model, which is too small to be a reviewer."""
    say("The embedded model sits the automatic exam: consistency, pertinence and self-confidence.")
    options = ReviewOptions(reviewers=("embedded",), exams=("auto",), journal=journal, say=say)
    review = run_on_study(review_study, study, options, out_folder=out_folder)
    if out_folder is not None:
        save_review(review, out_folder)
    print_review(review, shown_as, options.level)
    if shown_as == "rich":
        out.print("That it may not vote is the right result: a 135M model follows the position, not the content.")
    tell_review(review, out_folder)
