"""``goldless demo``: the sample study, scored on this machine; ``--study``: a small study to try everything on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from goldless.cli.command import RUN_FOLDER, verb
from goldless.cli.console import out
from goldless.cli.output import Output
from goldless.cli.score import tell_evaluation, tell_review
from goldless.errors import UserError
from goldless.runs.option_forms import argument, option
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.runs.evaluation import Evaluation
    from goldless.runs.review_outcome import Review

READING = """\
An agent's score is how many nats, on average, its response and another agent's to the same task make each other \
more predictable, minus what they do on other tasks; 0 means that nothing in it belongs to the task. Intervals come \
from resampling tasks. "beats #" lists the ranks an agent is better than on the same tasks, corrected for many \
comparisons. The constant answer (null) and the answers to another task (off-task) should be last, although the \
metric does not know which they are.

Next:
  goldless demo --study             # writes answers.csv, a small study to try everything on
  goldless score answers.csv        # or your own file, one row per response: task, agent, text
  goldless score -h
"""
FAILS = "It should fail: a model of 135M parameters follows the position of an answer, not its content."
STUDY_FILE = "answers.csv"


@dataclass(frozen=True, kw_only=True)
class Demo:
    with_review: bool = option(False, "Have the embedded model take a reviewer's exam instead.", "--review")


@verb("journal", out=RUN_FOLDER, questions={"--study": "Write a small study to try everything on."})
async def demo(own: Demo, options: Options) -> Evaluation | Review:
    """Score a sample study with the default metrics on the embedded model: no account, key, GPU or model hub.

    Examples:
      goldless demo
      goldless demo --out runs/demo
    """
    from goldless.runs.pipeline import evaluate_study, review_study
    from goldless.studies import read_study, sample_study

    study = read_study(sample_study())
    if own.with_review:
        exam = "the automatic exam: consistency, pertinence and self-confidence"
        options.say(f"The embedded model takes {exam}. This takes minutes.")
        return await review_study(study, replace(options, reviewers=("embedded",), exams=("auto",)))
    # half of the tasks: the first look takes minutes, goldless score sample all of them
    study = study.subset(tasks=study.tasks[::2])
    options.say(
        f"Sample study: {len(study)} of its tasks (peer reviews of invented papers, open questions) answered by "
        f"{len(study.agents)} invented agents. Scorer: the embedded language model, on this machine's processor."
    )
    return await evaluate_study(study, replace(options, control_tasks=1))


@demo.told
def _tell(found: Evaluation | Review, output: Output) -> None:
    from goldless.runs.review_outcome import Review

    if isinstance(found, Review):
        tell_review(found, output, last=FAILS)
    else:
        tell_evaluation(found, output, last=READING)


@dataclass(frozen=True, kw_only=True)
class Beginning:
    folder: Path = argument("FOLDER", "Where to write the file.", Path())


@verb()
def quickstart(own: Beginning) -> None:
    """Write answers.csv, a small study of invented answers to ten support tickets, and say what to run next.

    Examples:
      goldless demo --study
      goldless demo --study trial
    """
    path = own.folder / STUDY_FILE
    content = files("goldless.cli").joinpath("quickstart_answers.csv").read_bytes()
    try:
        if path.exists() and path.read_bytes() != content:
            raise UserError(
                f"{path} exists and would be overwritten. Choose another folder: goldless demo --study FOLDER"
            )
        own.folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from error
    name = quote(str(path))
    out().print(f"Wrote {path}: 10 tasks, 4 agents, 40 responses, with prompts. Next:", markup=False, soft_wrap=True)
    for command, purpose in (
        (f"goldless study show {name}", "what is in it"),
        (f"goldless score {name}", "who is most informative, on this machine"),
        (f"goldless crashtest {name} --metric rouge-l,length", "which cheap metric can be trusted"),
    ):
        out().print(f"  {command}  # {purpose}", markup=False, soft_wrap=True)
