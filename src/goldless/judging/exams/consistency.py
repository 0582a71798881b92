"""The consistency exam: pairs of the study's responses, each asked in both orders (Auto-PRE, eq. 2; PRE's auto-exam).

A reviewer without a bias for the first or the second place says the same of both orders. The test asks both orders too,
so its judgements answer the exam: ``pairs.open_questions`` says what is still to be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from goldless.errors import UserError
from goldless.evidence import JudgementEvidence
from goldless.judging.asking import Texts
from goldless.judging.exams.answers import ExamAnswer, exam_answers, refuse_pointwise
from goldless.judging.exams.pairs import ExamPair, all_pairs, both_orders, drawn_pairs
from goldless.judging.reviewing import Prompts, Stage


def consistency_pairs(
    answered: Mapping[str, Iterable[str]], *, items: int | None = None, seed: int = 0
) -> list[ExamPair]:
    """The pairs asked in both orders, from the agents that answered each task: all, or ``items`` drawn by the seed."""
    pairs = all_pairs(answered)
    if not pairs:
        raise UserError(
            "the consistency exam needs two responses to one task, and no task of the study has two; add responses"
        )
    return drawn_pairs(pairs, items, exam="consistency", seed=seed)


async def sit_consistency(
    stage: Stage,
    pairs: Sequence[ExamPair],
    texts: Texts,
    prompts: Prompts,
    *,
    known: Iterable[JudgementEvidence] = (),
    at_once: int = 1,
) -> list[ExamAnswer]:
    """What the reviewer says of both orders of each pair. ``known``: judgements that need not be asked for again."""
    refuse_pointwise(stage.scale, "consistency")
    return await exam_answers("consistency", stage, both_orders(pairs), texts, prompts, known=known, at_once=at_once)
