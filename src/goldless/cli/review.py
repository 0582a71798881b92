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
    first=("reviewers", "scale", "exams", "recorded", "folder"),
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
    if not found.complete:
        say(f"INCOMPLETE: {found.open} calls are left", style="yellow")
    if found.failures:
        causes = ", ".join(f"{count} {kind}" for kind, count in sorted(found.failures.items()))
        say(f"missing: {sum(found.failures.values())} ({causes})", style="yellow")
    output.show(found)
    if output.shown_as == "rich" and found.stopped is not None:
        print_stopped(found.stopped)
    if output.shown_as == "rich" and last:
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
