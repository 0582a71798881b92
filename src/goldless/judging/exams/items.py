"""The items of exams: pairs of responses, a seeded draw of them, questions about them, and a reviewer's answers.

A pair has no order: its two agents are sorted by name, and a reviewer is asked about both orders. So neither the order
of rows in a file nor that of names in an option changes what is drawn. Answers have the columns of a study's exams
table.

The consistency exam shows each pair in both orders (Auto-PRE, eq. 2; PRE's auto-exam): a reviewer without a position
bias gives the same verdict on both.

The human exam contains pairs that people judged, which a reviewer must judge as they did (PRE). An item of the exam
must not also count in the test: a reviewer that was chosen because it agrees with people on some pairs agrees with them
on those. The papers leave them in; so does ``overlap``.
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
from goldless.models.interface import content_hash

Exam = Literal["consistency", "pertinence", "self-confidence", "human"]
Difficulty = Literal["easy", "hard"]
Orders = Literal["both", "one-random"]
"""In which orders a pair is shown: both, or one that is drawn."""


@dataclass(frozen=True, slots=True, order=True)
class ExamPair:
    """Two agents' responses to one task; ``pair_of`` sorts the agents."""

    task: str
    first: str
    second: str


def pair_of(task: str, one: str, other: str) -> ExamPair:
    """The pair of two agents on a task, whichever is named first."""
    if one == other:
        raise UserError(f"a pair must have two different agents, got {one!r} twice on task {task!r}")
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
    """Refuse an agent without responses, or one that is named twice."""
    known = {name: None for names in answered.values() for name in names}
    for name in agents or ():
        if name not in known:
            raise UserError(
                f"no response of an agent {name!r} in the study{nearest(name, known) or '.'} "
                f"Agents: {', '.join(sorted(known)) or 'none'}"
            )
    if agents is not None and len(set(agents)) < len(agents):
        twice = next(name for name in agents if agents.count(name) > 1)
        raise UserError(f"agents must be distinct, got {twice!r} twice")


def drawn_names(names: Sequence[str], items: int | None, *, exam: str, seed: int) -> set[str]:
    """Draw ``items`` of the names by the seed, whatever their order; None, or more than there are: all.

    Whether a name is drawn depends on the seed and the name itself, so a larger draw contains the smaller one.
    """
    if items is None:
        return set(names)
    if items < 1:
        raise UserError(f"the {exam} exam needs at least 1 item, got {items}. Leave out the number to use all")
    return set(sorted(set(names), key=lambda name: content_hash("exam", exam, seed, name))[:items])


def both_orders(pairs: Iterable[ExamPair]) -> list[ReviewQuestion]:
    """Two questions per pair: each response is shown first once."""
    return [
        ReviewQuestion(pair.task, *agents)
        for pair in pairs
        for agents in ((pair.first, pair.second), (pair.second, pair.first))
    ]


def one_order(pairs: Iterable[ExamPair], *, seed: int, reviewer: str) -> list[ReviewQuestion]:
    """One question per pair. Of any two agents, each is shown first on half of the tasks, to within one task.

    The order is drawn in blocks of two tasks (sorted by name) by the seed and the reviewer: reviewers see a pair in
    different orders, and tasks whose names come later change none of those before.
    """
    pairs = list(pairs)
    place: dict[ExamPair, int] = {}
    met: dict[tuple[str, str], int] = {}
    for pair in sorted(pairs):
        names = pair.first, pair.second
        place[pair] = met.get(names, 0)
        met[names] = place[pair] + 1
    found = []
    for pair in pairs:
        block, within = divmod(place[pair], 2)
        coin = int(content_hash("one order", seed, reviewer, pair.first, pair.second, block)[:8], 16) % 2
        shown = (pair.first, pair.second) if coin == within else (pair.second, pair.first)
        found.append(ReviewQuestion(pair.task, *shown))
    return found


def pair_questions(pairs: Iterable[ExamPair], orders: Orders, *, seed: int, reviewer: str) -> list[ReviewQuestion]:
    """The questions about these pairs."""
    return both_orders(pairs) if orders == "both" else one_order(pairs, seed=seed, reviewer=reviewer)


def single_ratings(pairs: Iterable[ExamPair]) -> list[ReviewQuestion]:
    """One question per response that is in a pair, for scales that rate one response at a time."""
    rated = {(pair.task, agent): None for pair in pairs for agent in (pair.first, pair.second)}
    return [ReviewQuestion(task, agent) for task, agent in rated]


# --- a reviewer's answers -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExamAnswer:
    """A reviewer's answer to one question of an exam."""

    exam: Exam
    evidence: JudgementEvidence
    difficulty: Difficulty | None = None
    """The item's set in the self-confidence exam."""

    def as_row(self) -> dict[str, Any]:
        """The row of a study's exams table; None where absent."""
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
    exam: Exam, stage: Stage, questions: Sequence[ReviewQuestion], texts: Texts, prompts: Prompts, *, at_once: int = 1
) -> list[ExamAnswer]:
    """One answer per question, in their order."""
    asked = await stage.review(questions, texts, prompts, at_once=at_once)
    return [ExamAnswer(exam, row) for row in asked]


def consistency_pairs(
    answered: Mapping[str, Iterable[str]], *, items: int | None = None, seed: int = 0
) -> list[ExamPair]:
    """The pairs to show in both orders, from the agents that answered each task: all, or ``items`` drawn by seed."""
    pairs = all_pairs(answered)
    if not pairs:
        raise UserError(
            "the consistency exam needs two responses to one task, and no task of the study has two. Add responses"
        )
    by_name = {content_hash(pair.task, pair.first, pair.second): pair for pair in pairs}
    names = drawn_names(list(by_name), items, exam="consistency", seed=seed)
    return [pair for name, pair in by_name.items() if name in names]


def human_pairs(answered: Mapping[str, Iterable[str]], questioners: Sequence[str]) -> list[ExamPair]:
    """The pairs of the human exam: those of the questioners on all tasks, from the agents that answered each.

    On a scale that rates single responses, a rating can be used for pairs of both exam and test.
    """
    if len(questioners) < 2:
        raise UserError(f"the human exam needs at least 2 questioners, got {len(questioners)}")
    exam = all_pairs(answered, questioners)
    if not exam:
        raise UserError(
            "the human exam has no items: no task has two responses of the questioners that people compared. "
            "Name other questioners, add labels, or use exams that need none (consistency, pertinence)"
        )
    return exam
