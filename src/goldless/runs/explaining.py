"""Explaining: the information map of one pair of responses, scored in one batch."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from goldless.errors import CallError, CapabilityError, MetricError, TextTooLongError, UserError, nearest
from goldless.metrics.information_map import InformationMap, make_information_map
from goldless.models.canaries import CanaryReport, check_scorer
from goldless.models.interface import Message, Scorer, ScoreReply, ScoreRequest, TokenLogprobs
from goldless.models.journalled import JournalledModel
from goldless.records import CallFailure
from goldless.runs.opening import SCORERS, OpenModel, Part, open_journal, open_models, training_notes
from goldless.runs.options import CALLING, Options
from goldless.sentences import Sentence, split_sentences
from goldless.signature import Signature
from goldless.studies import Study
from goldless.templates import Template, find_template

TextKind = Literal["responses", "rewrites"]
NORMAL_FORMS: tuple[Literal["NFC", "NFKC"], ...] = ("NFC", "NFKC")
"""Normal forms that some tokenizers apply to a text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainOptions:
    """Which pair to explain, and how."""

    task: str
    agent: str
    """The agent whose response is given (x)."""
    peer: str
    """The agent whose response is predicted (y)."""
    scorer: str | Scorer = "embedded"
    template: str = "general"
    synopsis: str | None = None
    """A text of the task to condition both terms on, as in ``gem-s[…]``: ``abstract`` for the column
    ``synopsis_abstract``, ``prompt``, or any other text column."""
    text: TextKind = "responses"
    """``rewrites``: use the study's rewrites instead of the responses."""
    journal: Path | None = None
    timeout_seconds: float | None = None
    max_retries: int | None = None
    max_in_flight: int | None = None
    say: Callable[[str], None] = field(default=lambda _: None)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The two texts and what both are conditioned on."""

    candidate: str
    peer: str
    rewriter: str | None
    synopsis: str | None
    template: Template


async def explain_pair(study: Study, options: ExplainOptions) -> InformationMap:
    """The information map of one pair: how much each sentence of an agent's response helps to predict the peer's.

    One batch is scored: the peer's response given nothing, given the candidate's, and given the candidate's without
    each of its sentences in turn. Replies are journalled, so no question is paid for twice.
    """
    pair = _read_pair(study, options)
    part = Part("scorer", options.scorer, "scoring")
    calling = Options(say=options.say, **{name: getattr(options, name) for name in CALLING})
    async with (
        open_journal(options.journal) as journal,
        open_models([part], calling, journal) as models,
    ):
        opened = models["scorer"]
        scorer = _scoring(opened)
        task = study.task(options.task), study.responses(options.task)
        for note in training_notes(opened.model, [pair.template], [task]):
            warnings.warn(note, stacklevel=2)
        canaries = await check_scorer(opened.model, journal, opened.ledger)
        sentences = split_sentences(pair.candidate)
        requests = await _requests(scorer, pair, sentences)
        pieces = await _pieces(scorer, requests[0], pair.peer)
        _refuse_too_long(scorer, requests)
        replies = await _ask(scorer, requests, options)
        marginal, conditional, *without = [reply.logprobs for reply in replies]
        return make_information_map(
            task=options.task,
            agent=options.agent,
            peer=options.peer,
            agent_text=pair.candidate,
            agent_sentences=sentences,
            peer_sentences=split_sentences("".join(pieces)),
            pieces=pieces,
            conditional_nats=conditional,
            marginal_nats=marginal,
            without_nats=without,
            signature=str(_signature(study, options, pair, scorer, canaries)),
        )


def without_sentence(text: str, sentence: Sentence) -> str:
    """The text without a sentence and without the white space after it."""
    return text[: sentence.start] + text[sentence.end :].lstrip()


# --- the pair ----------------------------------------------------------------------------------------------------


def _read_pair(study: Study, options: ExplainOptions) -> _Pair:
    template = find_template(options.template)
    if options.text not in get_args(TextKind):
        hint = nearest(str(options.text), get_args(TextKind))
        raise UserError(f"text must be one of {', '.join(get_args(TextKind))}, got {options.text!r}{hint}")
    task = study.task(options.task)
    texts = {agent: _response(study, options.task, agent) for agent in (options.agent, options.peer)}
    if options.agent == options.peer:
        raise MetricError(
            f"agent and peer must differ, got {options.agent!r} for both. "
            f"Other agents that answered {options.task}: {_others(study, options)}"
        )
    rewriter = None
    if options.text == "rewrites":
        texts, rewriter = _rewrites(study, options)
    synopsis = None
    if options.synopsis is not None:
        name = options.synopsis.removeprefix("synopsis_")
        synopsis = task.synopsis(name)
        if synopsis is None:
            has, hint = ", ".join(task.synopsis_names) or "none", nearest(name, task.synopsis_names) or "."
            raise MetricError(f"task {task.task} has no synopsis {name!r}{hint} It has: {has}")
    return _Pair(texts[options.agent], texts[options.peer], rewriter, synopsis, template)


def _response(study: Study, task: str, agent: str) -> str:
    response = study.response(task, agent)
    if response is None:
        answered = ", ".join(r.agent for r in study.responses(task)) or "no agent"
        raise MetricError(f"{agent} has no response to {task}. Answered by: {answered}")
    return response.text


def _others(study: Study, options: ExplainOptions) -> str:
    return ", ".join(r.agent for r in study.responses(options.task) if r.agent != options.agent) or "none"


def _rewrites(study: Study, options: ExplainOptions) -> tuple[dict[str, str], str]:
    """Recorded rewrites of both responses, and their rewriters."""
    table = study.table("rewrites")
    rows = [] if table is None else table.to_dicts()
    found = {
        row["agent"]: row
        for row in rows
        if row["task"] == options.task and row["agent"] in (options.agent, options.peer) and (row["text"] or "").strip()
    }
    missing = [agent for agent in (options.agent, options.peer) if agent not in found]
    if missing:
        raise MetricError(
            f"{study.name} has no rewrite of the response of {' and '.join(missing)} to {options.task}. "
            "Explain the original responses instead (text: responses)"
        )
    rewriters = sorted({row.get("rewriter") or "recorded" for row in found.values()})
    return {agent: row["text"].strip() for agent, row in found.items()}, "+".join(rewriters)


# --- the questions -----------------------------------------------------------------------------------------------


def _scoring(opened: OpenModel) -> JournalledModel:
    """The scorer of an open model. Raises if it cannot score."""
    if not opened.model.capabilities.scoring:
        raise CapabilityError(
            f"{opened.identity.short} does not return log-probabilities of a given text, which an information map "
            f"needs. Scorers: {SCORERS}"
        )
    return opened.scorer


async def _requests(scorer: Scorer, pair: _Pair, sentences: Sequence[Sentence]) -> list[ScoreRequest]:
    """Given nothing, given the candidate, given it without each sentence."""
    left = [without_sentence(pair.candidate, sentence) for sentence in sentences]
    candidates = [None, pair.candidate, *(text if text.strip() else None for text in left)]
    return [await _request(scorer, pair, candidate) for candidate in candidates]


async def _request(scorer: Scorer, pair: _Pair, candidate: str | None) -> ScoreRequest:
    messages = (
        Message("system", pair.template.predict),
        Message("user", pair.template.question(pair.synopsis, candidate)),
    )
    return await scorer.encode(messages, pair.peer)


async def _pieces(scorer: Scorer, request: ScoreRequest, text: str) -> tuple[str, ...]:
    """The texts of the target's tokens, which must spell it."""
    pieces = await scorer.pieces(request)
    if pieces is None:
        raise CapabilityError(
            f"{scorer.identity.short} does not return the text of its tokens, so their gains cannot be located in the "
            f"response. Scorers that do: {SCORERS}"
        )
    spelled = "".join(pieces)
    if spelled != text and spelled not in {unicodedata.normalize(form, text) for form in NORMAL_FORMS}:
        raise CapabilityError(
            f"the tokens of {scorer.identity.short} spell {spelled[:60]!r}…, not the response {text[:60]!r}…. Its "
            f"tokenizer loses characters, so gains cannot be located. Use another scorer: {SCORERS}"
        )
    return pieces


def _refuse_too_long(scorer: Scorer, requests: Sequence[ScoreRequest]) -> None:
    longest, limit = max(request.tokens for request in requests), scorer.context_length
    if limit is not None and longest > limit:
        raise TextTooLongError(
            f"the two responses and the prompt have {longest} tokens, but the context of {scorer.identity.short} is "
            f"{limit}. Texts are never cut. Use a scorer with a longer context"
        )


async def _ask(
    scorer: JournalledModel, requests: Sequence[ScoreRequest], options: ExplainOptions
) -> list[TokenLogprobs]:
    """All replies."""
    replies: dict[int, ScoreReply] = {}
    await scorer.score(requests, replies.update)
    usage, calls = scorer.ledger.usage, scorer.ledger.calls
    options.say(
        f"{scorer.identity.short}: {calls} call{'s' * (calls != 1)} now "
        f"({usage.input_tokens + usage.output_tokens:,} tokens), {scorer.reused.calls} from the journal"
    )
    good = []
    for i in range(len(requests)):
        reply = replies[i]
        if isinstance(reply, CallFailure):
            raise _failed(scorer, reply)
        good.append(reply)
    return good


def _failed(scorer: Scorer, failure: CallFailure) -> UserError | CallError:
    if failure.kind == "too_long":
        return TextTooLongError(
            f"the responses do not fit the context of {scorer.identity.short} ({failure.message}). "
            "Texts are never cut. Use a scorer with a longer context"
        )
    return CallError(failure)


def _signature(study: Study, options: ExplainOptions, pair: _Pair, scorer: Scorer, canaries: CanaryReport) -> Signature:
    identity = scorer.identity
    settings = {
        "scorer": identity.short,
        **({} if pair.rewriter is None else {"rewriter": pair.rewriter}),
        "template": pair.template.name,
        "synopsis": "none" if options.synopsis is None else options.synopsis.removeprefix("synopsis_"),
        **{key: identity.settings[key] for key in ("layout", "kernel", "dialect") if key in identity.settings},
        "positions": scorer.positions,
        "noise": f"{canaries.noise_nats:.0e}nats",
        "sentences": "default",
        "study": study.fingerprint[:8],
    }
    return Signature("information-map", settings)
