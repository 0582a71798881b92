"""Replies: what a model wrote, and which of the given answers it chose.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal

from goldless.models.http_api.client import ApiKey, check_alternatives, check_logprobs, part_of
from goldless.models.interface import ChatReply, ChatRequest, Usage
from goldless.records import CallFailure

_NEGLIGIBLE = 0.01
_LEAST_MASS = 0.05
_SPACE = " \t\r\n\u2581\u0120"  # the last two stand for a leading space in raw vocabularies


@dataclass(frozen=True, slots=True)
class Written:
    """What a model wrote, in whatever format it was received."""

    text: str
    """Without its thinking."""
    finish: Literal["stop", "length"]
    usage: Usage
    steps: tuple[Step, ...] = ()
    """The written tokens with their alternatives; empty if the server returned no log-probabilities."""
    thinking_characters: int = 0
    """Characters of thinking before the text, which are among the steps."""


def reply_of(written: Written, request: ChatRequest, retries: tuple[CallFailure, ...] = ()) -> ChatReply:
    """The reply, with written tokens and the choice, if requested and available."""
    # a server that charges nothing for a text does not count what it writes
    counted = not written.text or written.usage.output_tokens > 0
    usage = written.usage if counted else Usage()
    reply = ChatReply(text=written.text, finish=written.finish, usage=usage, retries=retries)
    steps = written.steps
    if request.logprobs and steps:
        reply = replace(reply, token_logprobs=tuple((step.token, step.logprob) for step in steps))
    if not request.choices:
        return reply
    answer = written_answer(reply.text, request.choices)
    logprobs = answer_logprobs(steps, request.choices, begin=_begin(written, answer))
    if answer is not None:
        return replace(reply, text=answer[0], finish="choice", choice_logprobs=logprobs)
    if logprobs is not None:
        return replace(reply, text=max(logprobs, key=logprobs.__getitem__), finish="choice", choice_logprobs=logprobs)
    return reply


def hides_answers(written: Written, request: ChatRequest) -> bool:
    """Whether the answers' probabilities are unknown only because some answers are not among the listed tokens."""
    read = partial(answer_logprobs, written.steps, request.choices)
    begin = _begin(written, written_answer(written.text, request.choices))
    return read(begin=begin) is None and read(begin=begin, bounded=True) is not None


def with_tokens_of(written: Written, other: Written) -> Written:
    """The text with the alternatives of another reply to the same request added, as long as the two agree."""
    steps = list(written.steps)
    for i, (step, same) in enumerate(zip(written.steps, other.steps, strict=False)):
        if step.token != same.token:
            break
        steps[i] = replace(step, alternatives=tuple((dict(same.alternatives) | dict(step.alternatives)).items()))
    return replace(written, steps=tuple(steps))


def _begin(written: Written, answer: tuple[str, int] | None) -> int:
    """The character at which the answer begins, thinking included."""
    return written.thinking_characters + (answer[1] if answer else 0)


def without_key(reply: ChatReply, key: ApiKey) -> ChatReply:
    """The reply without the key, should the model write it; its tokens are then left out."""
    written = "".join(token for token, _ in reply.token_logprobs or ())
    text = key.withhold(reply.text)
    if key.withhold(written) != written:
        return replace(reply, text=text, token_logprobs=None)
    return reply if text == reply.text else replace(reply, text=text)


# --- which answer was chosen -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """One written token with its listed alternatives."""

    token: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...]
    """Tokens and log-probabilities, including the written one."""


def steps_of(content: Iterable[Any]) -> tuple[Step, ...]:
    """The steps in an OpenAI ``logprobs.content`` list; empty if any entry is malformed."""
    steps = []
    for entry in content:
        if not _is_token(entry):
            return ()
        others = entry.get("top_logprobs") or ()
        if not isinstance(others, list | tuple):
            return ()
        listed = {other["token"]: other["logprob"] for other in others if _is_token(other)}
        listed.setdefault(entry["token"], entry["logprob"])
        steps.append(checked_step(entry["token"], entry["logprob"], listed))
    return tuple(steps)


def checked_step(token: str, logprob: float, alternatives: Mapping[str, float]) -> Step:
    """A step. Raises AttemptError if its values cannot be log-probabilities of one position."""
    check_logprobs((logprob,))
    check_alternatives(list(alternatives.values()))
    return Step(token, float(logprob), tuple((other, float(value)) for other, value in alternatives.items()))


def _is_token(entry: Any) -> bool:
    return isinstance(part_of(entry, "token"), str) and isinstance(part_of(entry, "logprob"), int | float)


def written_answer(text: str, answers: Sequence[str]) -> tuple[str, int] | None:
    """The only answer in the text, with its position; None if there are none or several."""
    stripped = text.strip()
    if stripped in answers:
        return stripped, text.index(stripped)
    found: dict[str, int] = {}
    for match in _pattern(tuple(answers)).finditer(text):
        found.setdefault(match.group(), match.start())
    return next(iter(found.items())) if len(found) == 1 else None


def answer_logprobs(
    steps: Sequence[Step], answers: Sequence[str], *, begin: int, bounded: bool = False
) -> Mapping[str, float] | None:
    """The log-probability of each answer in nats, normalised over the answers; None if the tokens are ambiguous.

    ``begin`` is the character of the text at which the answer begins. ``bounded``: an answer that is not listed has the
    most that it can have, however much that is.
    """
    position = 0
    for index, step in enumerate(steps):
        before = step.token[: max(0, begin - position)]
        position += len(step.token)
        if position <= begin or not step.token[len(before) :].strip(_SPACE):
            continue  # not there yet, or only white space
        return _distinguish(steps[index:], answers, lead=before.lstrip(_SPACE), bounded=bounded)
    return None


def _distinguish(
    steps: Sequence[Step], answers: Sequence[str], *, lead: str, bounded: bool
) -> Mapping[str, float] | None:
    """Continue while every answer could still follow, then read the masses."""
    written = ""
    for step in steps:
        masses, shared = _masses(step, answers, written, lead)
        begun = _begun(step.token, written, lead)
        if not all(answer.startswith(begun) for answer in answers) or sum(masses.values()) > _NEGLIGIBLE * shared:
            return _normalised(step, masses, shared, bounded=bounded)
        written, lead = begun, ""
    return None


def _begun(token: str, written: str, lead: str) -> str:
    """The part of an answer written once this token is added."""
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


def _normalised(step: Step, masses: dict[str, float], shared: float, *, bounded: bool) -> Mapping[str, float] | None:
    listed = [math.exp(logprob) for _, logprob in step.alternatives]
    # An answer that is not listed has less than the least token listed, and no more than what is left of 1.
    bound = max(min(*listed, 1.0 - sum(listed)), 1e-12)
    filled = {answer: mass or bound for answer, mass in masses.items()}
    whole = sum(filled.values())
    total = whole if bounded else sum(masses.values())
    unlisted = not bounded and not all(masses.values())
    if total < _LEAST_MASS or shared > _NEGLIGIBLE * total or (unlisted and bound > _NEGLIGIBLE * total):
        return None
    return {answer: math.log(mass / whole) for answer, mass in filled.items()}


@lru_cache(maxsize=256)
def _pattern(answers: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the answers as a whole word, longer ones first."""
    longest_first = sorted(answers, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")
