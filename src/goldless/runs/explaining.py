"""Explaining: the information map of one pair of responses, scored in one batch."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Sequence
from typing import Literal, TypeVar

from goldless.errors import CallError, CapabilityError, MetricError, TextTooLongError, check_known
from goldless.metrics.information_map import InformationMap, make_information_map
from goldless.models.canaries import check_scorer
from goldless.models.interface import Scorer, ScoreReply, ScoreRequest
from goldless.records import CallFailure
from goldless.runs.opening import SCORERS, Part, open_journal, open_models, scorer_notes
from goldless.runs.options import Options
from goldless.runs.recorded import recorded_rewrites
from goldless.scoring import Question, ScoringStage
from goldless.sentences import split_sentences
from goldless.signature import Signature
from goldless.studies import Study
from goldless.templates import find_template

T = TypeVar("T")
PEER = "peer"
NORMAL_FORMS: tuple[Literal["NFC", "NFKC"], ...] = ("NFC", "NFKC")
"""Normal forms that some tokenizers apply to a text."""


async def explain_pair(
    study: Study,
    options: Options,
    *,
    task: str,
    agent: str,
    peer: str,
    template: str = "general",
    synopsis: str | None = None,
    text: Literal["responses", "rewrites"] = "responses",
) -> InformationMap:
    """The information map of one pair: how much each sentence of an agent's response helps to predict the peer's.

    One batch is scored: the peer's response given nothing, given the candidate's, and given the candidate's without
    each of its sentences in turn. Replies are journalled, so no question is paid for twice.

    ``synopsis``: a text of the task to condition both terms on, as in ``gem-s[…]``: ``abstract`` for the column
    ``synopsis_abstract``, ``prompt``, or any other text column. ``text``: the responses, or the study's rewrites.
    """
    words, asked_task = find_template(template), study.task(task)
    texts, rewriter = _texts(study, task, agent, peer, text)
    synopsis = None if synopsis is None else synopsis.removeprefix("synopsis_")
    if synopsis is not None and asked_task.synopsis(synopsis) is None:
        check_known([synopsis], asked_task.synopsis_names, f"task {task} has no synopsis", "It has", MetricError)
    async with (
        open_journal(options.models.journal) as journal,
        open_models([Part("scorer", options.scoring.scorer, "scoring")], options, journal) as models,
    ):
        opened, scorer = models["scorer"], models["scorer"].scorer
        if not opened.model.capabilities.scoring:
            raise CapabilityError(
                f"{opened.identity.short} does not return log-probabilities of a given text, which an information map "
                f"needs. Scorers: {SCORERS}"
            )
        for note in scorer_notes(opened.model, [words], [(asked_task, study.responses(task))]):
            warnings.warn(note, stacklevel=2)
        canaries = await check_scorer(opened.model, journal, opened.ledger)
        candidate = texts[agent]
        sentences = split_sentences(candidate)
        # given nothing, given the candidate, given it without each sentence and the white space after it
        shown = [None, candidate, *(candidate[: one.start] + candidate[one.end :].lstrip() for one in sentences)]
        stage = ScoringStage(scorer, words, rewriter, synopsis)
        known = {PEER: texts[peer], **{str(i): one for i, one in enumerate(shown) if one and one.strip()}}
        asked = [Question(PEER, str(i) if str(i) in known else None) for i in range(len(shown))]
        requests = _there(scorer, [await stage.request(asked_task, question, known) for question in asked])
        pieces = await _pieces(scorer, requests[0], texts[peer])
        replies: dict[int, ScoreReply] = {}
        await scorer.score(requests, replies.update)
        usage, calls = opened.ledger.usage, opened.ledger.calls
        options.say(
            f"{opened.identity.short}: {calls} call{'s' * (calls != 1)} now "
            f"({usage.input_tokens + usage.output_tokens:,} tokens), {opened.chat.reused.calls} from the journal"
        )
    found = _there(scorer, [replies[i] for i in range(len(requests))])
    marginal, conditional, *without = [reply.logprobs for reply in found]
    identity = opened.identity
    settings = {
        "scorer": identity.short,
        **({} if rewriter is None else {"rewriter": rewriter}),
        "template": words.name,
        "synopsis": synopsis or "none",
        **{key: identity.settings[key] for key in ("layout", "kernel", "dialect") if key in identity.settings},
        "positions": scorer.positions,
        "noise": f"{canaries.noise_nats:.0e}nats",
        "sentences": "default",
        "study": study.fingerprint[:8],
    }
    return make_information_map(
        task=task,
        agent=agent,
        peer=peer,
        agent_text=candidate,
        agent_sentences=sentences,
        peer_sentences=split_sentences("".join(pieces)),
        pieces=pieces,
        conditional_nats=conditional,
        marginal_nats=marginal,
        without_nats=without,
        signature=str(Signature("information-map", settings)),
    )


def _texts(study: Study, task: str, agent: str, peer: str, kind: str) -> tuple[dict[str, str], str | None]:
    """The texts of both agents, and the rewriters of rewrites."""
    answered, both = {r.agent: r.text for r in study.responses(task)}, (agent, peer)
    for name in both:
        if study.response(task, name) is None:
            raise MetricError(f"{name} has no response to {task}. Answered by: {', '.join(answered) or 'no agent'}")
    if agent == peer:
        others = ", ".join(name for name in answered if name != agent) or "none"
        raise MetricError(
            f"agent and peer must differ, got {agent!r} for both. Other agents that answered {task}: {others}"
        )
    if kind == "responses":
        return {name: answered[name] for name in both}, None
    found = {row["agent"]: row for row in recorded_rewrites(study).filter(task=task).iter_rows(named=True)}
    if missing := [name for name in both if name not in found]:
        raise MetricError(
            f"{study.name} has no rewrite of the response of {' and '.join(missing)} to {task}. "
            "Explain the original responses instead (text: responses)"
        )
    rewriters = sorted({found[name]["rewriter"] for name in both})
    return {name: found[name]["text"] for name in both}, "+".join(rewriters)


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
