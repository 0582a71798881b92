"""Chat completions: requests with the parameters this server accepts, and the meaning of its replies.

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
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from goldless.models.http_api.client import AttemptError, bad_reply, part_of
from goldless.models.http_api.dialects import usage_of
from goldless.models.http_api.tokenizing import first_choice
from goldless.models.interface import ChatReply, ChatRequest

if TYPE_CHECKING:
    from goldless.models.http_api.calls import Answer

MOST_ALTERNATIVES = 20
"""Maximum alternatives in the OpenAI format."""
_FEWER_ALTERNATIVES = {MOST_ALTERNATIVES: 5, 5: 0}
_NEGLIGIBLE = 0.01
_LEAST_MASS = 0.05
_SPACE = " \t\r\n\u2581\u0120"  # the last two stand for a leading space in raw vocabularies


@dataclass(frozen=True, slots=True)
class Wording:
    """Which optional parameters a server accepts, learnt from its rejections."""

    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True
    seed: bool = True
    alternatives: int = MOST_ALTERNATIVES
    """``top_logprobs`` to request; 0: the server returns no log-probabilities of what it writes."""

    def after(self, failure: AttemptError) -> Wording | None:
        """Other parameters to try after this rejection, or None if the parameters are not the cause."""
        if failure.status not in {400, 422} or failure.kind == "too_long":
            return None  # a request that is too long is refused with words about max_tokens, whatever it is called
        if self.limit == "max_tokens" and failure.names("max_tokens"):
            return replace(self, limit="max_completion_tokens")
        if self.alternatives and (failure.names("top_logprobs") or failure.names("logprobs")):
            return replace(self, alternatives=_FEWER_ALTERNATIVES.get(self.alternatives, 0))
        if self.temperature and failure.names("temperature"):
            return replace(self, temperature=False)
        if self.seed and failure.names("seed"):
            return replace(self, seed=False)
        return None

    def settings(self) -> dict[str, str]:
        """Settings for the identity, because they change what the model writes."""
        left_out = {} if self.temperature else {"temperature": "server default"}
        return left_out if self.seed else {**left_out, "seed": "not taken"}


def payload(request: ChatRequest, *, model: str, wording: Wording) -> dict[str, Any]:
    """The body of ``/v1/chat/completions``."""
    body: dict[str, Any] = {
        "model": model,
        "messages": request.messages,
        wording.limit: _token_limit(request, wording),
    }
    if wording.temperature:
        body["temperature"] = request.temperature
    if request.seed is not None and wording.seed:
        body["seed"] = request.seed
    if wording.alternatives and (request.choices or request.logprobs):
        body["logprobs"] = True
        if request.choices:
            body["top_logprobs"] = wording.alternatives
    return body


def read_reply(answer: Answer, request: ChatRequest) -> ChatReply:
    """What the model wrote. Raises AttemptError for a refusal or a reply that cannot be used."""
    choice = first_choice(answer.data)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise bad_reply("the reply's first choice has no message")
    finish = choice.get("finish_reason")
    text = message.get("content")
    if message.get("refusal"):
        raise AttemptError("refused", f"the model refused: {str(message['refusal'])[:200]}")
    if finish == "content_filter":
        raise AttemptError("refused", "the server's content filter stopped the reply")
    if finish == "error":
        raise AttemptError("server_error", "the model behind the server failed while writing")
    if not isinstance(text, str):
        if finish != "length":
            raise bad_reply("the reply has no text")
        text = ""  # everything allowed went into reasoning that is not shown
    reply = ChatReply(
        text=text,
        finish="length" if finish == "length" else "stop",
        usage=usage_of(answer.data.get("usage")),
        retries=answer.retries,
    )
    if request.logprobs or request.choices:
        return _with_logprobs(reply, written_steps(choice), request)
    return reply


def written_steps(choice: dict[str, Any]) -> tuple[Step, ...]:
    """The written tokens with their alternatives; empty if the server returned no log-probabilities."""
    content = part_of(choice, "logprobs", "content")
    return steps_of(content) if isinstance(content, list) else ()


def _with_logprobs(reply: ChatReply, steps: tuple[Step, ...], request: ChatRequest) -> ChatReply:
    """Add written tokens and the choice, if requested and available."""
    if request.logprobs and steps:
        reply = replace(reply, token_logprobs=tuple((step.token, step.logprob) for step in steps))
    if not request.choices:
        return reply
    written = written_answer(reply.text, request.choices)
    logprobs = answer_logprobs(steps, request.choices, begin=written[1] if written else 0)
    if written is not None:
        return replace(reply, text=written[0], finish="choice", choice_logprobs=logprobs)
    if logprobs is not None:
        return replace(reply, text=max(logprobs, key=logprobs.__getitem__), finish="choice", choice_logprobs=logprobs)
    return reply


def _token_limit(request: ChatRequest, wording: Wording) -> int:
    if not request.choices or wording.limit == "max_completion_tokens":
        # Models that want the second name think before they write, and the thinking counts.
        return request.max_tokens
    return min(request.max_tokens, max(map(len, request.choices)) + 8)


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
        listed = {
            other["token"]: float(other["logprob"]) for other in entry.get("top_logprobs") or () if _is_token(other)
        }
        listed.setdefault(entry["token"], float(entry["logprob"]))
        steps.append(Step(entry["token"], float(entry["logprob"]), tuple(listed.items())))
    return tuple(steps)


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


def answer_logprobs(steps: Sequence[Step], answers: Sequence[str], *, begin: int) -> Mapping[str, float] | None:
    """The log-probability of each answer in nats, normalised over the answers; None if the tokens are ambiguous.

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
    """Continue while every answer could still follow, then read the masses."""
    written = ""
    for step in steps:
        masses, shared = _masses(step, answers, written, lead)
        begun = _begun(step.token, written, lead)
        if not all(answer.startswith(begun) for answer in answers) or sum(masses.values()) > _NEGLIGIBLE * shared:
            return _normalised(step, masses, shared)
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
