"""Which of the given answers a model chose, and with what probability.

*The choice* is the written answer where the text holds exactly one of the answers as a whole word, case as given;
a longer answer hides a shorter one inside it ("very good" is not "good").

*The probabilities* are read at one token: where the written answer begins, or else at the first word. Every alternative
token listed there is laid to the answers it could begin (leading spaces aside). Tokens that all answers share are
skipped to the first that tells them apart. The masses are normalised over the answers. There are no probabilities

- where a token that matters could begin several answers (they share their first token);
- where an answer is not listed and could still have more than 1 % of the answers' mass; an unlisted answer with a
  smaller bound gets that bound, so each probability is off by at most 1 %;
- where the answers together have less than 5 % of the mass: the model is not answering there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_NEGLIGIBLE = 0.01
_LEAST_MASS = 0.05
_SPACE = " \t\r\n\u2581\u0120"  # the last two stand for a leading space in raw vocabularies


@dataclass(frozen=True, slots=True)
class Step:
    """One written token with the alternatives listed beside it."""

    token: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...]
    """Token and log-probability, the written one among them."""


def steps_of(content: Iterable[Any]) -> tuple[Step, ...]:
    """The steps in an OpenAI ``logprobs.content`` list; none at all where one is not of that shape."""
    steps = []
    for entry in content:
        if not _is_token(entry):
            return ()
        listed = {
            other["token"]: float(other["logprob"]) for other in entry.get("top_logprobs") or () if _is_token(other)
        }
        listed.setdefault(entry["token"], float(entry["logprob"]))
        steps.append(Step(entry["token"], float(entry["logprob"]), tuple(listed.items())))
    return tuple(steps)


def _is_token(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("token"), str)
        and isinstance(entry.get("logprob"), int | float)
    )


def written_answer(text: str, answers: Sequence[str]) -> tuple[str, int] | None:
    """The one answer the text holds, with the place it begins; None where it holds none or several."""
    stripped = text.strip()
    if stripped in answers:
        return stripped, text.index(stripped)
    found: dict[str, int] = {}
    for match in _pattern(tuple(answers)).finditer(text):
        found.setdefault(match.group(), match.start())
    return next(iter(found.items())) if len(found) == 1 else None


def answer_logprobs(steps: Sequence[Step], answers: Sequence[str], *, begin: int) -> Mapping[str, float] | None:
    """The log-probability of each answer in nats, normalised over the answers; None where the tokens cannot tell.

    ``begin`` is the character of the text at which the answer begins.
    """
    position = 0
    for index, step in enumerate(steps):
        before = step.token[: max(0, begin - position)]
        position += len(step.token)
        if position <= begin or not step.token[len(before) :].strip(_SPACE):
            continue  # not there yet, or only white space
        return _distinguish(steps[index:], answers, lead=before.lstrip(_SPACE))
    return None


def _distinguish(steps: Sequence[Step], answers: Sequence[str], *, lead: str) -> Mapping[str, float] | None:
    """Walk on while every answer could still follow, then read the masses."""
    written = ""
    for step in steps:
        masses, shared = _masses(step, answers, written, lead)
        begun = _begun(step.token, written, lead)
        if not all(answer.startswith(begun) for answer in answers) or sum(masses.values()) > _NEGLIGIBLE * shared:
            return _normalised(step, masses, shared)
        written, lead = begun, ""
    return None


def _begun(token: str, written: str, lead: str) -> str:
    """What is written of an answer once this token is added."""
    return written + token if written else token.lstrip(_SPACE).removeprefix(lead).lstrip(_SPACE)


def _masses(step: Step, answers: Sequence[str], written: str, lead: str) -> tuple[dict[str, float], float]:
    """Probability of the tokens that begin exactly one answer, by answer, and of those that begin several."""
    masses = dict.fromkeys(answers, 0.0)
    shared = 0.0
    for token, logprob in step.alternatives:
        begun = _begun(token, written, lead)
        if not begun or begun == written:
            continue
        possible = [answer for answer in answers if answer.startswith(begun) or _completes(begun, answer)]
        if len(possible) == 1:
            masses[possible[0]] += math.exp(logprob)
        elif possible:
            shared += math.exp(logprob)
    return masses, shared


def _completes(begun: str, answer: str) -> bool:
    """Whether the token ends the answer and adds only what no longer belongs to the word, such as a full stop."""
    return begun.startswith(answer) and not re.match(r"\w", begun[len(answer) :])


def _normalised(step: Step, masses: dict[str, float], shared: float) -> Mapping[str, float] | None:
    total = sum(masses.values())
    listed = [math.exp(logprob) for _, logprob in step.alternatives]
    # An answer that is not listed has less than the least token listed, and no more than what is left of 1.
    bound = max(min(*listed, 1.0 - sum(listed)), 1e-12)
    unlisted = any(mass == 0.0 for mass in masses.values())
    if total < _LEAST_MASS or shared > _NEGLIGIBLE * total or (unlisted and bound > _NEGLIGIBLE * total):
        return None
    filled = {answer: mass or bound for answer, mass in masses.items()}
    whole = sum(filled.values())
    return {answer: math.log(mass / whole) for answer, mass in filled.items()}


@lru_cache(maxsize=256)
def _pattern(answers: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the answers as a whole word, longer ones first."""
    longest_first = sorted(answers, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")
