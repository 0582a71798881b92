"""The self-confidence exam: whether a reviewer is surer of easy pairs than of hard ones (Auto-PRE, eq. 4).

By probability, an answer carries log p of ``one`` and ``two``, normalised over the two; the uncertainty is -log p of
the likelier one, between 0 and ln 2. The paper takes p as the model gives it, so doubts about the format count as
doubts about the answers there. By label, the value of an answer is the confidence from 1 to 5.

Two ways of asking (appendix 3). By probability: it outputs ``one`` or ``two``, and how unlikely its choice was is its
uncertainty; the sentence that says so stands at the beginning (``prompt1``) or at the end (``prompt2``). By label: it
names its confidence in one word of five. The labels and the sentence are the paper's; it prints no more, so the rest is
ours.

Two responses are easy to tell apart where their authors are far apart: a strong agent against a weak one is the easy
set, a strong one against another strong one the hard set. Both sets are on the same tasks, so that nothing but the
agents makes one harder than the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from goldless.errors import UserError
from goldless.judging.asking import ChatJudge, ScoringJudge, Texts, Verdicts, find_reading
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
from goldless.judging.reviewing import ROLE, Prompts, ReviewQuestion, ReviewStage
from goldless.judging.scales import PAIRWISE, Scale
from goldless.records import CallFailure

UNTOLD = CallFailure("bad_reply", "the reply came without the probabilities of one and two")

Statement = Literal["prompt1", "prompt2"]
LabelSet = Literal["null", "doubtful"]

LABELS: dict[LabelSet, tuple[str, ...]] = {
    "null": ("null", "low", "medium", "high", "expert"),
    "doubtful": ("doubtful", "uncertain", "moderate", "confident", "absolute"),
}
"""From the least confidence, 1, to the most, 5."""

Sit = Callable[[ReviewStage, Sequence[ReviewQuestion]], Awaitable[list[ExamAnswer]]]
"""Puts questions to a stage."""

STATEMENT = "You only need to output one or two to indicate which answer is better."
SOURCE = "Auto-PRE paper, appendix 3; what stands around it is ours"
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
    """The sets of two chosen pairs of agents: ``easy`` a strong and a weak one, ``hard`` two strong ones.

    On all tasks that all of them answered, or on ``items`` of these, drawn by the seed.
    """
    for name, pair in (("easy", easy), ("hard", hard)):
        if len(pair) != 2 or pair[0] == pair[1]:
            raise UserError(f"the {name} set pairs two different agents; {', '.join(map(repr, pair)) or 'none'} came")
    if set(easy) == set(hard):
        raise UserError(
            f"the easy and the hard set are both of {easy[0]!r} and {easy[1]!r}, so neither is harder; the easy one "
            "pairs a strong and a weak agent, the hard one two strong ones"
        )
    wanted = {*easy, *hard}
    check_agents(answered, sorted(wanted))
    common = [task for task, names in answered.items() if wanted <= set(names)]
    if not common:
        raise UserError(
            f"no task was answered by all of {', '.join(sorted(wanted))}, and both sets must be on the same tasks; "
            "choose other agents"
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
    """The sets of agents that a cheap first pass ranked: the best against the worst, and the best against the second.

    ``scores``: one an agent, higher is better. Agents of the same score stand in the order of their names.
    """
    if len(scores) < 3:
        raise UserError(f"scores of {len(scores)} agents came; a ranking into best, second and worst needs at least 3")
    broken = [agent for agent, score in scores.items() if not math.isfinite(score)]
    if broken:
        raise UserError(f"the score of {', '.join(sorted(broken))} is no number; leave agents without a score out")
    ranked = sorted(scores, key=lambda agent: (-scores[agent], agent))
    best, second, worst = ranked[0], ranked[1], ranked[-1]
    if scores[worst] == scores[second]:
        raise UserError(
            f"{second!r} and {worst!r} have the same score, {scores[worst]:g}, so no pair with {best!r} is harder than "
            "the other; name the agents of the easy and the hard set yourself"
        )
    return chosen_sets(answered, easy=(best, worst), hard=(best, second), items=items, seed=seed)


# --- what is asked, and how the reply is read -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfidenceReader:
    """Labels of confidence: one of them as a whole word, and no other beside it.

    It stands at the beginning, ended by punctuation, the end of the line or the word "confidence", or right after words
    such as "my confidence is". So "not high", "highly" and "low to medium" are no labels.
    """

    labels: tuple[str, ...]

    def find(self, text: str, *, marked: bool = False) -> float | None:
        """The place of the label, from 1; None where there is none, or more than one."""
        either = "|".join(map(re.escape, self.labels))
        whole = rf"(?<![\w\-])({either})(?!\w|[-'\u2019]\w)"
        if len({label.casefold() for label in re.findall(whole, text, re.IGNORECASE)}) != 1:
            return None
        ended = r"(?=[\W_]*$|[^\S\n]*(?:[^\w\s]|_|\n)|\s+confidence\b)"
        noun = r"\b(?:confidence|level|label|answer|output)(?:\s+(?:level|label))?"
        found = re.search(rf"{noun}(?:\s+is|\s*[:=])[\W_]*{whole}{ended}", text, re.IGNORECASE)
        if found is None and not marked:
            found = re.match(rf"[\W_]*{whole}{ended}", text, re.IGNORECASE)
        return None if found is None else self.labels.index(found[1].casefold()) + 1.0


def by_probability(statement: Statement) -> Scale:
    """The scale that is answered by ``one`` or ``two``; its value is the usual one of two responses."""
    if statement not in {"prompt1", "prompt2"}:
        raise UserError(
            f"the statement stands at the beginning (prompt1) or at the end (prompt2), not at {statement!r}"
        )
    first = statement == "prompt1"
    return replace(
        PAIRWISE,
        name=f"confidence-{statement}",
        source=SOURCE,
        opening=f"{STATEMENT}\n\n###Task: {{description}}" if first else "###Task: {description}",
        closing="###Output:" if first else STATEMENT,
    )


def by_label(labels: LabelSet) -> Scale:
    """The scale that is answered by a word for the confidence; its value is the word's place, from 1 to 5."""
    if labels not in LABELS:
        raise UserError(f"labels of confidence are {' or '.join(LABELS)}, not {labels!r}")
    words = LABELS[labels]
    return replace(
        PAIRWISE,
        name=f"confidence-{labels}",
        source=SOURCE,
        lowest=1.0,
        highest=float(len(words)),
        labels=words,
        values=tuple(float(place) for place in range(1, len(words) + 1)),
        reader=ConfidenceReader(words),
        allowed=f"one of these words: {', '.join(words)}",
        opening="###Task: {description}",
        closing=HOW_SURE.replace("{labels}", ", ".join(words)),
    )


# --- the exam -------------------------------------------------------------------------------------------------------


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
        at_once: int = 1,
    ) -> list[ExamAnswer]:
        """One answer for each order of each pair, the easy set first, all of them read in the same way.

        Where probabilities were expected and none came, ``auto`` asks for labels instead, for all pairs; otherwise the
        answer is missing with this cause.
        """
        asked: dict[ReviewQuestion, Difficulty] = dict.fromkeys(both_orders(sets.easy), "easy")
        asked |= dict.fromkeys(both_orders(sets.hard), "hard")

        async def sit(stage: ReviewStage, questions: Sequence[ReviewQuestion]) -> list[ExamAnswer]:
            return await exam_answers("self-confidence", stage, questions, texts, prompts, at_once=at_once)

        answers = None
        if find_reading(self.model, self.reading, role=ROLE) != "labels":
            answers = await self._by_probability(list(asked), sit)
        if answers is None:
            answers = await sit(self._stage(by_label(self.labels), "labels"), list(asked))
        return [replace(answer, difficulty=asked[q]) for q, answer in zip(asked, answers, strict=True)]

    def _stage(self, scale: Scale, verdicts: Verdicts) -> ReviewStage:
        description = self.task_description
        return ReviewStage(self.model, scale, reviewer=self.reviewer, task_description=description, verdicts=verdicts)

    async def _by_probability(self, asked: Sequence[ReviewQuestion], sit: Sit) -> list[ExamAnswer] | None:
        """The answers; None where labels are to be asked for, as the backend tells no probabilities after all."""
        stage = self._stage(by_probability(self.statement), "probabilities")
        # the first reply shows whether a server tells probabilities: if not, no more is spent on asking for them
        probed = 0 if stage.reading == "probabilities-scored" else 1
        answers: list[ExamAnswer] = []
        for questions in (asked[:probed], asked[probed:]):
            answers += [_told(answer) for answer in await sit(stage, questions)]
            untold = any(answer.evidence.failure is UNTOLD for answer in answers)
            if self.reading == "auto" and untold and not any(a.evidence.label_logprobs for a in answers):
                return None
        return answers


def _told(answer: ExamAnswer) -> ExamAnswer:
    """The answer, missing where it is a choice whose probability was not told."""
    row = answer.evidence
    if row.failure is not None or row.label_logprobs:
        return answer
    return replace(answer, evidence=replace(row, value=None, read_from=None, failure=UNTOLD))
