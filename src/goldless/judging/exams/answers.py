"""Answers: an exam's questions put to a reviewer, and what came back in the form of a study's exams table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from goldless.errors import UserError
from goldless.evidence import JudgementEvidence
from goldless.judging.asking import Texts
from goldless.judging.exams.pairs import is_answered, open_questions
from goldless.judging.reviewing import Prompts, ReviewQuestion, Stage
from goldless.judging.scales import Scale

Exam = Literal["consistency", "pertinence", "self-confidence", "human"]
Difficulty = Literal["easy", "hard"]


@dataclass(frozen=True, slots=True)
class ExamAnswer:
    """What a reviewer said to one question of an exam."""

    exam: Exam
    evidence: JudgementEvidence
    difficulty: Difficulty | None = None
    """Which set the item is of, in the self-confidence exam."""

    def as_row(self) -> dict[str, Any]:
        """The row of a study's exams table; what is absent is None."""
        row = self.evidence
        return {
            "reviewer": row.reviewer,
            "exam": self.exam,
            "difficulty": self.difficulty,
            "format": row.scale,
            "task": row.task,
            "first": row.first,
            "second": row.second,
            "output": row.output,
            "value": row.value,
            "read_from": row.read_from,
            "label_logprobs": None if row.label_logprobs is None else dict(row.label_logprobs),
            "failure": None if row.failure is None else row.failure.kind,
            "failure_message": None if row.failure is None else row.failure.message,
        }


async def exam_answers(
    exam: Exam,
    stage: Stage,
    questions: Sequence[ReviewQuestion],
    texts: Texts,
    prompts: Prompts,
    *,
    known: Iterable[JudgementEvidence] = (),
    at_once: int = 1,
) -> list[ExamAnswer]:
    """One answer a question, in their order: what is known already as it is, and the rest asked now."""
    known = [row for row in known if is_answered(row)]
    reviewer, scale = reviewer_of(stage), stage.scale.name
    rest = open_questions(questions, known, reviewer=reviewer, scale=scale)
    by_question = {(r.task, r.first, r.second): r for r in known if r.reviewer == reviewer and r.scale == scale}
    asked = await stage.review(rest, texts, prompts, at_once=at_once)
    by_question |= {(row.task, row.first, row.second): row for row in asked}
    return [ExamAnswer(exam, by_question[q.task, q.first, q.second]) for q in questions]


def reviewer_of(stage: Stage) -> str:
    """The name that the stage's judgements carry."""
    return stage.name


def refuse_pointwise(scale: Scale, exam: Exam) -> None:
    """Raise where an exam about two responses is to be sat on a scale that rates one."""
    if not scale.pairwise:
        raise UserError(
            f"the {exam} exam compares two responses, and the scale {scale.name} rates one at a time; sit it on a "
            "pairwise scale: what it finds of a reviewer counts on every scale"
        )
