"""``goldless doctor``: what a model can do, and whether its numbers can be trusted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from goldless.cli.command import verb
from goldless.cli.console import NOTHING, end, say
from goldless.cli.output import Output
from goldless.cli.signals import run_async
from goldless.errors import CanaryError
from goldless.runs.option_forms import argument
from goldless.runs.options import CALLING, Options

if TYPE_CHECKING:
    from goldless.models.canaries import CanaryReport
    from goldless.models.interface import Model, ScoreReply
    from goldless.reports.report_table import ReportTable

REPEATS = 4


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found."""

    model: str
    identity: dict[str, Any]
    capabilities: dict[str, bool]
    reasons: dict[str, str]
    """What a server answered to the probes of what it cannot do."""
    warning: str | None
    """Why its scores differ from those of the same model elsewhere."""
    canaries: CanaryReport | None
    complaint: str | None
    """Why its log-probabilities cannot be used."""
    scored_tokens_per_second: float | None
    written_tokens_per_second: float | None
    seconds_per_call: dict[str, float]
    """Of one call at a time to a server, by its kind; goldless plan takes these until the journal has some."""
    price_usd_per_million: tuple[float, float] | None
    """Input and output; None: unknown."""


@dataclass(frozen=True, kw_only=True)
class Examining:
    """Options of ``doctor``."""

    model: str = argument("MODEL", "A model; goldless models list shows the forms.", "embedded")


@verb(*CALLING)
def doctor(own: Examining, options: Options, output: Output) -> None:
    """Test what a model can do (chat, choice, log-probabilities, scoring), how exactly, how fast, at what price.

    Every call is made: nothing is taken from the journal.

    Examples:
      goldless doctor
      goldless doctor http://127.0.0.1:8000/v1#llama
    """
    from goldless.models.catalogue import open_model
    from goldless.models.interface import WrappedModel

    opened = open_model(own.model, say=say)
    WrappedModel(opened).limit_calls(*options.some(*CALLING).values())
    diagnosis = run_async(_examine, opened)
    output.print_tables([_table(diagnosis)], lambda: asdict(diagnosis))
    if diagnosis.complaint is not None:
        end(NOTHING, f"error: {diagnosis.complaint}")


async def _examine(model: Model) -> Diagnosis:
    from goldless.models.usage import price_of
    from goldless.runs.opening import layout_note

    try:
        await model.prepare()
        able = model.capabilities
        canaries, complaint = await _canaries(model) if able.scoring else (None, None)
        price = price_of(model.identity)
        return Diagnosis(
            model=model.identity.short,
            identity=model.identity.as_dict(),
            capabilities=asdict(able),
            reasons=_reasons(model),
            warning=layout_note(model),
            canaries=canaries,
            complaint=complaint,
            scored_tokens_per_second=await _scoring_speed(model) if canaries else None,
            written_tokens_per_second=await _writing_speed(model) if able.chat else None,
            seconds_per_call=await _call_seconds(model, scores=canaries is not None),
            price_usd_per_million=None if price is None else (price.input_usd, price.output_usd),
        )
    finally:
        await model.aclose()


def _reasons(model: Model) -> dict[str, str]:
    """The answers to probes that failed, of models that keep them; a server that scores in one way needs no other."""
    findings = getattr(model, "findings", ())
    scores = model.capabilities.scoring
    return {
        finding.ability: finding.answer
        for finding in findings
        if not finding.works and not (scores and finding.ability.startswith("scoring"))
    }


async def _canaries(model: Model) -> tuple[CanaryReport | None, str | None]:
    from goldless.models.canaries import check_scorer

    try:
        return await check_scorer(model), None
    except CanaryError as error:
        return None, str(error)


async def _scoring_speed(model: Model) -> float:
    """Tokens of all requests, counted as if nothing were shared, per second."""
    from goldless.models.canaries import INSTRUCTION, TEXTS
    from goldless.models.interface import Message

    long = " ".join(TEXTS * REPEATS)
    requests = [await model.encode([INSTRUCTION, Message("user", long)], text) for text in TEXTS]
    replies: dict[int, ScoreReply] = {}
    begin = time.perf_counter()
    await model.score(requests, replies.update)
    return sum(request.tokens for request in requests) / (time.perf_counter() - begin)


async def _writing_speed(model: Model) -> float | None:
    from goldless.models.interface import ChatRequest, Message

    request = ChatRequest((Message("user", "Count from one to twenty in words."),), max_tokens=32)
    begin = time.perf_counter()
    reply = await model.chat(request)
    seconds = time.perf_counter() - begin
    tokens = getattr(getattr(reply, "usage", None), "output_tokens", 0)
    return tokens / seconds if tokens else None


async def _call_seconds(model: Model, *, scores: bool) -> dict[str, float]:
    """What one call of each kind to a server takes alone; kept for goldless plan, which times local models itself."""
    from goldless.models.cache import default_journal
    from goldless.models.call_paces import Kind, keep_measured
    from goldless.models.canaries import INSTRUCTION, TEXTS
    from goldless.models.catalogue import is_local
    from goldless.models.interface import ChatReply, ChatRequest, Message

    if is_local(model.identity):
        return {}
    found: dict[Kind, float] = {}
    if scores:
        request = await model.encode([INSTRUCTION, Message("user", " ".join(TEXTS * REPEATS))], TEXTS[-1])
        begin = time.perf_counter()
        await model.score([request], lambda _: None)
        found["score"] = time.perf_counter() - begin
    kinds: dict[Kind, ChatRequest] = {
        "verdict": ChatRequest((Message("user", "Is snow white? Answer with one word: Yes or No."),), max_tokens=4),
        "text": ChatRequest((Message("user", "Describe a bicycle in about a hundred words."),), max_tokens=150),
    }
    for kind, asked in kinds.items() if model.capabilities.chat else ():
        begin = time.perf_counter()
        if isinstance(await model.chat(asked), ChatReply):
            found[kind] = time.perf_counter() - begin
    if found:
        keep_measured(default_journal(), model.identity, found)
    return {str(kind): seconds for kind, seconds in found.items()}


def _table(diagnosis: Diagnosis) -> ReportTable:
    from goldless.reports.report_table import Column, ReportTable

    columns = (Column("what", "what"), Column("found", "found"))
    rows = tuple({"what": what, "found": found} for what, found in _found(diagnosis))
    return ReportTable(diagnosis.model, columns, rows)


def _speeds(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    for name, speed in (
        ("scoring speed", diagnosis.scored_tokens_per_second),
        ("writing speed", diagnosis.written_tokens_per_second),
    ):
        if speed is not None:
            yield name, f"{speed:,.0f} tokens/s"
    for kind, seconds in diagnosis.seconds_per_call.items():
        yield f"one {kind}", f"{seconds:.2g} s alone; kept for goldless plan"


def _found(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    for name, able in diagnosis.capabilities.items():
        yield name.replace("_", " "), "yes" if able else "no"
    yield from diagnosis.reasons.items()
    if diagnosis.warning is not None:
        yield "WARNING", diagnosis.warning
    if diagnosis.canaries is not None:
        c = diagnosis.canaries
        yield "canaries", "passed"
        yield "copied / other text", f"{c.copied_nats:.1f} / {c.shuffled_nats:.1f} nats"
        yield "noise between batches", f"{c.noise_nats:.1e} nats in a sum"
    elif diagnosis.complaint is not None:
        yield "canaries", "FAILED"
    yield from _speeds(diagnosis)
    price = diagnosis.price_usd_per_million
    yield (
        "price",
        "unknown" if price is None else "free" if price == (0, 0) else f"{price[0]:g} in, {price[1]:g} out USD/M",
    )
    for key, value in diagnosis.identity["settings"].items():
        yield key, str(value)
