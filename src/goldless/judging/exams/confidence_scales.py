"""What a reviewer is asked in the self-confidence exam, and how its reply is read.

Two ways (Auto-PRE, appendix 3). By probability: it outputs ``one`` or ``two``, and how unlikely its choice was is its
uncertainty; the sentence that says so stands at the beginning (``prompt1``) or at the end (``prompt2``). By label: it
names its confidence in one word of five. The labels and the sentence are the paper's; it prints no more, so the rest is
ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from goldless.errors import UserError
from goldless.judging.scales import PAIRWISE, Scale

Statement = Literal["prompt1", "prompt2"]
LabelSet = Literal["null", "doubtful"]

LABELS: dict[LabelSet, tuple[str, ...]] = {
    "null": ("null", "low", "medium", "high", "expert"),
    "doubtful": ("doubtful", "uncertain", "moderate", "confident", "absolute"),
}
"""From the least confidence, 1, to the most, 5."""

STATEMENT = "You only need to output one or two to indicate which answer is better."
SOURCE = "Auto-PRE paper, appendix 3; what stands around it is ours"
HOW_SURE = (
    "Decide which of the two answers is better, but do not say which. Say how confident you are in your decision. "
    "Output one of these words, which go from the least to the most confident, and nothing else: {labels}."
)


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
