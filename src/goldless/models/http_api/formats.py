"""Wire formats of chat calls: OpenAI's, which most servers share, Anthropic's and Google's.

Optional parameters that a server does not accept are learnt from its rejections. Readers take a reply as it should be:
whatever else it is, ``client.reading`` makes a bad reply of it.

Of given answers, *the choice* is the written one if the text contains exactly one of them as a whole word, case as
given. *The probabilities* are read at one token: where the written answer begins, or else at the first word, skipping
tokens that all answers share. Every alternative listed there is assigned to the answers it could begin. The masses are
normalised over the answers. There are no probabilities

- if a token that matters could begin several answers (they share their first token);
- if an answer is not listed and could still have more than 1% of the answers' mass; an unlisted answer with a
  smaller bound gets that bound, so each probability is off by at most 1%;
- if the answers together have less than 5% of the mass: the model is not answering there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from goldless.models.catalogue import Service
from goldless.models.http_api.client import AttemptError, bad_reply, part_of
from goldless.models.interface import ChatRequest, Message, Usage, is_log_probability
from goldless.models.thoughts import reply_start, reply_tokens
from goldless.models.usage import UNKNOWN_CHARGE

_FEWER_ALTERNATIVES = {20: 5, 5: 0}  # 20 is the maximum in OpenAI's format
ROOM_FOR_THINKING = 4096  # tokens added to the limit of a model that thinks, where the user gives no number
_MOST_MASS = 1.01  # the probabilities of different tokens at one position sum to at most 1, but for rounding


@dataclass(frozen=True, slots=True)
class Step:
    """One written token with its listed alternatives."""

    token: str
    logprob: float
    alternatives: Mapping[str, float]  # tokens and log-probabilities, including the written one


@dataclass(frozen=True, slots=True)
class Written:
    """The output of a model, in whatever format it was received."""

    text: str
    cut: bool  # whether it ends at the limit of tokens
    steps: Sequence[Step] = ()
    """The written tokens with their alternatives; empty if the server returned no log-probabilities."""

    def without_thoughts(self, *, aloud: bool = False) -> Written:
        """The reply alone, with its own steps; empty and cut if the thoughts have no end.

        ``aloud``: it begins with thoughts that the chat template opens.
        """
        start = reply_start(self.text)
        if aloud and self.cut and start == 0:
            start = None
        text = "" if start is None else self.text[start:]
        tokens = reply_tokens([step.token for step in self.steps], text)
        steps = [replace(self.steps[place], token=token) for place, token in tokens.items()]
        return Written(text, self.cut or start is None, steps)


@dataclass(frozen=True, slots=True)
class ServerParameters:
    """The optional parameters a server accepts, learnt from its rejections, and how the model is to think."""

    limits: tuple[str, ...] = ("max_tokens", "max_completion_tokens")  # names of the token limit; the first is used
    temperature: bool = True
    seed: bool = True
    alternatives: int = 20  # ``top_logprobs`` to request; 0: the server returns no log-probabilities of what it writes
    effort: str = ""  # level of thinking, as the provider names it; empty: its default
    thinking: int | None = None
    """Tokens of thinking allowed beyond those of the reply; None: a default for models that think."""
    seen_thinking: bool = False  # whether a reply was all thinking
    thinks_aloud: bool = False  # whether its texts begin with thoughts that the chat template opens

    @property
    def thinks(self) -> bool:
        """True if the model may think before it writes, within the same limit; so do those with one of these names."""
        named = self.limits[0] in {"max_completion_tokens", "maxOutputTokens"}
        return named or bool(self.effort or self.thinking or self.seen_thinking)

    @property
    def thinking_tokens(self) -> int:
        """Tokens that a call may be charged for beyond its ``max_tokens``."""
        return self.thinking if self.thinking is not None else ROOM_FOR_THINKING * self.thinks

    def after(self, failure: AttemptError) -> ServerParameters | None:
        """Other parameters to try after this rejection, or None if the parameters are not the cause."""
        if failure.status not in {400, 422} or failure.kind == "too_long":
            return None  # a request that is too long is refused with words about max_tokens, whatever it is called
        if len(self.limits) > 1 and failure.names(self.limits[0]):
            return replace(self, limits=self.limits[1:])
        if self.alternatives and any(map(failure.names, ("top_logprobs", "logprobs", "responseLogprobs"))):
            return replace(self, alternatives=_FEWER_ALTERNATIVES[self.alternatives])
        if self.temperature and failure.names("temperature"):
            return replace(self, temperature=False)
        return replace(self, seed=False) if self.seed and failure.names("seed") else None

    def settings(self) -> dict[str, str]:
        """Settings for the identity, because they change what the model writes."""
        found = {
            "temperature": "" if self.temperature else "server default",
            "seed": "" if self.seed else "not taken",
            "effort": self.effort,
            "thinking": "" if self.thinking is None else str(self.thinking),
        }
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """The way chat calls are written and read."""

    route: str  # of a call, ``{model}`` to be filled in
    listing: str  # the route that lists models
    body: Callable[[Service, str, ChatRequest, ServerParameters], dict[str, Any]]
    """The call as JSON, at a provider and for a model."""
    read: Callable[[Any], Written]
    """The contents of a reply. Raises AttemptError for a refusal, anything for a reply that cannot be used."""
    charged: tuple[str, Sequence[str], Sequence[str]]
    """Where a reply counts its tokens, and the names of the counts of input and output."""
    total: Sequence[str] = ()
    """The name of the count of both, which has the thinking that some servers leave out of the output."""
    wording: ServerParameters = ServerParameters()  # the parameters to try first
    headers: Mapping[str, str] = field(default_factory=dict)  # of every request, besides the key

    def usage(self, data: Any) -> Usage:
        """The tokens that a reply says it is charged for, usable or not; none if any is not a number of tokens."""
        place, *kinds = self.charged
        sides = [[part_of(data, place, kind) or 0 for kind in side] for side in (*kinds, self.total)]
        if any(type(count) not in {int, float} or count < 0 or count % 1 for side in sides for count in side):
            return Usage()
        read, written, total = (int(sum(side)) for side in sides)
        return Usage(read, max(written, total - read))


def listed_models(data: Any) -> dict[str, Mapping[str, Any]]:
    """The models in a server's list by name."""
    # Together's list is not inside an object
    rows = data if isinstance(data, list) else part_of(data, "data") or part_of(data, "models") or ()
    named = [(part_of(row, "id") or part_of(row, "name"), row) for row in rows]
    return {name.removeprefix("models/"): row for name, row in named if isinstance(name, str)}


def _sampling(
    request: ChatRequest,
    wording: ServerParameters,
    *,
    seed: str = "seed",
    logprobs: str = "logprobs",
    top: str = "top_logprobs",
) -> dict[str, Any]:
    """Settings for the writing of a reply, with the names that a format has for them."""
    limit = request.max_tokens + wording.thinking_tokens
    if request.choices and not wording.thinks:  # a choice needs no more than its longest answer
        limit = min(request.max_tokens, max(map(len, request.choices)) + 8)
    settings: dict[str, Any] = {wording.limits[0]: limit}
    if wording.temperature:
        settings["temperature"] = request.temperature
    if request.seed is not None and wording.seed:
        settings[seed] = request.seed
    if wording.alternatives and (request.choices or request.logprobs):
        settings[logprobs] = True
        if request.choices:
            settings[top] = wording.alternatives
    return settings


def _split_system(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    system = "\n\n".join(message.content for message in messages if message.role == "system" and message.content)
    return system, [message for message in messages if message.role != "system"]


def _parts_text(parts: Any) -> str:
    if not isinstance(parts, list):
        raise bad_reply("the reply has no list of parts")
    texts = [part_of(part, "text") for part in parts if not part_of(part, "thought")]
    return "".join(text for text in texts if isinstance(text, str))


def _refusal(message: str) -> AttemptError:
    return AttemptError("refused", message, charged=UNKNOWN_CHARGE)


def check_logprobs(values: Iterable[Any]) -> None:
    """Raise AttemptError unless each value can be a log-probability; how small one may be is up to the caller."""
    for value in values:
        if type(value) not in {int, float} or not is_log_probability(value):
            raise bad_reply(f"got {value!r}, which is not a log-probability")


def steps_of(content: Any) -> Sequence[Step]:
    """The steps in an OpenAI ``logprobs.content`` list; empty if malformed. Raises AttemptError if impossible."""
    steps = []
    for entry in content if isinstance(content, list) else ():
        others = part_of(entry, "top_logprobs") or ()
        if not _is_token(entry) or not isinstance(others, list | tuple):
            return ()
        listed = {other["token"]: other["logprob"] for other in (entry, *others) if _is_token(other)}
        check_logprobs((entry["logprob"], *listed.values()))
        mass = sum(map(math.exp, listed.values()))
        if mass > _MOST_MASS:
            raise bad_reply(f"the probabilities of the tokens at one position sum to {mass:.3g}")
        steps.append(Step(entry["token"], float(entry["logprob"]), listed))
    return steps


def _is_token(entry: Any) -> bool:
    return isinstance(part_of(entry, "token"), str) and isinstance(part_of(entry, "logprob"), int | float)


# --- OpenAI ------------------------------------------------------------------------------------------------------


def _openai_body(service: Service, model: str, request: ChatRequest, wording: ServerParameters) -> dict[str, Any]:
    body = {"model": model, "messages": request.messages, **_sampling(request, wording, seed=service.seed)}
    if wording.effort:
        outer, _, inner = service.effort.partition(".")
        body[outer] = {inner: wording.effort} if inner else wording.effort
    return body


def _read_openai(data: Any) -> Written:
    choice = data["choices"][0]
    message, finish = choice["message"], choice.get("finish_reason")
    if message.get("refusal"):
        raise _refusal(f"the model refused: {str(message['refusal'])[:200]}")
    if finish == "content_filter":
        raise _refusal("the server's content filter stopped the reply")
    if finish == "error":
        failed = "the model behind the server failed while writing"
        raise AttemptError("server_error", failed, charged=UNKNOWN_CHARGE)
    cut, text = finish in {"length", "model_length"}, message.get("content")
    if isinstance(text, list):  # Mistral's thinking models write parts
        text = _parts_text(text)
    if not isinstance(text, str):
        if not cut:
            raise bad_reply("the reply has no text")
        text = ""  # everything allowed went into thinking that is not shown
    return Written(text, cut, steps_of(part_of(choice, "logprobs", "content")))


# --- Anthropic: no seed and no log-probabilities; a refusal is a reason to stop ------------------------------------


def _anthropic_body(_: Service, model: str, request: ChatRequest, wording: ServerParameters) -> dict[str, Any]:
    system, turns = _split_system(request.messages)
    if wording.thinking:
        wording = replace(wording, temperature=False)  # which a model that thinks does not take
    body = {"model": model, "messages": turns, **_sampling(request, wording)}
    if system:
        body["system"] = system
    if wording.thinking:
        body["thinking"] = {"type": "enabled", "budget_tokens": wording.thinking}
    if wording.effort:
        body["output_config"] = {"effort": wording.effort}
    return body


def _read_anthropic(data: Any) -> Written:
    reason = data.get("stop_reason")
    if reason == "refusal":
        why = part_of(data, "stop_details", "explanation") or part_of(data, "stop_details", "category")
        raise _refusal(f"the model refused: {str(why)[:200]}" if why else "the model refused")
    return Written(_parts_text(data["content"]), reason in {"max_tokens", "model_context_window_exceeded"})


# --- Google, where a blocked prompt has no candidates --------------------------------------------------------------

_GEMINI_BLOCKED = frozenset(
    {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR"}
)


def _gemini_body(_: Service, __: str, request: ChatRequest, wording: ServerParameters) -> dict[str, Any]:
    system, turns = _split_system(request.messages)
    settings = _sampling(request, wording, logprobs="responseLogprobs", top="logprobs")
    thinking = {"thinkingBudget": wording.thinking, "thinkingLevel": wording.effort or None}
    if any(value is not None for value in thinking.values()):
        settings["thinkingConfig"] = {name: value for name, value in thinking.items() if value is not None}
    roles = {"user": "user", "assistant": "model"}
    contents = [{"role": roles[turn.role], "parts": [{"text": turn.content}]} for turn in turns]
    body = {"contents": contents, "generationConfig": settings}
    return body | ({"systemInstruction": {"parts": [{"text": system}]}} if system else {})


def _read_gemini(data: Any) -> Written:
    if blocked := part_of(data, "promptFeedback", "blockReason"):
        raise _refusal(f"the server's filter blocked the prompt: {blocked}")
    candidate = data["candidates"][0]
    reason = candidate.get("finishReason")
    if reason in _GEMINI_BLOCKED:
        raise _refusal(f"the server's filter stopped the reply: {reason}")
    if reason not in {"STOP", "MAX_TOKENS", None}:
        raise bad_reply(f"the model stopped without a reply: {reason}")

    def token(row: Any) -> dict[str, Any]:
        return {"token": part_of(row, "token"), "logprob": part_of(row, "logProbability")}

    listed = candidate.get("logprobsResult")
    written, tops = part_of(listed, "chosenCandidates") or (), part_of(listed, "topCandidates") or ()
    steps = [
        {**token(one), "top_logprobs": [token(other) for other in part_of(top, "candidates") or ()]}
        for one, top in zip_longest(written, tops)
    ]
    # a reply that is all thinking has no parts
    text = _parts_text(part_of(candidate, "content", "parts") or [])
    return Written(text, reason == "MAX_TOKENS", steps_of(steps))


# a table, laid out by hand
# fmt: off
FORMATS = {
    "openai": WireFormat(
        route="/v1/chat/completions", listing="/v1/models", body=_openai_body, read=_read_openai,
        charged=("usage", ("prompt_tokens",), ("completion_tokens",)), total=("total_tokens",)),
    "anthropic": WireFormat(
        route="/v1/messages", listing="/v1/models?limit=1000", body=_anthropic_body, read=_read_anthropic,
        charged=("usage", ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
                 ("output_tokens",)),
        wording=ServerParameters(limits=("max_tokens",), seed=False, alternatives=0),
        # the last with a temperature; models that do not take one say so, and are asked without
        headers={"anthropic-version": "2023-06-01"}),
    "gemini": WireFormat(
        route="/v1/models/{model}:generateContent", listing="/v1/models?pageSize=1000", body=_gemini_body,
        read=_read_gemini, wording=ServerParameters(limits=("maxOutputTokens",)),
        charged=("usageMetadata", ("promptTokenCount",), ("candidatesTokenCount", "thoughtsTokenCount"))),
}
# fmt: on


# --- choices ---------------------------------------------------------------------------------------------------------

_NEGLIGIBLE = 0.01
_LEAST_MASS = 0.05
_SPACE = " \t\r\n\u2581\u0120"  # the last two stand for a leading space in raw vocabularies


def chosen(written: Written, answers: Sequence[str]) -> tuple[str | None, Mapping[str, float] | None]:
    """The written answer, if there is exactly one, and the log-probability of each answer in nats, if known."""
    text = written.text
    found: dict[str, int] = {}
    if text.strip() in answers:
        found[text.strip()] = text.index(text.strip())
    else:
        longest_first = "|".join(map(re.escape, sorted(answers, key=len, reverse=True)))
        for match in re.finditer(rf"(?<!\w)(?:{longest_first})(?!\w)", text):
            found.setdefault(match.group(), match.start())
    answer, position = next(iter(found.items())) if len(found) == 1 else (None, 0)
    return answer, _probabilities(written.steps, answers, position)


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
