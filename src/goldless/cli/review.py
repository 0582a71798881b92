"""``goldless review``: reviewers earn their vote in an exam and judge; the chair counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldless.cli.command import RUN_FOLDER, StudyArgument, verb
from goldless.cli.console import NOBODY_PASSED, NOTHING, end, incomplete, say
from goldless.cli.output import Output, tell_spending
from goldless.cli.score import print_stopped
from goldless.runs.options import REVIEWING, Options

if TYPE_CHECKING:
    from goldless.runs.review_results import Review


@verb(*REVIEWING, first=("reviewers", "scale", "exams", "recorded", "out_folder"), out=RUN_FOLDER)
def review(study: StudyArgument, *, options: Options, output: Output) -> None:
    """Have chat models take an exam, let those who pass judge the responses, and rank the agents by weighted votes.

    Exit code 4: no reviewer passed.

    Examples:
      goldless review answers.csv --reviewers openai:gpt-4o,openai:gpt-4o-mini --exam auto
      goldless review study/ --recorded --scale pairwise
    """
    from goldless.runs.pipeline import review_study
    from goldless.runs.store import save_review

    found = output.run(review_study, study, options, replaces_evidence=True, ranks=True)
    if output.folder is not None:
        save_review(found, output.folder)
    print_review(found, output)
    tell_review(found, output)


def print_review(review: Review, output: Output) -> None:
    """Print warnings on standard error, then the verdict, the rankings and the exam report on standard output."""
    if not review.complete:
        say(f"INCOMPLETE: {review.open} calls are left", style="yellow")
    if review.failures:
        causes = ", ".join(f"{count} {kind}" for kind, count in sorted(review.failures.items()))
        say(f"missing: {sum(review.failures.values())} ({causes})", style="yellow")
    output.show(review)
    if review.stopped is not None and output.shown_as == "rich":
        print_stopped(review.stopped)


def tell_review(review: Review, output: Output) -> None:
    """Report the rest on standard error; exit with 3 if incomplete, 4 if no reviewer passed, 1 without a verdict."""
    tell_spending(review.spending)
    for note in review.notes:
        say(note, style="yellow")
    output.tell_folder("results and evidence")
    if not review.complete:
        incomplete(f"{review.open} left")
    if review.nobody is not None:
        end(NOBODY_PASSED, review.nobody)
    if len(review.judgements) and review.judgements["value"].null_count() == len(review.judgements):
        end(NOTHING, "no verdict could be read")
