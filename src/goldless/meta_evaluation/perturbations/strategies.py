"""Strategies: agents that answer in good faith or deliberately badly, played by any chat model (TVD-MI, A.2).

A strategy has two stages: the model takes notes on the task, then writes the response from the notes alone, so what the
notes leave out or change is lost. It is a perturbation that ignores the response it is given.
"""

from __future__ import annotations

from collections.abc import Mapping

from goldless.errors import UserError, nearest
from goldless.meta_evaluation.perturbations.degradations import NULL_REVIEW, NULL_TEXT
from goldless.meta_evaluation.perturbations.perturbation import (
    MOST_TOKENS,
    Apply,
    Change,
    Kind,
    Made,
    Perturbation,
    Setting,
    of_text,
    written,
)
from goldless.records import CallFailure, Response

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

_DESCRIPTIONS: Mapping[str, tuple[Kind, str]] = {
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


def _answering(reading: str | None, writing: str) -> Apply:
    """Answers a task from its prompt, or from its abstract if it has no prompt; without ``reading``, a constant."""
    if reading is None:
        return of_text(lambda _: writing)

    def apply(setting: Setting) -> Change:
        async def answer(response: Response) -> Made:
            task = setting.study.task(response.task)
            material = task.prompt or task.synopses.get("abstract")
            if material is None:
                return CallFailure("no_synopsis", f"task {task.task} has neither a prompt nor an abstract", attempts=0)
            notes = await written(setting.writer, reading, material, what="notes", most_tokens=MOST_TOKENS)
            if isinstance(notes, CallFailure):
                return notes
            return await written(setting.writer, writing, notes, what="response", most_tokens=MOST_TOKENS)

        return answer

    return apply


STRATEGIES: Mapping[str, Perturbation] = {
    f"{name}{form}": Perturbation(
        f"{name}{form}", kind, source, description, _answering(*words[name]), needs_writer=words[name][0] is not None
    )
    for name, (kind, description) in _DESCRIPTIONS.items()
    for form, source, words in (
        ("", "TVD-MI A.2, our wording", _GENERAL),
        ("[peer-review]", "TVD-MI A.2", _PEER_REVIEW),
    )
}
"""Strategies by name; ``[peer-review]``: with the paper's prompts."""


def find_strategy(name: str) -> Perturbation:
    """The strategy with this name."""
    if name not in STRATEGIES:
        raise UserError(
            f"unknown strategy {name!r}{nearest(name, STRATEGIES) or '.'} Known: {', '.join(_DESCRIPTIONS)}, "
            "each also as NAME[peer-review]"
        )
    return STRATEGIES[name]
