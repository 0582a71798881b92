"""The wire of a jury: what a request asks, and the reply in the format of OpenAI's chat completions.

A request asks with the question and the answers in its last user message.
Either the message is JSON, or it is laid out like one of the judge prompts in common use, with a mark before each
answer. Answers are hostile and may hold marks themselves. The layout is the one whose mark comes first, so an answer
cannot choose another one; and each of its marks must stand in the message exactly once, so an answer cannot end itself
or begin the other one. A message that could be read in two ways is refused: it is never guessed at.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from goldless.errors import UserError
from goldless.jury.panel import JuryVerdict, Vote
from goldless.models.interface import Usage

MODEL = "goldless-jury"
"""The one model of a jury's server."""
Json = dict[str, Any]
JSON_FORM = '{"question": "…", "answers": ["…", "…"]}'
ACCEPTED = (
    f"The last user message is JSON, {JSON_FORM}, or a judge prompt with two marked answers: "
    "[The Start of Assistant A's Answer] … [The End of Assistant A's Answer] and the same for B; "
    "<|The Start of Assistant A's Answer|> … <|The End of Assistant A's Answer|> and the same for B; "
    "or [Response A] and [Response B] as lines of their own. The question stands before, after [User Question], "
    "[Question] or [Task Description] (<|User Prompt|> in the second)."
)


class RequestError(UserError):
    """A request that is not answered: the status, and what OpenAI's error format says of it."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        """Keep what the reply needs."""
        self.status = status
        self.param = param
        """The field of the request that is wrong."""
        self.code = code
        super().__init__(message)


# --- what is asked ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """What a jury is to decide, and how it is to say so."""

    question: str | None
    answers: tuple[str, ...]
    verdicts: tuple[str, str, str] | None = None
    """Wording for the first, the second, and a tie; None: JSON."""

    def worded(self, verdict: JuryVerdict) -> str:
        """The verdict in the form that was asked for."""
        if self.verdicts is not None:
            return self.verdicts[2 if verdict.winner is None else verdict.winner]
        said = {"winner": verdict.winner, "tie": verdict.winner is None, "shares": verdict.shares}
        return orjson.dumps(said).decode()


@dataclass(frozen=True, slots=True)
class Layout:
    """A judge prompt with two marked answers. Marks are regular expressions, ``@`` in them stands for A or B."""

    question: str
    start: str
    end: str
    ends_needed: bool
    """False: without both end marks, A ends where B begins, and B ends with the message."""
    verdicts: tuple[str, str, str]

    def begins(self, text: str) -> int | None:
        """Where the first mark of an answer stands; None: nowhere."""
        found = re.search(self.start.replace("@", "[AB]"), text, re.MULTILINE)
        return None if found is None else found.start()

    def read(self, text: str) -> Case:
        """The question and both answers. Raises RequestError where the marks do not say which is which."""
        starts, ends = ([_places(mark.replace("@", name), text) for name in "AB"] for mark in (self.start, self.end))
        marked = self.ends_needed or any(ends)
        places = [starts[0], ends[0], starts[1], ends[1]] if marked else starts
        if any(len(found) != 1 for found in places):
            raise _ambiguous("each mark of an answer must stand in the message exactly once")
        spans = [found[0] for found in places]
        if any(before[1] > after[0] for before, after in itertools.pairwise(spans)):
            raise _ambiguous("the marks must come in order: the answer of A from start to end, then that of B")
        first, second = text[spans[0][1] : spans[1][0]], text[spans[-2][1] : spans[-1][0]]
        if not marked:
            second = text[spans[1][1] :]
            if re.search(r"\[\[|\[(?:End of )?Response [AB]\]", second):
                raise _ambiguous("what follows [Response B] speaks of verdicts or responses; mark the answers' ends")
        question = self._question(text[: spans[0][0]])
        return Case(question, (first.strip(), second.strip()), self.verdicts)

    def _question(self, before: str) -> str | None:
        """What stands between the question's mark and the first answer; None where nothing stands there."""
        if "The Start of Reference Answer" in before:
            raise RequestError("the jury compares without a reference answer; leave it out", param="messages")
        marks = _places(self.question, before)
        if not marks and not before.strip():
            return None
        if len(marks) != 1:
            raise _ambiguous("what stands before the answers must hold one mark of the question")
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


def read_case(messages: Any) -> Case:
    """What the last user message asks. Raises RequestError with what is accepted."""
    text = _last_user_text(messages)
    if text.lstrip().startswith("{"):
        return _read_json(text)
    begun = [(place, layout) for layout in LAYOUTS if (place := layout.begins(text)) is not None]
    if not begun:
        raise RequestError(f"the message holds no answers to compare. {ACCEPTED}", param="messages")
    return min(begun, key=lambda found: found[0])[1].read(text)


def _read_json(text: str) -> Case:
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        said = f"the message begins like JSON and is none ({error}). {ACCEPTED}"
        raise RequestError(said, param="messages") from None
    unknown = sorted(set(data) - {"question", "answers"})
    question, answers = data.get("question"), data.get("answers")
    if unknown:
        raise RequestError(f"the JSON holds {', '.join(unknown)}; it is {JSON_FORM}", param="messages")
    if not (question is None or isinstance(question, str)):
        raise RequestError('"question" is a text, or null', param="messages")
    if not isinstance(answers, list) or len(answers) < 2 or not all(isinstance(answer, str) for answer in answers):
        raise RequestError(f'"answers" is a list of at least two texts: {JSON_FORM}', param="messages")
    return Case(question, tuple(answers))


def _last_user_text(messages: Any) -> str:
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise RequestError(f'"messages" is a list of messages. {ACCEPTED}', param="messages")
    said = [message.get("content") for message in messages if message.get("role") == "user"]
    if not said:
        raise RequestError(f"there is no user message. {ACCEPTED}", param="messages")
    content = said[-1]
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [_part_text(part) for part in parts]
    if not texts:
        raise RequestError("a message's content is a text, or a list of text parts", param="messages")
    return "".join(texts)


def _part_text(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise RequestError("the jury reads text only: a content part is of type text", param="messages")
    return text


def _places(mark: str, text: str) -> Sequence[tuple[int, int]]:
    return [found.span() for found in re.finditer(mark, text, re.MULTILINE)]


def _ambiguous(why: str) -> RequestError:
    return RequestError(
        f"{why}. If an answer holds such a mark itself, send JSON: {JSON_FORM}",
        param="messages",
        code="ambiguous_layout",
    )


# --- what is replied ----------------------------------------------------------------------------------------------


def error_body(message: str, *, status: int, param: str | None = None, code: str | None = None) -> Json:
    """An error as OpenAI words it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    if status == 429:
        kind = "rate_limit_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def model_entry() -> Json:
    """The jury as one of ``/v1/models``."""
    return {"id": MODEL, "object": "model", "created": 0, "owned_by": "goldless"}


def completion(verdict: JuryVerdict, content: str) -> Json:
    """A chat completion: the verdict's wording, the tokens charged, and the votes under ``goldless``."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, "refusal": None},
        "logprobs": None,
        "finish_reason": "stop",
    }
    return {
        **_head("chat.completion"),
        "choices": [choice],
        "usage": _usage(verdict.usage),
        "goldless": vote_record(verdict),
    }


def chunks(verdict: JuryVerdict, content: str, *, with_usage: bool) -> Iterator[Json]:
    """The same completion as the events of a stream: the content, its end with the votes, the usage where asked."""
    head = _head("chat.completion.chunk")
    usage: Json = {"usage": None} if with_usage else {}
    said = {"index": 0, "delta": {"role": "assistant", "content": content}, "logprobs": None, "finish_reason": None}
    ended = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    yield {**head, "choices": [said], **usage}
    yield {**head, "choices": [ended], **usage, "goldless": vote_record(verdict)}
    if with_usage:
        yield {**head, "choices": [], "usage": _usage(verdict.usage)}


def vote_record(verdict: JuryVerdict) -> Json:
    """Everything behind a verdict, as plain data."""
    return {
        "winner": verdict.winner,
        "shares": list(verdict.shares),
        "asked": len(verdict.votes),
        "used": verdict.used,
        "missing": verdict.missing,
        "absent": list(verdict.absent),
        "votes": votes_data(verdict.votes),
    }


def votes_data(votes: tuple[Vote, ...]) -> list[Json]:
    """The votes as plain data."""
    return [asdict(vote) for vote in votes]


def _head(kind: str) -> Json:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": MODEL}


def _usage(usage: Usage) -> Json:
    total = usage.input_tokens + usage.output_tokens
    return {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, "total_tokens": total}
