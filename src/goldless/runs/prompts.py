"""The prompts behind the evidence of a run, rebuilt by the code that sent them; replies are from the journal.

If something that was shown to the model is not in the run folder, the prompt says so: nothing is guessed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goldless._version import __version__
from goldless.errors import UserError
from goldless.generation import REWRITE_TOKENS
from goldless.judging.asking import VerdictQuestion, first_request, second_request
from goldless.judging.judges import find_critic_prompt, find_judge
from goldless.models.interface import ChatReply, ChatRequest, Message, ModelIdentity
from goldless.models.journal import REPLIES, opened_to_read, read_row
from goldless.models.journalled import NEUTRAL_MARK, chat_key
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure, Task
from goldless.reports.run_folder import RunFolder
from goldless.runs.recorded import RECORDED
from goldless.scoring import Question, ScoringStage
from goldless.templates import EXAMPLES, Template

REBUILT = "rebuilt from the texts in the run folder by this version of goldless; the journal does not have the call"
NOT_HERE = "a response is not in the run folder"
FAILED = "select kind, message, attempts from failures where key = ? order by created_at limit 20"
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One call and its outcome."""

    messages: tuple[Message, ...]
    reply: str | None
    """None: not in the journal."""
    finish: str | None
    logprobs: Mapping[str, float]
    """log p of each choice, if the model returned it."""
    failed: tuple[tuple[str, str, int], ...]
    """Kind, message and attempts of calls that failed before."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as sent to a model, and what the journal has of it."""

    messages: tuple[Message, ...]
    """Empty: it cannot be rebuilt, and ``note`` says why."""
    note: str = ""
    """A note on what is unknown about it; empty: it is exactly the original."""
    target: str | None = None
    """The text whose log-probability was requested."""
    turns: tuple[Turn, ...] = ()
    """The first call and the follow-up, as far as the journal has them."""


class Prompts:
    """The prompts of one run, rebuilt from its settings and texts; the journal is only read."""

    def __init__(self, run: RunFolder, journal: Path) -> None:
        self._leaderboard = run.leaderboard_or_empty
        self._review = run.review_or_empty
        self._journal = journal

    def _template(self, row: Row) -> Template | str:
        name = row.get("template")
        found = self._leaderboard.template(name, "the run folder")
        if found is not None:
            return found
        if name in {None, RECORDED}:
            return "the recorded evidence does not include the prompt"
        if EXAMPLES in str(name):
            return f"the template {name} shows worked examples from other tasks first; they are not shown here"
        return f"the template {name} is not in the run folder"

    def logprob(self, row: Row, task: Task, texts: Mapping[str, str]) -> Prompt:
        """The prompt behind a row of the logprobs table; ``texts`` are what was scored, by agent.

        A hash in the row covers the texts but not the template around them.
        """
        target, template = texts.get(row["target"]), self._template(row)
        if isinstance(template, str):
            return Prompt((), template, target)
        absent = CallFailure("not_recorded", "its text is not in the run folder", attempts=0)
        question = Question(row["target"], row.get("given"))
        known: dict[str, str | CallFailure] = {
            name: texts.get(name, absent) for name in (question.target, question.given) if name is not None
        }
        stage = ScoringStage(ScriptedModel(), template, row.get("rewriter"), row.get("synopsis"))
        asked = stage.asked(task, question, known)
        if isinstance(asked, CallFailure):
            return Prompt((), f"cannot be rebuilt: {asked.message}", target)
        versions = {metric.settings.get("goldless", "unknown") for metric in self._leaderboard.metrics.values()}
        note = ""
        if row.get("texts") is None:
            note = "the run does not record which texts were scored; these are the ones now in its folder"
        elif row["texts"] != stage.texts_hash(task, question, known):
            note = "the texts in the folder are not the ones that were scored"
        elif versions != {__version__}:
            made = ", ".join(sorted(versions - {__version__}))
            note = f"in the wording of this version of goldless ({__version__}); the run was made with {made}"
        return Prompt(asked[0], note, target)

    def rewrite(self, row: Row, text: str | None) -> Prompt:
        template = self._template(row)
        if isinstance(template, str) or text is None:
            return Prompt((), template if isinstance(template, str) else NOT_HERE)
        request = ChatRequest((Message("system", template.rewrite), Message("user", text)), max_tokens=REWRITE_TOKENS)
        return self._looked_up([request], row.get("rewriter"))

    def verdict(self, row: Row, first: str | None, second: str | None) -> Prompt:
        if first is None or second is None:
            return Prompt((), NOT_HERE)
        try:
            prompt = find_critic_prompt(str(row.get("prompt")))
        except UserError:
            return Prompt((), f"the critic prompt {row.get('prompt')} is not in the run folder")
        question = VerdictQuestion(scale=prompt, first=first, second=second)
        requests = _requests(question, written=row.get("read_from") == "label")
        return self._looked_up(requests, row.get("critic"), question)

    def judgement(self, row: Row, prompt: str | None, texts: Mapping[str, str]) -> Prompt:
        """The prompt behind a row of the judgements table; ``texts`` are the responses by agent."""
        first = texts.get(str(row.get("agent") or row.get("first")))
        second = None if row.get("second") is None else texts.get(row["second"])
        if first is None or (row.get("second") is not None and second is None):
            return Prompt((), NOT_HERE)
        reviewer, settings = str(row["reviewer"]), self._review.instructions
        try:
            scale = find_judge(str(row["format"]))
        except UserError as error:
            return Prompt((), str(error))
        description = settings.descriptions.get(reviewer, settings.task_description)
        question = VerdictQuestion(scale=scale, first=first, second=second, prompt=prompt, description=description)
        requests = _requests(question, written=settings.readings.get(reviewer) == "labels")
        model = next((one.model for one in self._review.reviewers if one.name == reviewer), None)
        found = self._looked_up(requests, model, question)
        if "debate" in self._review.settings:
            return replace(found, note="this prompt opened a debate, whose turns are not shown")
        return found

    def _looked_up(
        self, requests: Sequence[ChatRequest], model: str | None, question: VerdictQuestion | None = None
    ) -> Prompt:
        """Return the request that the journal has of a model of that short name, with its calls.

        Without one: the first request, with a note. ``question``: after a reply without a verdict it was asked again.
        """
        if model is not None and self._journal.is_file():
            try:
                with opened_to_read(self._journal) as journal:
                    for (identity,) in journal.execute("select identity from models").fetchall():
                        identity_of_model = ModelIdentity(**json.loads(identity))
                        for request in requests if identity_of_model.short == model else ():
                            if turns := _turns(journal, identity_of_model, request, question):
                                return Prompt(turns[0].messages, turns=turns)
            except (UserError, sqlite3.Error, ValueError, TypeError):  # a damaged journal has nothing to show
                pass
        return Prompt(requests[0].messages, REBUILT)


def _requests(question: VerdictQuestion, *, written: bool) -> list[ChatRequest]:
    """Return the two ways to ask for a verdict, as one of the labels or ``written``; the likelier one first."""
    requests = []
    for chosen in (not written, written) if question.scale.labels else (False,):
        mark = NEUTRAL_MARK if question.asks_for_mark(explained=not chosen) else ""
        requests.append(first_request(question, chosen=chosen, mark=mark))
    return requests


def _turns(
    journal: sqlite3.Connection, identity: ModelIdentity, request: ChatRequest, question: VerdictQuestion | None
) -> tuple[Turn, ...]:
    """Return the call, if the journal has it, and the follow-up to its reply."""
    key = chat_key(identity, request)
    row = journal.execute(f"{REPLIES} where key = ?", (key,)).fetchone()
    stored = None if row is None else read_row(row)  # a damaged reply counts as not there
    failures = journal.execute(FAILED, (key,)).fetchall()
    if stored is None and not failures:
        return ()
    reply = None if stored is None else stored.reply
    if not isinstance(reply, ChatReply):
        return (Turn(request.messages, None, None, {}, tuple(failures)),)
    messages = request.messages
    if reply.mark:
        messages = tuple(replace(turn, content=turn.content.replace(NEUTRAL_MARK, reply.mark)) for turn in messages)
    turn = Turn(messages, reply.text, reply.finish, reply.choice_logprobs or {}, tuple(failures))
    if question is None:
        return (turn,)
    follow_up = second_request(question, reply.text, chosen=bool(request.choices), mark=NEUTRAL_MARK)
    return (turn, *_turns(journal, identity, follow_up, None))
