"""Explaining: the information map of one pair of responses, scored in one batch."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar, get_args

import polars as pl

from goldless.errors import CallError, CapabilityError, MetricError, TextTooLongError, UserError, nearest
from goldless.metrics.information_map import InformationMap, make_information_map
from goldless.models.canaries import CanaryReport, check_scorer
from goldless.models.interface import Scorer, ScoreReply, ScoreRequest
from goldless.records import CallFailure
from goldless.runs.opening import SCORERS, Part, open_journal, open_models, training_notes
from goldless.runs.options import CALLING, Options
from goldless.scoring import Question, ScoringStage
from goldless.sentences import split_sentences
from goldless.signature import Signature
from goldless.studies import Study
from goldless.templates import find_template

T = TypeVar("T")
PEER = "peer"
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


async def explain_pair(study: Study, options: ExplainOptions) -> InformationMap:
    """The information map of one pair: how much each sentence of an agent's response helps to predict the peer's.

    One batch is scored: the peer's response given nothing, given the candidate's, and given the candidate's without
    each of its sentences in turn. Replies are journalled, so no question is paid for twice.
    """
    template, task = find_template(options.template), study.task(options.task)
    texts, rewriter = _texts(study, options)
    synopsis = None if options.synopsis is None else options.synopsis.removeprefix("synopsis_")
    if synopsis is not None and task.synopsis(synopsis) is None:
        has, hint = ", ".join(task.synopsis_names) or "none", nearest(synopsis, task.synopsis_names) or "."
        raise MetricError(f"task {task.task} has no synopsis {synopsis!r}{hint} It has: {has}")
    calling = Options(say=options.say, **{name: getattr(options, name) for name in CALLING})
    async with (
        open_journal(options.journal) as journal,
        open_models([Part("scorer", options.scorer, "scoring")], calling, journal) as models,
    ):
        opened = models["scorer"]
        if not opened.model.capabilities.scoring:
            raise CapabilityError(
                f"{opened.identity.short} does not return log-probabilities of a given text, which an information map "
                f"needs. Scorers: {SCORERS}"
            )
        for note in training_notes(opened.model, [template], [(task, study.responses(options.task))]):
            warnings.warn(note, stacklevel=2)
        canaries = await check_scorer(opened.model, journal, opened.ledger)
        candidate, peer = texts[options.agent], texts[options.peer]
        sentences = split_sentences(candidate)
        # given nothing, given the candidate, given it without each sentence and the white space after it
        shown = [None, candidate, *(candidate[: one.start] + candidate[one.end :].lstrip() for one in sentences)]
        stage = ScoringStage(opened.scorer, template, rewriter, synopsis)
        known = {PEER: peer, **{str(i): text for i, text in enumerate(shown) if text and text.strip()}}
        asked = [Question(PEER, str(i) if str(i) in known else None) for i in range(len(shown))]
        requests = _there(opened.scorer, [await stage.request(task, question, known) for question in asked])
        pieces = await _pieces(opened.scorer, requests[0], peer)
        replies: dict[int, ScoreReply] = {}
        await opened.scorer.score(requests, replies.update)
        usage, calls = opened.ledger.usage, opened.ledger.calls
        options.say(
            f"{opened.identity.short}: {calls} call{'s' * (calls != 1)} now "
            f"({usage.input_tokens + usage.output_tokens:,} tokens), {opened.chat.reused.calls} from the journal"
        )
        found = _there(opened.scorer, [replies[i] for i in range(len(requests))])
        marginal, conditional, *without = [reply.logprobs for reply in found]
        return make_information_map(
            task=options.task,
            agent=options.agent,
            peer=options.peer,
            agent_text=candidate,
            agent_sentences=sentences,
            peer_sentences=split_sentences("".join(pieces)),
            pieces=pieces,
            conditional_nats=conditional,
            marginal_nats=marginal,
            without_nats=without,
            signature=str(_signature(study, stage, canaries)),
        )


def _texts(study: Study, options: ExplainOptions) -> tuple[dict[str, str], str | None]:
    """The texts of both agents, and the rewriters of rewrites."""
    if options.text not in get_args(TextKind):
        hint = nearest(str(options.text), get_args(TextKind))
        raise UserError(f"text must be one of {', '.join(get_args(TextKind))}, got {options.text!r}{hint}")
    answered, both = [r.agent for r in study.responses(options.task)], (options.agent, options.peer)
    responses = {agent: study.response(options.task, agent) for agent in both}
    for agent in (agent for agent, response in responses.items() if response is None):
        there = ", ".join(answered) or "no agent"
        raise MetricError(f"{agent} has no response to {options.task}. Answered by: {there}")
    if options.agent == options.peer:
        others = ", ".join(agent for agent in answered if agent != options.agent) or "none"
        raise MetricError(
            f"agent and peer must differ, got {options.agent!r} for both. "
            f"Other agents that answered {options.task}: {others}"
        )
    if options.text == "responses":
        return {agent: response.text for agent, response in responses.items() if response is not None}, None
    table = study.table("rewrites")
    usable = (pl.col("task") == options.task) & (pl.col("text").str.strip_chars() != "")
    found = (
        {}
        if table is None or table.is_empty()
        else {row["agent"]: row for row in table.filter(usable).iter_rows(named=True)}
    )
    missing = [agent for agent in both if agent not in found]
    if missing:
        raise MetricError(
            f"{study.name} has no rewrite of the response of {' and '.join(missing)} to {options.task}. "
            "Explain the original responses instead (text: responses)"
        )
    rewriters = sorted({found[agent].get("rewriter") or "recorded" for agent in both})
    return {agent: found[agent]["text"].strip() for agent in both}, "+".join(rewriters)


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


def _there(scorer: Scorer, found: Sequence[T | CallFailure]) -> list[T]:
    """All of them. Raises if one is missing: texts are never cut."""
    for one in found:
        if isinstance(one, CallFailure) and one.kind == "too_long":
            raise TextTooLongError(
                f"the responses do not fit the context of {scorer.identity.short} ({one.message}). "
                "Texts are never cut. Use a scorer with a longer context"
            )
        if isinstance(one, CallFailure):
            raise CallError(one)
    return [one for one in found if not isinstance(one, CallFailure)]


def _signature(study: Study, stage: ScoringStage, canaries: CanaryReport) -> Signature:
    identity = stage.scorer.identity
    settings = {
        "scorer": identity.short,
        **({} if stage.rewriter is None else {"rewriter": stage.rewriter}),
        "template": stage.template.name,
        "synopsis": stage.synopsis or "none",
        **{key: identity.settings[key] for key in ("layout", "kernel", "dialect") if key in identity.settings},
        "positions": stage.scorer.positions,
        "noise": f"{canaries.noise_nats:.0e}nats",
        "sentences": "default",
        "study": study.fingerprint[:8],
    }
    return Signature("information-map", settings)
