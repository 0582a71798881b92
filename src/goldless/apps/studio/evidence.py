"""The pages about one task and about one response: the evidence, each piece with its prompt and reply.

Prompts are rebuilt by the code that sent them, replies are from the journal. If something that was shown to the model
is not in the run folder, the prompt says so: nothing is guessed.
"""

from __future__ import annotations

import functools
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from goldless._version import __version__
from goldless.apps.studio.comparison import OUTCOMES, judged_pairs
from goldless.apps.studio.rendering import page_number
from goldless.apps.studio.site import RunTask, Site
from goldless.apps.studio.task_index import Page
from goldless.errors import UserError
from goldless.evidence import TOKENS
from goldless.generation import REWRITE_TOKENS
from goldless.judging.asking import VerdictQuestion, first_request, second_request
from goldless.judging.judges import find_critic_prompt, find_judge
from goldless.models.interface import ChatReply, ChatRequest, Message, ModelIdentity
from goldless.models.journal import REPLIES, opened_to_read, read_row
from goldless.models.journalled import NEUTRAL_MARK, chat_key
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure, Task
from goldless.reports.leaderboard import Leaderboards
from goldless.reports.report_table import decimals_for
from goldless.reports.review import ReviewReport
from goldless.reports.run_folder import RunFolder
from goldless.runs.recorded import RECORDED
from goldless.scoring import Question, ScoringStage
from goldless.templates import EXAMPLES, Template

REBUILT = "rebuilt from the texts in the run folder by this version of goldless; the journal does not have the call"
NOT_HERE = "a response is not in the run folder"
FAILED = "select kind, message, attempts from failures where key = ? order by created_at limit 20"
Row = Mapping[str, Any]
ROWS_A_PAGE = 20
"""Pieces of evidence of one kind per page, each with its prompt."""
MOST_RATINGS = 100


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
        self._leaderboard = run.leaderboard or Leaderboards()
        self._review = run.review or ReviewReport()
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


# --- one response ----------------------------------------------------------------------------------------------------


class EvidenceRow(NamedTuple):
    """A piece of evidence with the prompt behind it."""

    row: Row
    asked: Prompt
    tokens: Sequence[tuple[str | None, float]] = ()


def response_evidence(site: Site, place: RunTask, agent: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The evidence about one response, by kind: the rows of the pages that are asked for, each with its prompt."""
    index, name = place.index, place.name
    task, prompts, responses = index.task(name), Prompts(index.run, site.journal), functools.cache(index.responses)
    texts, pieces = responses(name), functools.cache(site.tokenizers.pieces)  # rows share texts

    def logprob(row: Row) -> EvidenceRow:
        scored = place.scored_texts(row, texts)
        values, target = row.get(TOKENS) or [], scored.get(row["target"])
        words: Sequence[str | None] | None = pieces(str(row.get("scorer")), target) if values and target else None
        if words is None or len(words) != len(values):  # of another tokenizer
            words = [None] * len(values)
        return EvidenceRow(row, prompts.logprob(row, task, scored), list(zip(words, values, strict=True)))

    def verdict(row: Row) -> EvidenceRow:
        second = responses(row["second_task"]).get(row["second"])
        return EvidenceRow(row, prompts.verdict(row, texts.get(row["first"]), second))

    def judgement(row: Row) -> EvidenceRow:
        return EvidenceRow(row, prompts.judgement(row, task.prompt, texts))

    def page(kind: str, found: Any, made: Callable[[Any], Any]) -> Page:
        some = Page.of(found, page_number(given.get(kind)), ROWS_A_PAGE)
        return replace(some, rows=list(map(made, some.rows)))

    first, target, condition = (pl.col(column) == agent for column in ("first", "target", "given"))
    second = (pl.col("second") == agent) & (pl.col("second_task") == name)
    logprobs = index.rows("logprobs", name, about=condition | target, tokens=True)
    if len(logprobs):  # first those of others given it, which make its score
        logprobs = logprobs.sort(condition.fill_null(value=False), descending=True, maintain_order=True)
    judgements = index.rows("judgements", name).to_dicts()
    pairs, reviewer, outcome = judged_pairs(judgements, agent), given.get("reviewer"), given.get("outcome")
    shown = [one for one in pairs if reviewer in {None, "", one.reviewer} and outcome in {None, "", one.outcome}]
    ratings = [row for row in judgements if row.get("second") is None and agent in {row.get("agent"), row.get("first")}]
    rewrites = index.rows("rewrites", name, about=pl.col("agent") == agent).to_dicts()
    return {
        "logprobs": page("logprobs", logprobs, logprob),
        "verdicts": page("verdicts", index.rows("verdicts", name, about=first | second), verdict),
        "judgements": {
            "pairs": page("judgements", shown, lambda pair: (pair, list(map(judgement, pair.rows)))),
            "of": len(pairs),
            "counts": Counter(pair.outcome for pair in pairs),
            "reviewers": sorted({pair.reviewer for pair in pairs}),
            "reviewer": reviewer,
            "outcome": outcome,
            "outcomes": OUTCOMES,
            "ratings": [judgement(row) for row in ratings[:MOST_RATINGS]],
            "all_ratings": len(ratings),
        },
        "rewrites": [EvidenceRow(row, prompts.rewrite(row, texts.get(agent))) for row in rewrites],
    }


def response_page(site: Site, given: Mapping[str, str], run: str, number: int, agent_number: int) -> str:
    """The evidence on one response, by task and agent number: each piece with prompt and reply."""
    place = site.task(run, number)
    index, agent = place.index, place.agent(agent_number)
    return site.page(
        "response.html",
        index,
        place=place,
        agent=agent,
        agent_number=agent_number,
        task=index.task(place.name),
        text=index.responses(place.name).get(agent),
        scores={metric: row for (metric, name), row in index.scores_of(place.name).items() if name == agent},
        perturbed=index.rows("perturbed", place.name, about=pl.col("agent") == agent).to_dicts(),
        whole=bool(given.get("whole")),
        **response_evidence(site, place, agent, given),
    )


# --- one task -------------------------------------------------------------------------------------------------------


def task_page(site: Site, given: Mapping[str, str], run: str, number: int) -> str:
    """One task: its prompt, the agents' responses, and their scores."""
    place = site.task(run, number)
    index, name = place.index, place.name
    responses, scores = index.responses(name), index.scores_of(name)
    failed = index.failures.filter(pl.col("task") == name).group_by("agent").agg(pl.len())
    pairs: dict[str, dict[str, Any]] = {}
    for row in index.rows("pair_scores", name).iter_rows(named=True):
        pairs.setdefault(row["metric"], {"rows": {}})["rows"][row["agent"], row["peer"]] = row
    for one in pairs.values():
        there = {agent for pair in one["rows"] for agent in pair}
        one["agents"] = [agent for agent in index.agents if agent in there]
        one["decimals"] = decimals_for(row["score"] for row in one["rows"].values())
    return site.page(
        "task.html",
        place.index,
        place=place,
        task=index.task(name),
        responses=responses,
        agents=[agent for agent in index.agents if agent in responses or any(agent == a for _, a in scores)],
        scores=scores,
        metrics=[m for m in index.metrics if any(m == metric for metric, _ in scores)],
        rewrites=index.rows("rewrites", name).to_dicts(),
        labels=index.rows("labels", name).to_dicts(),
        failures=dict(failed.iter_rows()),
        pairs=pairs,
        whole=bool(given.get("whole")),
    )
