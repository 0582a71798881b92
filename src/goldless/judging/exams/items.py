"""What exams are made of: pairs of responses, a seeded draw of them, questions about them, and a reviewer's answers.

A pair has no order: its two agents stand sorted by name, and a reviewer is asked about both orders. So neither the
order of rows in a file nor that of names in an option changes what is drawn. Answers have the form of a study's exams
table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from goldless.errors import UserError, nearest
from goldless.evidence import JudgementEvidence
from goldless.judging.asking import Texts
from goldless.judging.reviewing import Prompts, ReviewQuestion, Stage
from goldless.judging.scales import Scale
from goldless.models.interface import content_hash

Exam = Literal["consistency", "pertinence", "self-confidence", "human"]
Difficulty = Literal["easy", "hard"]
ANSWERED = frozenset({"refused", "truncated", "unparsable"})
"""Failures by which the model itself answered: asked again, it would say the same and cost the same."""


@dataclass(frozen=True, slots=True, order=True)
class ExamPair:
    """Two agents' responses to one task; ``pair_of`` sorts the agents."""

    task: str
    first: str
    second: str


def pair_of(task: str, one: str, other: str) -> ExamPair:
    """The pair of two agents on a task, whichever is named first."""
    if one == other:
        raise UserError(f"a pair is of two agents; {one!r} came twice, on task {task!r}")
    return ExamPair(task, *sorted((one, other)))


def all_pairs(answered: Mapping[str, Iterable[str]], agents: Sequence[str] | None = None) -> list[ExamPair]:
    """Every pair on every task, from the agents that answered each; ``agents``: only pairs of these, None: of all."""
    check_agents(answered, agents)
    chosen = None if agents is None else set(agents)
    return [
        ExamPair(task, first, second)
        for task, names in answered.items()
        for first, second in itertools.combinations(
            sorted({name for name in names if chosen is None or name in chosen}), 2
        )
    ]


def check_agents(answered: Mapping[str, Iterable[str]], agents: Sequence[str] | None) -> None:
    """Raise for a named agent that answered nothing, or one that is named twice."""
    known = {name: None for names in answered.values() for name in names}
    for name in agents or ():
        if name not in known:
            raise UserError(
                f"no response of an agent {name!r} in the study{nearest(name, known) or '.'} "
                f"Agents: {', '.join(sorted(known)) or 'none'}."
            )
    if agents is not None and len(set(agents)) < len(agents):
        twice = next(name for name in agents if agents.count(name) > 1)
        raise UserError(f"the agent {twice!r} is named twice; name each once")


def drawn_pairs(pairs: Sequence[ExamPair], items: int | None, *, exam: str, seed: int) -> list[ExamPair]:
    """So many of the pairs, drawn by the seed, in their order; None, or more than there are: all.

    Whether a pair is drawn depends on the seed and its own names, so a larger draw holds the smaller one.
    """
    if items is None:
        return list(pairs)
    by_name = {content_hash(pair.task, pair.first, pair.second): pair for pair in pairs}
    names = drawn_names(list(by_name), items, exam=exam, seed=seed)
    return [pair for name, pair in by_name.items() if name in names]


def drawn_names(names: Sequence[str], items: int | None, *, exam: str, seed: int) -> set[str]:
    """So many of the names, drawn by the seed, whatever order they come in; None, or more than there are: all."""
    if items is None:
        return set(names)
    if items < 1:
        raise UserError(f"the {exam} exam needs at least 1 item, not {items}; leave the number out to take all")
    return set(sorted(set(names), key=lambda name: content_hash("exam", exam, seed, name))[:items])


def both_orders(pairs: Iterable[ExamPair]) -> list[ReviewQuestion]:
    """Two questions a pair: each response is shown first once."""
    return [
        ReviewQuestion(pair.task, *agents)
        for pair in pairs
        for agents in ((pair.first, pair.second), (pair.second, pair.first))
    ]


def single_ratings(pairs: Iterable[ExamPair]) -> list[ReviewQuestion]:
    """One question for each response that stands in a pair, for scales that rate one response at a time."""
    rated = {(pair.task, agent): None for pair in pairs for agent in (pair.first, pair.second)}
    return [ReviewQuestion(task, agent) for task, agent in rated]


def open_questions(
    questions: Iterable[ReviewQuestion], known: Iterable[JudgementEvidence], *, reviewer: str, scale: str
) -> list[ReviewQuestion]:
    """The questions that no known judgement of this reviewer on this scale answers, in their order.

    A reply that held no verdict is an answer. A call that failed is none: it is asked again.
    """
    answered = {
        (row.task, row.first, row.second)
        for row in known
        if row.reviewer == reviewer and row.scale == scale and is_answered(row)
    }
    return [question for question in questions if (question.task, question.first, question.second) not in answered]


def is_answered(row: JudgementEvidence) -> bool:
    """Whether the reviewer said something, be it of use or not."""
    if row.value is not None or row.output is not None:
        return True
    return row.failure is not None and row.failure.kind in ANSWERED


# --- a reviewer's answers -------------------------------------------------------------------------------------------


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
            "label_logprobs": None
            if row.label_logprobs is None
            else [{"label": label, "logprob_nats": nats} for label, nats in row.label_logprobs.items()],
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
    reviewer, scale = stage.name, stage.scale.name
    rest = open_questions(questions, known, reviewer=reviewer, scale=scale)
    by_question = {(r.task, r.first, r.second): r for r in known if r.reviewer == reviewer and r.scale == scale}
    asked = await stage.review(rest, texts, prompts, at_once=at_once)
    by_question |= {(row.task, row.first, row.second): row for row in asked}
    return [ExamAnswer(exam, by_question[q.task, q.first, q.second]) for q in questions]


def refuse_pointwise(scale: Scale, exam: Exam) -> None:
    """Raise where an exam about two responses is to be sat on a scale that rates one."""
    if not scale.pairwise:
        raise UserError(
            f"the {exam} exam compares two responses, and the scale {scale.name} rates one at a time; sit it on a "
            "pairwise scale: what it finds of a reviewer counts on every scale"
        )
