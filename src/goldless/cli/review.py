"""``goldless review``: reviewers earn their vote in an exam and judge; the chair counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldless.cli.command import RUN_FOLDER, verb
from goldless.cli.console import NOBODY_PASSED, NOTHING, end, incomplete, out, say
from goldless.cli.output import Output, tell_spending
from goldless.cli.score import print_stopped
from goldless.runs.options import REVIEWING, Options

if TYPE_CHECKING:
    from goldless.runs.review_outcome import Review
    from goldless.studies import Study


@verb(
    *REVIEWING,
    first=("reviewers", "scale", "exams", "recorded", "out_folder"),
    out=RUN_FOLDER,
    keeps_evidence=True,
)
async def review(study: Study, *, options: Options) -> Review:
    """Have chat models take an exam, let those who pass judge the responses, and rank the agents by weighted votes.

    Exit code 4: no reviewer passed.

    Examples:
      goldless review answers.csv --reviewers openai:gpt-4o,openai:gpt-4o-mini --exam auto
      goldless review study/ --recorded --scale pairwise
    """
    from goldless.runs.pipeline import review_study

    return await review_study(study, options)


@review.told
def tell_review(found: Review, output: Output, *, last: str = "") -> None:
    """Keep and print a review, and a last sentence; exit with 3 if it is incomplete, 4 if no reviewer passed, or 1."""
    from goldless.runs.store import save_review

    if output.folder is not None:
        save_review(found, output.folder)
    print_review(found, output)
    if last and output.shown_as == "rich":
        out().print(last)
    tell_spending(found.spending)
    for note in found.notes:
        say(note, style="yellow")
    output.tell_folder("results and evidence")
    if not found.complete:
        incomplete(f"{found.open} left")
    if found.nobody is not None:
        end(NOBODY_PASSED, found.nobody)
    if len(found.judgements) and found.judgements["value"].null_count() == len(found.judgements):
        end(NOTHING, "no verdict could be read")


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
