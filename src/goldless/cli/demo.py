"""``goldless demo``: the sample study, scored on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from goldless.cli.command import RUN_FOLDER, own, verb
from goldless.cli.console import out, say
from goldless.cli.output import Output
from goldless.cli.review import print_review, tell_review
from goldless.cli.score import end_evaluation, print_leaderboards, tell_evaluation
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.studies import Study

READING = """\
An agent's score is how many nats, on average, its response and another agent's to the same task make each other \
more predictable, minus what they do on other tasks; 0 means that nothing in it belongs to the task. Intervals come \
from resampling tasks. "beats #" lists the ranks an agent is better than on the same tasks, corrected for many \
comparisons. The constant answer (null) and the answers to another task (off-task) should be last, although the \
metric does not know which they are.

Next:
  goldless quickstart               # writes answers.csv, a small study to try everything on
  goldless score answers.csv        # or your own file, one row per response: task, agent, text
  goldless score -h
"""


@verb("journal", out=RUN_FOLDER)
def demo(
    *,
    with_review: Annotated[
        bool, own("Have the embedded model take a reviewer's exam instead.", flags="--review")
    ] = False,
    options: Options,
    output: Output,
) -> None:
    """Score a sample study with the default metrics on the embedded model: no account, key, GPU or model hub.

    Examples:
      goldless demo
      goldless demo --out runs/demo
    """
    from goldless.runs.pipeline import evaluate_study
    from goldless.runs.store import save_run
    from goldless.studies import read_study, sample_study

    study = read_study(sample_study())
    if with_review:
        _review(study, options, output)
        return
    # half of the tasks: the first look takes minutes, goldless score sample all of them
    study = study.subset(tasks=study.tasks[::2])
    say(
        f"Sample study: {len(study)} of its tasks (peer reviews of invented papers, open questions) answered by "
        f"{len(study.agents)} invented agents. Scorer: the embedded language model, on this machine's processor."
    )
    evaluation = output.run(evaluate_study, study, replace(options, control_tasks=1))
    if output.folder is not None:
        save_run(evaluation, output.folder)
    print_leaderboards(evaluation, output)
    if output.shown_as == "rich":
        out().print(READING, markup=False)
    tell_evaluation(evaluation, output)
    end_evaluation(evaluation)


def _review(study: Study, options: Options, output: Output) -> None:
    """The exam of the embedded model, which is too small to pass it."""
    from goldless.runs.pipeline import review_study
    from goldless.runs.store import save_review

    say("The embedded model takes the automatic exam: consistency, pertinence and self-confidence. This takes minutes.")
    asked = replace(options, reviewers=("embedded",), exams=("auto",))
    review = output.run(review_study, study, asked)
    if output.folder is not None:
        save_review(review, output.folder)
    print_review(review, output)
    if output.shown_as == "rich":
        out().print("It should fail: a model of 135M parameters follows the position of an answer, not its content.")
    tell_review(review, output)
