"""A model with scripted replies and log-probabilities: for tests, examples and recorded runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from goldless.errors import CapabilityError, UserError
from goldless.models.interface import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Deliver,
    Message,
    ModelIdentity,
    ScoreReply,
    ScoreRequest,
    TokenLogprobs,
    Usage,
    content_hash,
)
from goldless.records import CallFailure

Answers = Mapping[str, str] | Callable[[ChatRequest], str | ChatReply | CallFailure]
Tokens = Mapping[str, Sequence[str]] | Callable[[str], Sequence[str]]
Logprobs = Mapping[tuple[str, str], Sequence[float]] | Callable[[str, str], Sequence[float] | CallFailure]


class ScriptedModel:
    """A scorer and chat model that follows a script.

    ``answers`` maps the last message to a reply, or is a function of the request. ``logprobs`` maps (context, target)
    to log-probabilities in nats, or is a function of the two; the context is the messages' contents joined by blank
    lines. ``tokens`` maps a target to the texts of its tokens, or is a function of it. Anything not in the script is a
    failed call, as with any other model. ``context_length`` is the limit in words that it reports but does not enforce.
    """

    positions = "target"

    def __init__(
        self,
        *,
        answers: Answers | None = None,
        logprobs: Logprobs | None = None,
        tokens: Tokens | None = None,
        name: str = "scripted",
        context_length: int | None = None,
    ) -> None:
        self._answers = answers
        self._logprobs = logprobs
        self._tokens = tokens
        self._name = name
        self._context_length = context_length
        self.calls: list[ChatRequest | ScoreRequest] = []  # every request that reached the model, in order

    @classmethod
    def from_file(cls, path: Path | str) -> ScriptedModel:
        """Read JSON lines ``{"prompt", "answer"}`` and ``{"context", "target", "logprobs"[, "tokens"]}``."""
        answers: dict[str, str] = {}
        tokens: dict[str, Sequence[str]] = {}
        logprobs: dict[tuple[str, str], Sequence[float]] = {}
        problems = ["a script must have lines {prompt, answer} and {context, target, logprobs[, tokens]}:"]
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: cannot read this script ({error})") from error
        # not splitlines(): a text may hold characters that it takes for the end of a line
        for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
            try:
                row = json.loads(line)
                columns = ("prompt", "answer") if "prompt" in row else ("context", "target")
                texts = [row[column] for column in columns] + row.get("tokens", [])
                if not all(isinstance(one, str) for one in texts):
                    raise TypeError(f"{', '.join(columns)} and tokens must be texts, got {texts!r}")  # noqa: TRY301
                if "prompt" in row:
                    answers[row["prompt"]] = row["answer"]
                else:
                    logprobs[row["context"], row["target"]] = [float(value) for value in row["logprobs"]]
                    if "tokens" in row:
                        tokens[row["target"]] = row["tokens"]
            except KeyError as error:
                problems.append(f"  {path}:{number}: missing {error}")
            except (ValueError, TypeError, RecursionError) as error:
                problems.append(f"  {path}:{number}: {error}")
        if len(problems) > 1:
            raise UserError("\n".join(problems))
        name = content_hash(text)[:8]
        return cls(answers=answers or None, logprobs=logprobs or None, tokens=tokens or None, name=name)

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("scripted", self._name)

    @property
    def capabilities(self) -> Capabilities:
        chat = self._answers is not None
        return Capabilities(scoring=self._logprobs is not None, chat=chat, choice=chat)

    @property
    def context_length(self) -> int | None:
        return self._context_length

    async def prepare(self) -> None: ...
    async def aclose(self) -> None: ...

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        return ScoreRequest("\n\n".join(message.content for message in messages), target)

    async def pieces(self, request: ScoreRequest) -> tuple[str, ...] | None:
        if self._tokens is None:
            return None
        target = str(request.target)
        found = self._tokens(target) if callable(self._tokens) else self._tokens.get(target)
        return None if found is None else tuple(found)

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        known = self._logprobs
        if known is None:
            raise CapabilityError("this scripted model has no log-probabilities")
        for i, request in enumerate(requests):
            self.calls.append(request)
            context, target = str(request.context), str(request.target)
            values = known(context, target) if callable(known) else known.get((context, target))
            reply: ScoreReply
            if values is None:
                missing = f"the script has no log-probabilities of {target[:60]!r} in this context"
                reply = CallFailure("rejected", missing)
            elif isinstance(values, CallFailure):
                reply = values
            else:
                reply = TokenLogprobs(tuple(map(float, values)), Usage(len(context.split()) + len(values)))
            deliver({i: reply})

    async def count_tokens(self, messages: Sequence[Message]) -> int | None:
        """The number of words in the messages' contents."""
        return sum(len(message.content.split()) for message in messages)

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        self.calls.append(request)
        if self._answers is None:
            raise CapabilityError("this scripted model has no answers")
        prompt = request.messages[-1].content
        answer = self._answers(request) if callable(self._answers) else self._answers.get(prompt)
        if answer is None:
            return CallFailure("rejected", f"the script has no answer to {prompt[:60]!r}")
        if isinstance(answer, str):
            chosen = answer in request.choices
            return ChatReply(answer, "choice" if chosen else "stop", usage=Usage(len(prompt.split()), 1))
        return answer
