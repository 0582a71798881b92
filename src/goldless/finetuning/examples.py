"""What a scorer is trained on: for every question it will be asked, the very token ids it will be asked with.

Of three responses r1, r2, r3 of a task these are gen(x, y) for the six ordered pairs and gen(Null, y) for each, once
without synopsis (GEM) and once with it (GEM-S): 9 + 9 (GEM, appendix E.1). They are made by the code that scores.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from goldless.errors import CapabilityError
from goldless.finetuning.material import TaskTexts
from goldless.models.interface import Scorer, content_hash
from goldless.records import CallFailure
from goldless.scoring import Question, ScoringStage, questions
from goldless.templates import Template

IGNORED = -100
"""The label of a position that is not predicted, for transformers."""


@dataclass(frozen=True, slots=True)
class Example:
    """One text to be predicted, as token ids."""

    task: str
    question: Question
    synopsis: str | None
    """Name of the synopsis that is shown."""
    ids: array[int]
    """Context and target, joined."""
    target_tokens: int
    """How many of them, at the end, are the target: the positions that are scored, and those that count here."""

    @property
    def labels(self) -> list[int]:
        """The ids of the target, and nothing before it."""
        context = len(self.ids) - self.target_tokens
        return [IGNORED] * context + list(self.ids[context:])


@dataclass(frozen=True, slots=True)
class ExampleSet:
    """Examples, and what could not be one."""

    examples: tuple[Example, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many questions gave no example, by why."""

    @property
    def tokens(self) -> int:
        """Tokens that are predicted."""
        return sum(example.target_tokens for example in self.examples)

    @property
    def digest(self) -> str:
        """Tells two sets of examples apart."""
        return content_hash([content_hash(e.ids.tolist(), e.target_tokens) for e in self.examples])


def scoring_stages(
    scorer: Scorer, template: Template, *, rewriter: str | None, synopsis: str | None
) -> list[ScoringStage]:
    """The ways a scorer is asked: GEM's, and GEM-S's where there is a synopsis."""
    ways = [None] if synopsis is None else [None, synopsis]
    return [ScoringStage(scorer, template, rewriter, name) for name in ways]


def task_questions(task: TaskTexts) -> list[Question]:
    """Every marginal and ordered pair of a task's texts."""
    return list(questions(list(task.texts)))


async def build_examples(
    tasks: Sequence[TaskTexts],
    stages: Sequence[ScoringStage],
    *,
    max_length: int,
    done: Callable[[int], None] = lambda _: None,
) -> ExampleSet:
    """The examples of all tasks; ``done`` hears how many tasks are."""
    examples: list[Example] = []
    left_out: Counter[str] = Counter()
    for count, each in enumerate(tasks, 1):
        for stage in stages:
            for question in task_questions(each):
                made = await _example(each, stage, question, max_length)
                if isinstance(made, Example):
                    examples.append(made)
                else:
                    left_out[made] += 1
        done(count)
    return ExampleSet(tuple(examples), dict(sorted(left_out.items())))


async def _example(each: TaskTexts, stage: ScoringStage, question: Question, max_length: int) -> Example | str:
    """One example, or why there is none."""
    request = await stage.request(each.task, question, each.texts)
    if isinstance(request, CallFailure):
        return request.kind
    if isinstance(request.context, str) or isinstance(request.target, str):
        raise CapabilityError("this model is asked in words; only one whose token ids are known can be trained")
    if not request.context or not request.target:
        return "rejected"
    if request.tokens > max_length:
        return "too_long"
    return Example(
        task=each.task.task,
        question=question,
        synopsis=stage.synopsis,
        ids=array("i", (*request.context, *request.target)),
        target_tokens=len(request.target),
    )
