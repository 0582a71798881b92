"""Strategies: agents that answer in good faith or deliberately badly, played by any chat model (TVD-MI, A.2).

A strategy has two stages: the model takes notes on the task, then writes the response from the notes alone, so what the
notes leave out or change is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from goldless.errors import UserError, nearest
from goldless.meta_evaluation.perturbations.degradations import NULL_REVIEW, NULL_TEXT
from goldless.meta_evaluation.perturbations.perturbation import MOST_TOKENS, Change, Made, Setting, written
from goldless.records import CallFailure, Response

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
    def needs_writer(self) -> bool:
        """Whether it needs a chat model."""
        return self.reading is not None

    def apply(self, setting: Setting) -> Change:
        """Answers a task whatever the response is: from its prompt, or from its abstract if it has no prompt."""
        return partial(self._answer, setting)

    async def _answer(self, setting: Setting, response: Response) -> Made:
        if self.reading is None:
            return self.writing
        task = setting.study.task(response.task)
        material = task.prompt or task.synopses.get("abstract")
        if material is None:
            return CallFailure("no_synopsis", f"task {task.task} has neither a prompt nor an abstract", attempts=0)
        notes = await written(setting.writer, self.reading, material, what="notes", most_tokens=MOST_TOKENS)
        if isinstance(notes, CallFailure):
            return notes
        return await written(setting.writer, self.writing, notes, what="response", most_tokens=MOST_TOKENS)


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


STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy
    for name, (group, description) in _DESCRIPTIONS.items()
    for general in [Strategy(name, group, "TVD-MI A.2, our wording", description, *_GENERAL[name])]
    for strategy in (
        general,
        Strategy(f"{name}[peer-review]", group, "TVD-MI A.2", description, *_PEER_REVIEW[name]),
    )
}
"""Strategies by name; ``[peer-review]``: with the paper's prompts."""


def find_strategy(name: str) -> Strategy:
    """The strategy with this name."""
    if name not in STRATEGIES:
        raise UserError(
            f"unknown strategy {name!r}{nearest(name, STRATEGIES) or '.'} Known: {', '.join(_DESCRIPTIONS)}, "
            "each also as NAME[peer-review]"
        )
    return STRATEGIES[name]
