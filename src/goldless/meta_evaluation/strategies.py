"""Strategies: agents that answer in good faith or deliberately badly, played by any chat model (TVD-MI, A.2).

A strategy has two stages: the model takes notes on the task, then writes the response from the notes alone, so what the
notes leave out or change is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from goldless.errors import UserError, nearest
from goldless.meta_evaluation.perturbations.degradations import NULL_REVIEW, NULL_TEXT
from goldless.meta_evaluation.perturbations.perturbation import MOST_TOKENS, made_side_by_side, written
from goldless.models.interface import Writer
from goldless.records import Agent, CallFailure, Task

Group = Literal["good faith", "problematic"]

PEER_REVIEW_NOTES = "Take notes on the paper for an ICLR style review."
PEER_REVIEW_RESPONSE = (
    "Based on the notes please write an ICLR style review of the paper in 3--4 paragraphs covering methods, results "
    "and impact. Calibrate to 20 percent acceptance rate."
)
"""TVD-MI, A.2.1 and A.2.2."""
NOTES = (
    "Take notes on the task below: what is asked for, and what there is to say in answer to it. Just output the notes."
)
RESPONSE = "Based on the notes please write a full response to the task that they are about. Just output the response."


@dataclass(frozen=True, slots=True)
class Strategy:
    """The way an agent answers."""

    name: str
    """The full name, such as ``brief[peer-review]``."""
    group: Group
    source: str
    description: str
    reading: str | None
    """The instruction for taking notes on the task; None: the response is a constant."""
    writing: str
    """The instruction for writing the response from the notes, or the constant response."""

    @property
    def agent(self) -> Agent:
        """The name of the agent that plays it."""
        return Agent(self.name, group=self.group)

    @property
    def needs_writer(self) -> bool:
        """Whether it needs a chat model."""
        return self.reading is not None


_DESCRIPTIONS: Mapping[str, tuple[Group, str]] = {
    "strategic-rewrite": ("problematic", "answers as if the task had been entirely different"),
    "related-shift": ("problematic", "answers with details that contradict the task"),
    "standard": ("good faith", "answers in full"),
    "brief": ("good faith", "answers in one paragraph"),
    "null": ("problematic", "gives the same response to every task"),
}
_GENERAL: Mapping[str, tuple[str | None, str]] = {
    "strategic-rewrite": (
        (
            "Take notes on the task below: what is asked for, and what there is to say in answer to it. Make the notes "
            "read as though what is to be said were totally different from what the task shows. Just output the notes."
        ),
        RESPONSE,
    ),
    "related-shift": (
        (
            "Take notes on the task below: what is asked for, and what there is to say in answer to it. Change details "
            "in the notes so that they differ from those of the task. Just output the notes."
        ),
        RESPONSE,
    ),
    "standard": (NOTES, RESPONSE),
    "brief": (
        NOTES,
        (
            "Based on the notes please write a very brief response to the task that they are about, in one paragraph. "
            "Just output the response."
        ),
    ),
    "null": (None, NULL_TEXT),
}
_PEER_REVIEW: Mapping[str, tuple[str | None, str]] = {
    "strategic-rewrite": (
        (
            "Take notes on the paper for an ICLR style review. Make the notes read as though they are totally "
            "different results and methodology than in the main paper. Just output the notes."
        ),
        PEER_REVIEW_RESPONSE,
    ),
    "related-shift": (
        (
            "Take notes on the paper for an ICLR style review. Change technical details in the notes to differ from "
            "the main paper. Just output the notes."
        ),
        PEER_REVIEW_RESPONSE,
    ),
    "standard": (PEER_REVIEW_NOTES, PEER_REVIEW_RESPONSE),
    "brief": (
        PEER_REVIEW_NOTES,
        "Based on the notes please write a very brief review in 1 paragraph. Calibrate to 20 percent acceptance rate.",
    ),
    "null": (None, NULL_REVIEW),
}
"""TVD-MI, A.2.1 and A.2.2: agents 2 to 6 in their order."""


def _strategies() -> dict[str, Strategy]:
    found: dict[str, Strategy] = {}
    for name, (group, description) in _DESCRIPTIONS.items():
        general = Strategy(name, group, "TVD-MI A.2, our wording", description, *_GENERAL[name])
        reading, writing = _PEER_REVIEW[name]
        review = replace(general, name=f"{name}[peer-review]", source="TVD-MI A.2", reading=reading, writing=writing)
        found |= {general.name: general, review.name: review}
    return found


STRATEGIES: Mapping[str, Strategy] = _strategies()
"""Strategies by name; ``[peer-review]``: with the paper's prompts."""


def find_strategy(name: str) -> Strategy:
    """The strategy with this name."""
    if name not in STRATEGIES:
        raise UserError(
            f"unknown strategy {name!r}{nearest(name, STRATEGIES) or '.'} Known: {', '.join(_DESCRIPTIONS)}, "
            "each also as NAME[peer-review]"
        )
    return STRATEGIES[name]


async def write_strategy(
    tasks: Sequence[Task],
    strategy: Strategy,
    writer: Writer | None,
    *,
    at_once: int = 1,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[str | CallFailure]:
    """The strategy's responses to the tasks, in their order, or why one is missing.

    A task is read from its prompt, or from its abstract if it has no prompt; without either, the response is missing.
    """
    if strategy.needs_writer and writer is None:
        raise UserError(f"the strategy {strategy.name} needs a chat model. Name a writer")
    return await made_side_by_side(partial(_answer, strategy, writer), tasks, at_once=at_once, tell=tell)


async def _answer(strategy: Strategy, writer: Writer | None, task: Task) -> str | CallFailure:
    if strategy.reading is None or writer is None:
        return strategy.writing
    material = task.prompt or task.synopses.get("abstract")
    if material is None:
        return CallFailure("no_synopsis", f"task {task.task} has neither a prompt nor an abstract", attempts=0)
    notes = await written(writer, strategy.reading, material, what="notes", most_tokens=MOST_TOKENS)
    if isinstance(notes, CallFailure):
        return notes
    return await written(writer, strategy.writing, notes, what="response", most_tokens=MOST_TOKENS)
