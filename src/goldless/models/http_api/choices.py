"""Which of the given answers a model chose, and how probable each was.

*The choice* is the written answer if the text contains exactly one of the answers as a whole word, case as given;
a longer answer hides a shorter one inside it ("very good" is not "good").

*The probabilities* are read at one token: where the written answer begins, or else at the first word. Every alternative
token listed there is assigned to the answers it could begin (ignoring leading spaces). Tokens that all answers share
are skipped up to the first that distinguishes them. The masses are normalised over the answers. There are no
probabilities

- if a token that matters could begin several answers (they share their first token);
- if an answer is not listed and could still have more than 1 % of the answers' mass; an unlisted answer with a
  smaller bound gets that bound, so each probability is off by at most 1 %;
- if the answers together have less than 5 % of the mass: the model is not answering there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

_NEGLIGIBLE = 0.01
_LEAST_MASS = 0.05
_SPACE = " \t\r\n\u2581\u0120"  # the last two stand for a leading space in raw vocabularies


@dataclass(frozen=True, slots=True)
class Step:
    """One written token with its listed alternatives."""

    token: str
    logprob: float
    alternatives: Mapping[str, float]
    """Tokens and log-probabilities, including the written one."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a model wrote, in whatever format it was received."""

    text: str
    """Without its thinking."""
    cut: bool
    """Whether it ends at the limit of tokens."""
    steps: Sequence[Step] = ()
    """The written tokens with their alternatives; empty if the server returned no log-probabilities."""
    thinking_characters: int = 0
    """Characters of thinking before the text, which are among the steps."""


def chosen(written: Written, answers: Sequence[str]) -> tuple[str | None, Mapping[str, float] | None]:
    """The written answer, if there is exactly one, and the log-probability of each answer in nats, if known."""
    text = written.text
    found: dict[str, int] = {}
    if text.strip() in answers:
        found[text.strip()] = text.index(text.strip())
    else:
        for match in _pattern(tuple(answers)).finditer(text):
            found.setdefault(match.group(), match.start())
    answer, position = next(iter(found.items())) if len(found) == 1 else (None, 0)
    return answer, _probabilities(written.steps, answers, written.thinking_characters + position)


@lru_cache(maxsize=256)
def _pattern(answers: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the answers as a whole word, longer ones first."""
    longest_first = sorted(answers, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")


def _probabilities(steps: Sequence[Step], answers: Sequence[str], begin: int) -> Mapping[str, float] | None:
    """The log-probability of each answer, which begins at this character; None if the tokens are ambiguous."""
    written, lead, position, reached = "", "", 0, False

    def begun_by(token: str) -> str:
        """The part of an answer written once this token is added."""
        return written + token if written else token.lstrip(_SPACE).removeprefix(lead).lstrip(_SPACE)

    for step in steps:
        if not reached:
            before = step.token[: max(0, begin - position)]
            position += len(step.token)
            if position <= begin or not step.token[len(before) :].strip(_SPACE):
                continue  # not there yet, or only white space
            lead, reached = before.lstrip(_SPACE), True
        masses, shared = dict.fromkeys(answers, 0.0), 0.0
        """Of the tokens that begin exactly one answer, and of those that begin several."""
        for token, logprob in step.alternatives.items():
            begun = begun_by(token)
            if not begun or begun == written:
                continue
            # a token may end the answer and add what no longer belongs to the word, such as a full stop
            possible = [one for one in answers if one.startswith(begun) or re.match(rf"{re.escape(one)}(?!\w)", begun)]
            if len(possible) == 1:
                masses[possible[0]] += math.exp(logprob)
            elif possible:
                shared += math.exp(logprob)
        begun = begun_by(step.token)
        if not all(answer.startswith(begun) for answer in answers) or sum(masses.values()) > _NEGLIGIBLE * shared:
            return _normalised(step, masses, shared)
        written, lead = begun, ""  # every answer could still follow
    return None


def _normalised(step: Step, masses: dict[str, float], shared: float) -> Mapping[str, float] | None:
    listed, total = [math.exp(logprob) for logprob in step.alternatives.values()], sum(masses.values())
    # An answer that is not listed has less than the least token listed, and no more than what is left of 1.
    bound = max(min(*listed, 1.0 - sum(listed)), 1e-12)
    unlisted = not all(masses.values())
    if total < _LEAST_MASS or shared > _NEGLIGIBLE * total or (unlisted and bound > _NEGLIGIBLE * total):
        return None
    filled = {answer: mass or bound for answer, mass in masses.items()}
    return {answer: math.log(mass / sum(filled.values())) for answer, mass in filled.items()}
