"""Prompts and replies behind the evidence: prompts rebuilt by the code that sent them, replies from the journal.

If something that was shown to the model is not in the run folder, the prompt says so: nothing is guessed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from goldless._version import __version__
from goldless.errors import UserError
from goldless.judging.asking import CHOICE_TOKENS, asked_again
from goldless.judging.critic import find_critic_prompt
from goldless.judging.judges import find_judge
from goldless.judging.licences import prompt_hash
from goldless.models.interface import ChatRequest, Message, ModelIdentity, ScoreRequest
from goldless.models.journal import REPLIES, read_row
from goldless.models.journalled import chat_key
from goldless.models.scripted import ScriptedModel
from goldless.preprocessing import RewritingStage
from goldless.records import CallFailure, Response, Task
from goldless.reports.leaderboard import Leaderboards
from goldless.reports.review import ReviewReport
from goldless.runs.recorded import RECORDED
from goldless.scoring import Question, ScoringStage
from goldless.signature import Signature
from goldless.templates import EXAMPLES, Template

Found = TypeVar("Found")
NO_HASH = "rebuilt from the texts now in the run folder; the run has no hash of the original prompt"
NO_HASH_OF_TEXTS = (
    "the wording is the original; the run has no hash of the texts, so these are the ones now in its folder"
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as sent to a model."""

    messages: tuple[Message, ...]
    """Empty: it cannot be rebuilt, and ``note`` says why."""
    note: str = ""
    """What is unknown about it; empty: it is exactly the original."""
    target: str | None = None
    """The text whose log-probability was requested."""
    requests: tuple[ChatRequest, ...] = ()
    """The calls whose journal key may have the reply; several if the exact one is unknown."""
    restated: str = ""
    """The follow-up message to a model whose reply had no verdict."""
    unproved: bool = False
    """Whether the note only says that the run has no proof; the journal, which keeps whole prompts, may have it."""

    @property
    def exact(self) -> bool:
        """Whether this is the original prompt, word for word."""
        return bool(self.messages) and not self.note

    def proved(self) -> Prompt:
        """The prompt, now that the journal has exactly this one."""
        return replace(self, note="", unproved=False) if self.unproved else self


def words_note(leaderboard: Leaderboards) -> str:
    """A note on goldless's own wording in a run's prompts; empty: the run was made by this version."""
    settings = [Signature.parse(one.signature).settings for one in leaderboard.metrics.values()]
    versions = {one.get("goldless", "") for one in settings}
    if versions == {__version__} and not any(one.get("evidence", "").startswith("recorded") for one in settings):
        return ""
    named = ", ".join(sorted(filter(None, versions - {__version__})))
    made = f"was made with {named}" if named else "does not record its version"
    return f"in the wording of this version of goldless ({__version__}); the run {made}"


# --- log-probabilities -----------------------------------------------------------------------------------------------


class _Listener(ScriptedModel):
    """A scorer that only records its requests."""

    heard: tuple[Message, ...] = ()

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        self.heard = tuple(messages)
        return await super().encode(messages, target)


def logprob_prompt(
    row: Mapping[str, Any], template: Template | None, task: Task, texts: Mapping[str, str], *, words: str = ""
) -> Prompt:
    """The prompt behind a row of the logprobs table; ``texts`` are what was scored, by agent.

    A hash in the row covers the texts but not the template around them; ``words`` says what is unknown about that.
    """
    target = texts.get(row["target"])
    if template is None:
        return Prompt((), _no_template(row.get("template")), target)
    absent = CallFailure("not_recorded", "its text is not in the run folder", attempts=0)
    given: str | None = row.get("given")
    known: dict[str, str | CallFailure] = {
        name: texts.get(name, absent) for name in (row["target"], given) if name is not None
    }
    listener = _Listener(logprobs=lambda _, __: [])
    stage = ScoringStage(listener, template, row.get("rewriter"), row.get("synopsis"))
    question = Question(row["target"], given)
    found = _finished(stage.request(task, question, known))
    if isinstance(found, CallFailure):
        return Prompt((), f"cannot be rebuilt: {found.message}", target)
    return Prompt(listener.heard, _other_texts(row, stage.texts_hash(task, question, known)) or words, target)


def _other_texts(row: Mapping[str, Any], texts_hash: str | None) -> str:
    held = row.get("texts")
    if held is None:
        return "the run does not record which texts were scored; these are the ones now in its folder"
    return "" if held == texts_hash else "the texts in the folder are not the ones that were scored"


def _no_template(name: object) -> str:
    if name in {None, RECORDED}:
        return "the recorded evidence does not include the prompt"
    if EXAMPLES in str(name):
        return (
            f"the template {name} shows worked examples from other tasks before the question; they are not shown here"
        )
    return f"the template {name} is not in the run folder"


# --- rewrites --------------------------------------------------------------------------------------------------------


def rewrite_prompt(row: Mapping[str, Any], template: Template | None, text: str | None, *, words: str = "") -> Prompt:
    """The prompt behind a row of the rewrites table."""
    if template is None:
        return Prompt((), _no_template(row.get("template")))
    if text is None:
        return Prompt((), "the response is not in the run folder")
    listener = ScriptedModel(answers=lambda _: "-")
    _finished(RewritingStage(listener, template).rewrite(Response(row["task"], row["agent"], text)))
    (request,) = listener.calls
    assert isinstance(request, ChatRequest)
    return Prompt(request.messages, words or NO_HASH, requests=(request,), unproved=True)


# --- verdicts of a critic --------------------------------------------------------------------------------------------


def critic_reading(leaderboard: Leaderboards) -> str | None:
    """How the critic's verdicts were read, from the signature; None: recorded ones."""
    for metric in leaderboard.metrics.values():
        settings = Signature.parse(metric.signature).settings
        if "critic" in settings and not settings.get("evidence", "").startswith("recorded"):
            return settings.get("verdicts", "").partition("+")[0] or None
    return None


def verdict_prompt(
    row: Mapping[str, Any], reading: str | None, first: str | None, second: str | None, *, words: str = ""
) -> Prompt:
    """The prompt behind a row of the verdicts table; ``reading`` as in the signature."""
    if first is None or second is None:
        return Prompt((), "a response is not in the run folder")
    try:
        prompt = find_critic_prompt(str(row.get("prompt")))
    except UserError:
        return Prompt((), f"the critic prompt {row.get('prompt')} is not in the run folder")
    chosen = (row.get("read_from") == "probabilities") if reading is None else reading != "labels"
    messages = prompt.messages(first, second, explained=not chosen)
    note = (
        "recorded evidence: the original prompt is unknown; this is the prompt goldless uses"
        if reading is None
        else words or NO_HASH
    )
    if reading == "probabilities-scored":
        return Prompt(messages, note, " | ".join(map(prompt.spoken, prompt.labels)))
    request = ChatRequest(
        messages,
        max_tokens=CHOICE_TOKENS if chosen else prompt.most_tokens,
        choices=tuple(prompt.labels) if chosen else (),
    )
    known = reading is not None
    return Prompt(messages, note, requests=(request,), restated=prompt.restated(), unproved=known)


# --- judgements of a reviewer ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReviewWording:
    """What a review records about its prompts."""

    review: ReviewReport

    def model(self, reviewer: str) -> str | None:
        """The short name of a reviewer's model; None: recorded."""
        return next((row.model for row in self.review.reviewers if row.name == reviewer), None)

    def description(self, reviewer: str) -> str:
        """The task description that a reviewer was given; empty: none is in the folder."""
        settings = self.review.settings
        return settings.descriptions.get(reviewer, settings.task_description)

    def note(self, reviewer: str, scale: str) -> str:
        """What is unknown about a reviewer's prompts; empty: nothing."""
        settings = Signature.parse(self.review.signature).settings
        if not settings or settings.get("evidence", "").startswith("recorded"):
            return "recorded evidence: the original prompt is unknown; this is the prompt goldless uses"
        if "debate" in settings:
            return "this is the prompt that opened a debate; the turns of the debate are not shown"
        worded = prompt_hash(find_judge(scale), self.description(reviewer))[:8]
        if worded not in settings.get("wording", "").split("+"):
            return "the task description is not in the run folder; the rest of the prompt is the original"
        return ""


def judgement_prompt(
    row: Mapping[str, Any], wording: ReviewWording, prompt: str | None, texts: Mapping[str, str]
) -> Prompt:
    """The prompt behind a row of the judgements table; ``texts`` are the responses by agent."""
    first, second = row.get("agent") or row.get("first"), row.get("second")
    shown = texts.get(str(first)), None if second is None else texts.get(second)
    if shown[0] is None or (second is not None and shown[1] is None):
        return Prompt((), "a response is not in the run folder")
    reviewer = str(row["reviewer"])
    try:
        scale = find_judge(str(row["format"]))
        note = wording.note(reviewer, scale.name)
    except UserError as error:
        return Prompt((), str(error))
    reading = wording.review.settings.readings.get(reviewer)
    ways = [True, False] if reading is None and scale.labels else [bool(scale.labels) and reading != "labels"]
    requests = tuple(
        ChatRequest(
            scale.messages(
                shown[0],
                shown[1],
                prompt=prompt,
                task_description=wording.description(reviewer),
                explained=not chosen,
            ),
            max_tokens=CHOICE_TOKENS if chosen else scale.most_tokens,
            choices=scale.labels if chosen else (),
        )
        for chosen in ways
    )
    if reading is None and scale.opening_explained and not note:
        note = "the run folder does not record whether an explanation was requested before the verdict"
    restated = scale.restated()
    return Prompt(
        requests[0].messages, note or NO_HASH_OF_TEXTS, requests=requests, restated=restated, unproved=not note
    )


def _finished(work: Coroutine[Any, Any, Found]) -> Found:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("rebuilding a prompt must not wait for anything")


# --- replies in the journal ------------------------------------------------------------------------------------------

LONGEST_WAIT_SECONDS = 1.0
MOST_FAILURES = 20


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed call that was retried."""

    kind: str
    message: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One call and its outcome."""

    messages: tuple[Message, ...]
    reply: str | None
    """None: not in the journal."""
    finish: str | None
    logprobs: Mapping[str, float]
    """log p of each choice, if the model returned it."""
    failed: tuple[FailedAttempt, ...]


class JournalLookup:
    """A journal opened read-only; without a journal every lookup returns nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def exchange(self, model: str | None, asked: Prompt) -> tuple[Turn, ...]:
        """The calls behind a prompt to a model, given its short name: the first, and the follow-up."""
        if not asked.requests or model is None or not self._path.is_file():
            return ()
        try:
            with closing(self._open()) as journal:
                for identity in _identities(journal, model):
                    for request in asked.requests:
                        found = _turns(journal, identity, request, asked.restated)
                        if found:
                            return found
        except sqlite3.Error:
            return ()
        return ()

    def _open(self) -> sqlite3.Connection:
        address = f"{self._path.resolve().as_uri()}?mode=ro"
        return sqlite3.connect(address, uri=True, timeout=LONGEST_WAIT_SECONDS)


def _identities(journal: sqlite3.Connection, short: str) -> list[ModelIdentity]:
    """The models with that short name in the journal."""
    found = []
    for (text,) in journal.execute("select identity from models"):
        try:
            identity = ModelIdentity(**json.loads(text))
        except (ValueError, TypeError):
            continue
        if identity.short == short:
            found.append(identity)
    return found


def _turns(
    journal: sqlite3.Connection, identity: ModelIdentity, request: ChatRequest, restated: str
) -> tuple[Turn, ...]:
    first = _turn(journal, identity, request)
    if first is None:
        return ()
    if first.reply is None or not restated:
        return (first,)
    again = replace(request, messages=asked_again(request.messages, first.reply, restated))
    second = _turn(journal, identity, again)
    return (first,) if second is None else (first, second)


def _turn(journal: sqlite3.Connection, identity: ModelIdentity, request: ChatRequest) -> Turn | None:
    key = chat_key(identity, request)
    stored = journal.execute(f"{REPLIES} where key = ?", (key,)).fetchone()
    kept = None if stored is None else read_row(stored)  # a damaged reply counts as not there
    failed = journal.execute(
        "select kind, message, attempts from failures where key = ? order by created_at limit ?", (key, MOST_FAILURES)
    ).fetchall()
    if kept is None and not failed:
        return None
    said: Mapping[str, Any] = {} if kept is None else json.loads(kept.reply)
    return Turn(
        messages=request.messages,
        reply=said.get("text"),
        finish=said.get("finish"),
        logprobs=said.get("choice_logprobs") or {},
        failed=tuple(FailedAttempt(*one) for one in failed),
    )
