"""The jury's wire format: requests and replies in the format of OpenAI's chat completions.

The last user message of a request has the question and the answers. It is JSON, or laid out like one of the common
judge prompts, with a marker before each answer. Answers are untrusted and may contain markers themselves. The layout
is the one whose marker comes first, so an answer cannot choose another one; and each of its markers must be in the
message exactly once, so an answer cannot end itself or begin the other one. An ambiguous message is rejected, never
guessed.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from goldless.apps.jury.panel import Jury, JuryVerdict, JuryWorth
from goldless.errors import UserError
from goldless.evidence import JudgementEvidence

MODEL = "goldless-jury"
"""The only model of a jury's server."""
Json = dict[str, Any]
JSON_FORM = '{"question": "…", "answers": ["…", "…"]}'
ACCEPTED = (
    f"The last user message must be JSON, {JSON_FORM}, or a judge prompt with two marked answers: [The Start of "
    "Assistant A's Answer] … [The End of Assistant A's Answer] and the same for B; <|The Start of Assistant A's "
    "Answer|> … <|The End of Assistant A's Answer|> and the same for B; or [Response A] and [Response B] on "
    "separate lines. The question comes first, after [User Question], [Question] or [Task Description] (<|User "
    "Prompt|> in the second)"
)


class RequestError(UserError):
    """A rejected request: the status, and the fields of OpenAI's error format."""

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None, **more: Any
    ) -> None:
        """``param``: the invalid field of the request; ``more``: further keys of the reply."""
        self.status, self.param, self.code, self.more = status, param, code, more
        super().__init__(message)


# --- what is asked ------------------------------------------------------------------------------------------------


class Body(BaseModel):
    """A JSON object that a client sends."""

    model_config = ConfigDict(strict=True, frozen=True)


class Case(Body):
    """A question and answers to it."""

    model_config = ConfigDict(extra="forbid")

    question: str | None = None
    answers: Annotated[list[str], Field(min_length=2)]


def _left_out(value: Any) -> Any:
    if value:
        raise ValueError("this is not supported. Leave it out")
    return value


Unsupported = Annotated[Any, AfterValidator(_left_out)]
"""An option that would change the shape of the reply; sampling parameters are ignored."""


class ChatBody(Body):
    """A request for a chat completion."""

    messages: list[dict[str, Any]]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    n: Literal[1] | None = None
    tools: Unsupported = None
    functions: Unsupported = None
    logprobs: Unsupported = None
    audio: Unsupported = None
    modalities: Unsupported = None

    @property
    def user_text(self) -> str:
        said = [message.get("content") for message in self.messages if message.get("role") == "user"]
        content = said[-1] if said else None
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [
            part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
            for part in (parts if isinstance(parts, list) else [])
        ]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise RequestError(f"the last user message must have text, and text only. {ACCEPTED}", param="messages")
        return "".join(map(str, texts))


Form = TypeVar("Form", bound=BaseModel)
Verdicts = tuple[str, str, str]
"""Text for the first, the second, and a tie."""


def read_body(form: type[Form], body: bytes | str, *, accepted: str, param: str | None = None) -> Form:
    """The JSON text as such an object. Raises RequestError with all that is wrong and what is accepted."""
    try:
        return form.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False)
        wrong = [f"{'.'.join(map(str, each['loc'])) or 'the text'}: {each['msg']}" for each in found]
        name = param or (str(found[0]["loc"][0]) if found[0]["loc"] else None)
        code = "unsupported_parameter" if found[0]["type"] in {"value_error", "literal_error"} else None
        raise RequestError(f"{'; '.join(wrong[:5])}. {accepted}", param=name, code=code) from None


@dataclass(frozen=True)
class Layout:
    """A judge prompt with two marked answers. Markers are regular expressions in which ``@`` means A or B."""

    question: str
    start: str
    end: str
    ends_needed: bool
    """False: without both end markers, A ends where B begins, and B ends with the message."""
    verdicts: Verdicts

    def read(self, text: str) -> Case:
        """The question and both answers. Raises RequestError if the markers are ambiguous."""
        starts, ends = ([_places(mark.replace("@", name), text) for name in "AB"] for mark in (self.start, self.end))
        marked = self.ends_needed or any(ends)
        places = [starts[0], ends[0], starts[1], ends[1]] if marked else [*starts, [(len(text), len(text))]]
        if any(len(found) != 1 for found in places):
            raise _ambiguous("each answer marker must be in the message exactly once")
        spans = [found[0] for found in places]
        if any(before[1] > after[0] for before, after in itertools.pairwise(spans)):
            raise _ambiguous("the markers must be in order: answer A from start to end, then answer B")
        first, second = text[spans[0][1] : spans[1][0]], text[spans[-2][1] : spans[-1][0]]
        if not marked and re.search(r"\[\[|\[(?:End of )?Response [AB]\]", second):
            raise _ambiguous("the text after [Response B] mentions verdicts or responses. Mark the ends of the answers")
        question = self._question(text[: spans[0][0]])
        return Case(question=question, answers=[first.strip(), second.strip()])

    def _question(self, before: str) -> str | None:
        """The text between the question's marker and the first answer; None if there is none."""
        if "The Start of Reference Answer" in before:
            raise RequestError("the jury compares without a reference answer. Leave it out", param="messages")
        marks = _places(self.question, before)
        if not marks and not before.strip():
            return None
        if len(marks) != 1:
            raise _ambiguous("the text before the answers must have exactly one question marker")
        return before[marks[0][1] :].strip() or None


_APOSTROPHE = "['\u2019]"
_SQUARE_QUESTION = r"\[(?:User Question|Question|Task Description)\]"

LAYOUTS = (
    Layout(
        question=_SQUARE_QUESTION,
        start=rf"\[The Start of Assistant @{_APOSTROPHE}s Answer\]",
        end=rf"\[The End of Assistant @{_APOSTROPHE}s Answer\]",
        ends_needed=True,
        verdicts=("[[A]]", "[[B]]", "[[C]]"),
    ),
    Layout(
        question=r"<\|User Prompt\|>",
        start=rf"<\|The Start of Assistant @{_APOSTROPHE}s Answer\|>",
        end=rf"<\|The End of Assistant @{_APOSTROPHE}s Answer\|>",
        ends_needed=True,
        verdicts=("[[A>B]]", "[[B>A]]", "[[A=B]]"),
    ),
    Layout(
        question=_SQUARE_QUESTION,
        start=r"^\[Response @\][^\S\n]*$",
        end=r"^\[End of Response @\][^\S\n]*$",
        ends_needed=False,
        verdicts=("[[A]]", "[[B]]", "[[C]]"),
    ),
)


def read_case(body: ChatBody) -> tuple[Case, Verdicts | None]:
    """The case in the last user message, and its wording of the verdict; None: JSON. Raises RequestError."""
    text, form = body.user_text, (body.response_format or {"type": "text"}).get("type")
    is_json = text.lstrip().startswith("{")
    if form != "text" and not (form == "json_object" and is_json):
        raise RequestError(
            "unsupported response_format. Use json_object for a case sent as JSON, or leave it out for a verdict such "
            "as [[A]]",
            param="response_format",
        )
    if is_json:
        return read_body(Case, text, accepted=ACCEPTED, param="messages"), None
    begun = [(places[0], one) for one in LAYOUTS if (places := _places(one.start.replace("@", "[AB]"), text))]
    if not begun:
        raise RequestError(f"the message has no answers to compare. {ACCEPTED}", param="messages")
    _, layout = min(begun, key=lambda found: found[0])
    return layout.read(text), layout.verdicts


def _places(mark: str, text: str) -> Sequence[tuple[int, int]]:
    return [found.span() for found in re.finditer(mark, text, re.MULTILINE)]


def _ambiguous(why: str) -> RequestError:
    return RequestError(
        f"{why}. If an answer itself contains such a marker, send JSON: {JSON_FORM}",
        param="messages",
        code="ambiguous_layout",
    )


# --- what is replied ----------------------------------------------------------------------------------------------


def error_body(error: RequestError, request_id: str) -> Json:
    """An error in OpenAI's format, with the id by which the server's log names the request."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    kind = "rate_limit_error" if error.status == 429 else kind
    said = {"message": str(error), "type": kind, "param": error.param, "code": error.code, "request_id": request_id}
    return {"error": said, **error.more}


def model_entry(worth: JuryWorth) -> Json:
    """The jury as an entry of ``/v1/models``, with what it is worth under ``goldless``."""
    return {"id": MODEL, "object": "model", "created": 0, "owned_by": "goldless", "goldless": asdict(worth)}


def completion(verdict: JuryVerdict, jury: Jury, verdicts: Verdicts | None) -> Json:
    """A chat completion: the verdict in these words, the tokens charged, and the votes under ``goldless``."""
    winner, votes = verdict.winner, votes_data(verdict.votes, jury)
    if verdicts is None:
        content = orjson.dumps({"winner": winner, "tie": winner is None, "shares": verdict.shares}).decode()
    else:
        content = verdicts[2 if winner is None else winner]
    used = sum(vote["value"] is not None for vote in votes)
    read, written = verdict.usage.input_tokens, verdict.usage.output_tokens
    record = {
        "winner": winner,
        "shares": verdict.shares,
        "asked": len(votes),
        "used": used,
        "missing": len(votes) - used,
        "absent": verdict.absent,
        "panel": asdict(jury.worth),
        "votes": votes,
    }
    message = {"role": "assistant", "content": content, "refusal": None}
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL,
        "choices": [{"index": 0, "logprobs": None, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
        "goldless": record,
    }


def chunks(whole: Json, *, with_usage: bool) -> Iterator[Json]:
    """A completion as stream events: the content, its end with the votes, and the usage if requested."""
    choice = {**whole["choices"][0], "finish_reason": None}
    said = {"role": "assistant", "content": choice.pop("message")["content"]}
    event = {**whole, "object": "chat.completion.chunk"}
    usage, votes = event.pop("usage"), event.pop("goldless")
    event |= {"usage": None} if with_usage else {}
    yield {**event, "choices": [{**choice, "delta": said}]}
    yield {**event, "choices": [{**choice, "delta": {}, "finish_reason": "stop"}], "goldless": votes}
    if with_usage:
        yield {**event, "choices": [], "usage": usage}


def votes_data(votes: Iterable[JudgementEvidence], jury: Jury) -> list[Json]:
    """The votes as plain data, with the jurors' weights."""
    weights = {juror.name: juror.weight for juror in jury.jurors}
    return [
        {
            "juror": vote.reviewer,
            "scale": vote.scale,
            "weight": weights[vote.reviewer],
            "first": int(vote.first),
            "second": None if vote.second is None else int(vote.second),
            "value": vote.value,
            "output": vote.output,
            "failure": vote.failure and {name: getattr(vote.failure, name) for name in ("kind", "message", "attempts")},
        }
        for vote in votes
    ]
