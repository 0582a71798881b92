"""The self-confidence exam: whether a reviewer is surer of easy pairs than of hard ones (Auto-PRE, eq. 4).

By probability, an answer carries log p of ``one`` and ``two``, normalised over the two; the uncertainty is -log p of
the likelier one, between 0 and ln 2. The paper uses the model's raw p, so doubts about the format count as doubts about
the answers there. By label, the value of an answer is the confidence from 1 to 5.

There are two formats (appendix 3). By probability: the reviewer outputs ``one`` or ``two``, and its uncertainty is how
unlikely its choice was; the instruction is at the beginning (the paper's ``prompt1``). By label: the reviewer names its
confidence in one word of five. The labels and the instruction are the paper's; it prints no more, so the rest is ours.

Two responses are easy to compare if their authors are far apart: a strong and a weak agent are the easy set, two strong
ones the hard set. Both sets are on the same tasks, so that only the agents make one harder than the other.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from goldless.errors import UserError
from goldless.judging.asking import Texts, Verdicts, find_reading
from goldless.judging.exams.items import (
    Difficulty,
    ExamAnswer,
    ExamPair,
    both_orders,
    check_agents,
    drawn_names,
    exam_answers,
    pair_of,
)
from goldless.judging.replies import OnlyLabelReader
from goldless.judging.reviewing import ROLE, Prompts, ReviewQuestion, ReviewStage
from goldless.judging.scales import PAIRWISE, Scale
from goldless.models.interface import Model
from goldless.records import CallFailure

NO_PROBABILITIES = CallFailure("bad_reply", "the reply has no probabilities of one and two")

LABELS = {"null": 1.0, "low": 2.0, "medium": 3.0, "high": 4.0, "expert": 5.0}
"""The words for a reviewer's confidence."""

Sit = Callable[[ReviewStage, Sequence[ReviewQuestion]], Awaitable[list[ExamAnswer]]]
"""Asks a stage questions."""

STATEMENT = "You only need to output one or two to indicate which answer is better."
SOURCE = "Auto-PRE paper, appendix 3; the rest of the prompt is ours"
HOW_SURE = (
    "Decide which of the two answers is better, but do not say which. Say how confident you are in your decision. "
    "Output one of these words, which go from the least to the most confident, and nothing else: {labels}."
)


# --- easy and hard pairs --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfidenceSets:
    """The two sets."""

    easy: tuple[ExamPair, ...]
    hard: tuple[ExamPair, ...]


def chosen_sets(
    answered: Mapping[str, Iterable[str]],
    *,
    easy: tuple[str, str],
    hard: tuple[str, str],
    items: int | None = None,
    seed: int = 0,
) -> ConfidenceSets:
    """The sets of two given pairs of agents: ``easy`` a strong and a weak one, ``hard`` two strong ones.

    On all tasks that all of them answered, or on ``items`` of these, drawn by the seed.
    """
    for name, pair in (("easy", easy), ("hard", hard)):
        if len(pair) != 2 or pair[0] == pair[1]:
            raise UserError(f"the {name} set must be two different agents, got {', '.join(map(repr, pair)) or 'none'}")
    if set(easy) == set(hard):
        raise UserError(
            f"the easy and the hard set must differ, got {easy[0]!r} and {easy[1]!r} for both. Choose a strong and a "
            "weak agent for the easy set, two strong ones for the hard set"
        )
    wanted = {*easy, *hard}
    check_agents(answered, sorted(wanted))
    common = [task for task, names in answered.items() if wanted <= set(names)]
    if not common:
        raise UserError(
            f"no task has responses of all of {', '.join(sorted(wanted))}, and both sets must be on the same tasks. "
            "Choose other agents"
        )
    drawn = drawn_names(common, items, exam="self-confidence", seed=seed)
    tasks = [task for task in common if task in drawn]
    return ConfidenceSets(
        easy=tuple(pair_of(task, *easy) for task in tasks),
        hard=tuple(pair_of(task, *hard) for task in tasks),
    )


def ranked_sets(
    answered: Mapping[str, Iterable[str]], scores: Mapping[str, float], *, items: int | None = None, seed: int = 0
) -> ConfidenceSets:
    """The sets from a cheap first ranking of agents: the best and the worst, and the best and the second.

    ``scores``: one per agent, higher is better. Agents with the same score are sorted by name.
    """
    if len(scores) < 3:
        raise UserError(f"scores must be of at least 3 agents, for a best, a second and a worst, got {len(scores)}")
    broken = [agent for agent, score in scores.items() if not math.isfinite(score)]
    if broken:
        raise UserError(f"the score of {', '.join(sorted(broken))} is not a number. Leave out agents without a score")
    ranked = sorted(scores, key=lambda agent: (-scores[agent], agent))
    best, second, worst = ranked[0], ranked[1], ranked[-1]
    if scores[worst] == scores[second]:
        raise UserError(
            f"{second!r} and {worst!r} have the same score, {scores[worst]:g}, so neither pair with {best!r} is "
            "harder. Choose the agents of the easy and the hard set yourself"
        )
    return chosen_sets(answered, easy=(best, worst), hard=(best, second), items=items, seed=seed)


# --- what is asked, and how the reply is read -----------------------------------------------------------------------


BY_PROBABILITY = replace(
    PAIRWISE,
    name="confidence-prompt1",
    source=SOURCE,
    opening=f"{STATEMENT}\n\n###Task: {{description}}",
)
"""The answers are ``one`` or ``two``; the value is that of a pairwise scale."""
BY_LABEL = replace(
    PAIRWISE,
    name="confidence-null",
    source=SOURCE,
    lowest=1.0,
    highest=5.0,
    labels=LABELS,
    reader=OnlyLabelReader(LABELS, confidence=True),
    allowed=f"one of these words: {', '.join(LABELS)}",
    opening="###Task: {description}",
    closing=HOW_SURE.replace("{labels}", ", ".join(LABELS)),
)
"""The answer is a word for the confidence; the value is its number, from 1 to 5."""


# --- the exam -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceStage:
    """Measures a reviewer's confidence. The model must be prepared; one that cannot do it is refused here."""

    model: Model
    reviewer: str | None = None
    """The reviewer's name in its answers; None: the model's short name."""
    task_description: str = ""
    """A description of what is judged and what counts; empty: a neutral description."""
    reading: Verdicts = "auto"
    """``auto``: by probabilities if the model returns them, otherwise by labels, the same for all pairs."""

    def __post_init__(self) -> None:
        """Refuse a model that cannot be asked this way."""
        find_reading(self.model, self.reading, role=ROLE)

    async def sit(
        self,
        sets: ConfidenceSets,
        texts: Texts,
        prompts: Prompts,
        *,
        at_once: int = 1,
    ) -> list[ExamAnswer]:
        """One answer per order of each pair, the easy set first, all read in the same way.

        If probabilities were expected and the model returns none, ``auto`` asks for labels instead, for all pairs;
        otherwise the answer is missing with this cause.
        """
        asked: dict[ReviewQuestion, Difficulty] = dict.fromkeys(both_orders(sets.easy), "easy")
        asked |= dict.fromkeys(both_orders(sets.hard), "hard")

        async def sit(stage: ReviewStage, questions: Sequence[ReviewQuestion]) -> list[ExamAnswer]:
            return await exam_answers("self-confidence", stage, questions, texts, prompts, at_once=at_once)

        answers = None
        if find_reading(self.model, self.reading, role=ROLE) != "labels":
            answers = await self._by_probability(list(asked), sit)
        if answers is None:
            answers = await sit(self._stage(BY_LABEL, "labels"), list(asked))
        return [replace(answer, difficulty=asked[q]) for q, answer in zip(asked, answers, strict=True)]

    def _stage(self, scale: Scale, verdicts: Verdicts) -> ReviewStage:
        description = self.task_description
        return ReviewStage(self.model, scale, reviewer=self.reviewer, task_description=description, verdicts=verdicts)

    async def _by_probability(self, asked: Sequence[ReviewQuestion], sit: Sit) -> list[ExamAnswer] | None:
        """The answers; None if labels are needed, because the backend returns no probabilities after all."""
        stage = self._stage(BY_PROBABILITY, "probabilities")
        # the first reply shows whether a server returns probabilities: if not, no more is spent on asking for them
        probed = 0 if stage.reading == "probabilities-scored" else 1
        answers: list[ExamAnswer] = []
        for questions in (asked[:probed], asked[probed:]):
            answers += [_with_probability(answer) for answer in await sit(stage, questions)]
            without = any(answer.evidence.failure is NO_PROBABILITIES for answer in answers)
            if self.reading == "auto" and without and not any(a.evidence.label_logprobs for a in answers):
                return None
        return answers


def _with_probability(answer: ExamAnswer) -> ExamAnswer:
    """The answer, missing if it is a choice without its probability."""
    row = answer.evidence
    if row.failure is not None or row.label_logprobs:
        return answer
    return replace(answer, evidence=replace(row, value=None, read_from=None, failure=NO_PROBABILITIES))
