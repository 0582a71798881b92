"""Exams about pairs of the study's own responses: consistency, and agreement with people.

The consistency exam asks each pair in both orders (Auto-PRE, eq. 2; PRE's auto-exam): a reviewer without a bias for the
first or the second place says the same of both. The test asks both orders too, so its judgements answer the exam:
``items.open_questions`` says what is still to be asked.

The human exam holds pairs that people judged, which a reviewer must judge as they did (PRE). An item of the exam must
not also count in the test: a reviewer that was chosen because it agrees with people on some pairs agrees with them on
those. The papers leave them in; ``overlap`` does so too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from goldless.errors import UserError
from goldless.evidence import JudgementEvidence
from goldless.judging.asking import Texts
from goldless.judging.exams.items import (
    ExamAnswer,
    ExamPair,
    all_pairs,
    both_orders,
    drawn_pairs,
    exam_answers,
    refuse_pointwise,
    single_ratings,
)
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


@dataclass(frozen=True, slots=True)
class ExamSplit:
    """Which pairs are asked in the exam, and which remain for the test."""

    exam: tuple[ExamPair, ...]
    test: tuple[ExamPair, ...]
    overlap: bool
    """Whether the exam's pairs stand in the test as well."""


def human_split(
    answered: Mapping[str, Iterable[str]],
    *,
    questioners: Sequence[str] | None = None,
    share: float | None = None,
    seed: int = 0,
    overlap: bool = False,
    labelled: Collection[ExamPair] | None = None,
) -> ExamSplit:
    """The pairs of the exam, and those of the test.

    ``answered``: the agents that answered each task. ``questioners``: agents whose pairs are the exam's, on all tasks;
    None: any. ``share``: so much of these pairs, drawn by the seed, rounded and at least one; None: all. ``labelled``:
    only pairs that people decided can be items; None: all can. ``overlap``: the test keeps the exam's pairs, as in the
    papers. On a scale that rates single responses, a rating may serve pairs on both sides even so.
    """
    _check(questioners, share, overlap=overlap)
    everything = all_pairs(answered)
    possible = all_pairs(answered, questioners)
    if labelled is not None:
        held = frozenset(labelled)
        possible = [pair for pair in possible if pair in held]
    if not possible:
        raise UserError(
            "the human exam has no items: no task has two responses of the questioners that people compared; "
            "name other questioners, add labels, or use the exams that need none (consistency, pertinence)"
        )
    items = None if share is None else max(1, round(share * len(possible)))
    exam = drawn_pairs(possible, items, exam="human", seed=seed)
    kept_out = frozenset() if overlap else frozenset(exam)
    test = [pair for pair in everything if pair not in kept_out]
    if not test:
        raise UserError(
            f"all {len(exam)} pairs of the study are items of the human exam, so none remains for the test; "
            "name fewer questioners or a smaller share, or keep them in both with overlap"
        )
    return ExamSplit(tuple(exam), tuple(test), overlap)


def _check(questioners: Sequence[str] | None, share: float | None, *, overlap: bool) -> None:
    if questioners is not None and len(questioners) < 2:
        raise UserError(f"the human exam needs at least 2 questioners to pair, not {len(questioners)}")
    if share is not None and not 0 < share <= 1:
        raise UserError(f"the share of pairs in the human exam is above 0 and at most 1, not {share}")
    if questioners is None and share is None and not overlap:
        raise UserError(
            "the human exam would take every pair and leave none for the test; name its questioners, or a share "
            "of the pairs such as 0.2, or keep the items in both with overlap"
        )


async def sit_human(
    stage: Stage,
    pairs: Sequence[ExamPair],
    texts: Texts,
    prompts: Prompts,
    *,
    known: Iterable[JudgementEvidence] = (),
    at_once: int = 1,
) -> list[ExamAnswer]:
    """What the reviewer says of the exam's pairs: both orders, or a rating of each response on a scale of one."""
    questions = both_orders(pairs) if stage.scale.pairwise else single_ratings(pairs)
    return await exam_answers("human", stage, questions, texts, prompts, known=known, at_once=at_once)
