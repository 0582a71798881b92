"""The pertinence exam: an answer to the question against a well-written answer to another one (Auto-PRE, eq. 3).

For a task with prompt Q, the relevant answer (RA) is an agent's response to it; the irrelevant one (IA) answers a
changed question Q'. Either Q' is the nearest other prompt of the study, and the IA an agent's response to that; or a
model changes Q, and a model answers the result (``changed_questions``). A reviewer judges both against Q, in both
orders. The exam is harder the weaker the agent behind the RA and the stronger the one behind the IA (Auto-PRE, table
9).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from goldless.errors import UserError
from goldless.evidence import JudgementEvidence
from goldless.judging.asking import Texts
from goldless.judging.exams.answers import ExamAnswer, exam_answers, refuse_pointwise
from goldless.judging.exams.pairs import check_agents, drawn_names
from goldless.judging.exams.similarity import PromptSimilarity, same_words
from goldless.judging.reviewing import Prompts, ReviewQuestion, Stage
from goldless.records import CallFailure

RELEVANT, IRRELEVANT = "relevant", "irrelevant"
"""What stands for the agents in the exam's judgements."""
_NO_OTHER = CallFailure("not_recorded", "the study has no other prompt that was answered", attempts=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PertinenceItem:
    """A question with an answer to it and an answer to another one."""

    task: str
    prompt: str
    """Q, which both answers are judged against."""
    changed_prompt: str | None = None
    """Q'; None: missing, and ``failure`` says why."""
    relevant_text: str | None = None
    irrelevant_text: str | None = None
    """None: missing, and ``failure`` says why."""
    relevant_by: str
    """Agent whose response to Q it is."""
    irrelevant_by: str
    """Agent or model that answered Q'."""
    source: Literal["nearest", "rewrite"]
    other_task: str | None = None
    """The task whose prompt Q' is, where it is one of the study."""
    similarity: float | None = None
    """Of Q and Q', by ``PromptSimilarity``, where it is one of the study."""
    failure: CallFailure | None = None
    """Why the item cannot be asked."""


def nearest_items(
    prompts: Prompts,
    texts: Texts,
    *,
    relevant: str,
    irrelevant: str,
    items: int | None = None,
    seed: int = 0,
    most_alike: float = 1.0,
) -> list[PertinenceItem]:
    """One item a task, with the nearest other prompt of the study as Q'; all tasks, or ``items`` drawn by the seed.

    ``relevant`` and ``irrelevant``: agents whose responses are the RA and the IA. Nearest is the highest cosine of
    TF-IDF weights, among prompts that are not the same and that ``irrelevant`` answered. ``most_alike``: prompts above
    this similarity are passed over, where a study asks the same thing in two wordings.
    """
    if not 0 <= most_alike <= 1:
        raise UserError(f"the similarity of two prompts is between 0 and 1; most_alike came as {most_alike}")
    worded = possible_prompts(prompts, texts, relevant=relevant, items=items, seed=seed)
    check_agents(_answered(texts), [irrelevant])
    known = {task: prompt for task, prompt in prompts.items() if prompt is not None and prompt.strip()}
    similarity = PromptSimilarity(known)
    usable = {other for other in known if isinstance(texts.get((other, irrelevant)), str)}
    found = []
    for task, prompt in worded.items():
        near = ((other, value) for other, value in similarity.nearest_first(task) if value <= most_alike)
        other = next((o for o in near if o[0] in usable and not same_words(prompt, known[o[0]])), None)
        item = PertinenceItem(
            task=task,
            prompt=prompt,
            changed_prompt=None if other is None else known[other[0]],
            relevant_by=relevant,
            irrelevant_by=irrelevant,
            source="nearest",
            other_task=None if other is None else other[0],
            similarity=None if other is None else other[1],
        )
        found.append(
            with_answers(item, texts[task, relevant], _NO_OTHER if other is None else texts[other[0], irrelevant])
        )
    if all(item.failure is not None and item.changed_prompt is None for item in found):
        raise UserError(
            "the pertinence exam needs two different prompts that an agent answered, and no task of the study has "
            f"another one with a response of {irrelevant!r} beside it; name another agent, or let a model change them"
        )
    return found


def possible_prompts(prompts: Prompts, texts: Texts, *, relevant: str, items: int | None, seed: int) -> dict[str, str]:
    """The prompts that items can be made of, by task: those that ``relevant`` responded to; ``items`` of them drawn."""
    worded = {task: prompt for task, prompt in prompts.items() if prompt is not None and prompt.strip()}
    if not worded:
        raise UserError(
            "the pertinence exam asks which of two answers fits the question, and this study has no prompts to hold "
            "them against: add a column 'prompt' to its tasks, or use the exams that need none (consistency, "
            "self-confidence, human)"
        )
    check_agents(_answered(texts), [relevant])
    possible = {task: prompt for task, prompt in worded.items() if (task, relevant) in texts}
    if not possible:
        raise UserError(
            f"{relevant!r} answered none of the {len(worded)} tasks that have a prompt, so there is no relevant "
            "answer; name another agent"
        )
    drawn = drawn_names(list(possible), items, exam="pertinence", seed=seed)
    return {task: prompt for task, prompt in possible.items() if task in drawn}


def with_answers(item: PertinenceItem, relevant: str | CallFailure, irrelevant: str | CallFailure) -> PertinenceItem:
    """The item with its two answers, or with the reason why it cannot be asked."""
    failures = [text for text in (relevant, irrelevant) if isinstance(text, CallFailure)]
    if failures:
        return replace(item, failure=failures[0])
    assert isinstance(relevant, str)
    assert isinstance(irrelevant, str)
    failure = None
    if not relevant.strip() or not irrelevant.strip():
        failure = CallFailure("not_recorded", "one of the two answers is empty", attempts=0)
    elif same_words(relevant, irrelevant):
        failure = CallFailure("not_recorded", "both answers say the same, so neither is the irrelevant one", attempts=0)
    return replace(item, relevant_text=relevant, irrelevant_text=irrelevant, failure=failure)


def _answered(texts: Texts) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for task, agent in texts:
        found.setdefault(task, []).append(agent)
    return found


async def sit_pertinence(
    stage: Stage,
    items: Sequence[PertinenceItem],
    *,
    known: Iterable[JudgementEvidence] = (),
    at_once: int = 1,
) -> list[ExamAnswer]:
    """What the reviewer says of both orders of each item; an item that cannot be asked is missing with its cause.

    In the judgements the two answers are called ``relevant`` and ``irrelevant``; the reviewer does not see these words.
    """
    refuse_pointwise(stage.scale, "pertinence")
    questions, texts = [], {}
    for item in items:
        for name, text in ((RELEVANT, item.relevant_text), (IRRELEVANT, item.irrelevant_text)):
            texts[item.task, name] = item.failure or text or _NO_OTHER
        questions.append(ReviewQuestion(item.task, RELEVANT, IRRELEVANT))
        questions.append(ReviewQuestion(item.task, IRRELEVANT, RELEVANT))
    prompts = {item.task: item.prompt for item in items}
    return await exam_answers("pertinence", stage, questions, texts, prompts, known=known, at_once=at_once)
