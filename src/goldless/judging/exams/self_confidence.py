"""The self-confidence exam: whether a reviewer is surer of easy pairs than of hard ones (Auto-PRE, eq. 4).

By probability, an answer carries log p of ``one`` and ``two``, normalised over the two; the uncertainty is -log p of
the likelier one, between 0 and ln 2. The paper takes p as the model gives it, so doubts about the format count as
doubts about the answers there. By label, the value of an answer is the confidence from 1 to 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from goldless.evidence import JudgementEvidence
from goldless.judging.asking import ChatJudge, ScoringJudge, Texts, Verdicts, find_reading
from goldless.judging.exams.answers import Difficulty, ExamAnswer, exam_answers
from goldless.judging.exams.confidence_scales import LabelSet, Statement, by_label, by_probability
from goldless.judging.exams.confidence_sets import ConfidenceSets
from goldless.judging.exams.pairs import both_orders
from goldless.judging.reviewing import ROLE, Prompts, ReviewQuestion, ReviewStage
from goldless.judging.scales import Scale
from goldless.records import CallFailure

UNTOLD = CallFailure("bad_reply", "the reply came without the probabilities of one and two")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceStage:
    """How a reviewer's confidence is found out. The model must be prepared; one that cannot do it is refused here."""

    model: ScoringJudge | ChatJudge
    reviewer: str | None = None
    """The name its answers carry; None: the model's own, in short."""
    task_description: str = ""
    """What is judged and what counts; empty: a neutral one."""
    reading: Verdicts = "auto"
    """``auto``: by probabilities where the model gives them, otherwise by labels, the same for all pairs."""
    statement: Statement = "prompt1"
    labels: LabelSet = "null"

    def __post_init__(self) -> None:
        """Raise where the model cannot be asked in this way."""
        find_reading(self.model, self.reading, role=ROLE)
        by_probability(self.statement)
        by_label(self.labels)

    async def sit(
        self,
        sets: ConfidenceSets,
        texts: Texts,
        prompts: Prompts,
        *,
        known: Iterable[JudgementEvidence] = (),
        at_once: int = 1,
    ) -> list[ExamAnswer]:
        """One answer for each order of each pair, the easy set first, all of them read in the same way.

        Where probabilities were expected and none came, ``auto`` asks for labels instead, for all pairs; otherwise the
        answer is missing with this cause. ``known``: answers that need not be asked for again.
        """
        asked: dict[ReviewQuestion, Difficulty] = dict.fromkeys(both_orders(sets.easy), "easy")
        asked |= dict.fromkeys(both_orders(sets.hard), "hard")
        sitting = _Sitting(list(asked), texts, prompts, list(known), at_once)
        answers = None
        if find_reading(self.model, self.reading, role=ROLE) != "labels":
            answers = await self._by_probability(sitting)
        if answers is None:
            answers = await sitting.answers(self._stage(by_label(self.labels), "labels"), sitting.questions)
        return [replace(answer, difficulty=asked[q]) for q, answer in zip(asked, answers, strict=True)]

    def _stage(self, scale: Scale, verdicts: Verdicts) -> ReviewStage:
        description = self.task_description
        return ReviewStage(self.model, scale, reviewer=self.reviewer, task_description=description, verdicts=verdicts)

    async def _by_probability(self, sitting: _Sitting) -> list[ExamAnswer] | None:
        """The answers; None where labels are to be asked for, as the backend tells no probabilities after all."""
        stage = self._stage(by_probability(self.statement), "probabilities")
        # the first reply shows whether a server tells probabilities: if not, no more is spent on asking for them
        probed = 0 if stage.reading == "probabilities-scored" else 1
        answers: list[ExamAnswer] = []
        for questions in (sitting.questions[:probed], sitting.questions[probed:]):
            answers += [_told(answer) for answer in await sitting.answers(stage, questions)]
            untold = any(answer.evidence.failure is UNTOLD for answer in answers)
            if self.reading == "auto" and untold and not any(a.evidence.label_logprobs for a in answers):
                return None
        return answers


@dataclass(frozen=True, slots=True)
class _Sitting:
    """What is asked, and what is known of it."""

    questions: Sequence[ReviewQuestion]
    texts: Texts
    prompts: Prompts
    known: Sequence[JudgementEvidence]
    at_once: int

    async def answers(self, stage: ReviewStage, questions: Sequence[ReviewQuestion]) -> list[ExamAnswer]:
        return await exam_answers(
            "self-confidence", stage, questions, self.texts, self.prompts, known=self.known, at_once=self.at_once
        )


def _told(answer: ExamAnswer) -> ExamAnswer:
    """The answer, missing where it is a choice whose probability was not told."""
    row = answer.evidence
    if row.failure is not None or row.label_logprobs:
        return answer
    return replace(answer, evidence=replace(row, value=None, read_from=None, failure=UNTOLD))
