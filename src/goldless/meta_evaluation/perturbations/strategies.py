"""Strategies: agents that answer in good faith or deliberately badly, played by any chat model (TVD-MI, A.2).

A strategy has two stages: the model takes notes on the task, then writes the response from the notes alone, so what the
notes leave out or change is lost. It is a perturbation that ignores the response it is given.
"""

from __future__ import annotations

from collections.abc import Mapping

from goldless.errors import UserError, nearest
from goldless.meta_evaluation.perturbations.degradations import constant
from goldless.meta_evaluation.perturbations.perturbation import (
    MOST_TOKENS,
    TEXTS,
    Apply,
    Change,
    Kind,
    Made,
    Perturbation,
    Setting,
    absent,
    written,
)
from goldless.records import CallFailure, Response

DESCRIPTIONS: Mapping[str, tuple[Kind, str]] = {
    "strategic-rewrite": ("problematic", "answers as if the task had been entirely different"),
    "related-shift": ("problematic", "answers with details that contradict the task"),
    "standard": ("good faith", "answers in full"),
    "brief": ("good faith", "answers in one paragraph"),
    "null": ("problematic", "gives the same response to every task"),
}
"""Agents 2 to 6 of the paper, in their order."""


def _answering(notes: str, response: str) -> Apply:
    """Answers a task from its prompt, or from its abstract if it has no prompt."""

    def apply(setting: Setting) -> Change:
        async def answer(asked: Response) -> Made:
            task = setting.study.task(asked.task)
            material = task.prompt or task.synopses.get("abstract")
            if material is None:
                return absent(f"task {task.task} has neither a prompt nor an abstract", "no_synopsis")
            taken = await written(setting.writer, notes, material, what="notes", most_tokens=MOST_TOKENS)
            if isinstance(taken, CallFailure):
                return taken
            return await written(setting.writer, response, taken, what="response", most_tokens=MOST_TOKENS)

        return answer

    return apply


STRATEGIES: Mapping[str, Perturbation] = {
    f"{name}{form}": Perturbation(
        f"{name}{form}",
        kind,
        source,
        description,
        constant(TEXTS["null"][words]) if name == "null" else _answering(**TEXTS["strategies"][name][words]),
        needs_writer=name != "null",
    )
    for name, (kind, description) in DESCRIPTIONS.items()
    for form, source, words in (
        ("", "TVD-MI A.2, our wording", "ours"),
        ("[peer-review]", "TVD-MI A.2", "peer-review"),
    )
}
"""Strategies by name; ``[peer-review]``: with the paper's prompts."""


def find_strategy(name: str) -> Perturbation:
    """The strategy with this name."""
    if name not in STRATEGIES:
        raise UserError(
            f"unknown strategy {name!r}{nearest(name, STRATEGIES) or '.'} Known: {', '.join(DESCRIPTIONS)}, "
            "each also as NAME[peer-review]"
        )
    return STRATEGIES[name]
