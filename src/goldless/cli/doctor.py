"""``goldless doctor``: what a model can do, and whether its numbers can be trusted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from goldless.cli.command import verb
from goldless.cli.console import NOTHING, end
from goldless.cli.output import Output, plain_table
from goldless.errors import CanaryError
from goldless.runs.option_forms import argument
from goldless.runs.options import CALLING, Options

if TYPE_CHECKING:
    from goldless.models.canaries import CanaryReport
    from goldless.models.interface import Model
    from goldless.models.journal import Kind
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

    def tables(self) -> list[ReportTable]:
        """One row for everything that was found."""
        rows = tuple({"what": what, "found": found} for what, found in self._found())
        return [plain_table(self.model, rows, what="what", found="found")]

    def _found(self) -> Iterator[tuple[str, str]]:
        for name, able in self.capabilities.items():
            yield name.replace("_", " "), "yes" if able else "no"
        yield from self.reasons.items()
        if self.warning is not None:
            yield "WARNING", self.warning
        if self.canaries is not None:
            yield "canaries", "passed"
            yield "copied / other text", f"{self.canaries.copied_nats:.1f} / {self.canaries.shuffled_nats:.1f} nats"
            yield "noise between batches", f"{self.canaries.noise_nats:.1e} nats in a sum"
        elif self.complaint is not None:
            yield "canaries", "FAILED"
        speeds = {"scoring": self.scored_tokens_per_second, "writing": self.written_tokens_per_second}
        yield from ((f"{name} speed", f"{speed:,.0f} tokens/s") for name, speed in speeds.items() if speed is not None)
        for kind, seconds in self.seconds_per_call.items():
            yield f"one {kind}", f"{seconds:.2g} s alone; kept for goldless plan"
        price = self.price_usd_per_million
        known = "unknown" if price is None else f"{price[0]:g} in, {price[1]:g} out USD/M"
        yield "price", "free" if price == (0, 0) else known
        yield from ((key, str(value)) for key, value in self.identity["settings"].items())


@dataclass(frozen=True, kw_only=True)
class Examining:
    model: str = argument("MODEL", "A model; goldless list models shows the forms.", "embedded")


@verb(*CALLING)
async def doctor(own: Examining, options: Options) -> Diagnosis:
    """Test what a model can do (chat, choice, log-probabilities, scoring), how exactly, how fast, at what price.

    Every call is made: nothing is taken from the journal.

    Examples:
      goldless doctor
      goldless doctor http://127.0.0.1:8000/v1#llama
    """
    from goldless.models.canaries import check_scorer
    from goldless.models.catalogue import open_model
    from goldless.models.interface import WrappedModel
    from goldless.models.usage import price_of
    from goldless.runs.opening import layout_note

    model: Any = open_model(own.model, say=options.say)
    WrappedModel(model).limit_calls(*options.some(*CALLING).values())
    try:
        await model.prepare()
        able, canaries, complaint = model.capabilities, None, None
        try:
            canaries = await check_scorer(model) if able.scoring else None
        except CanaryError as error:
            complaint = str(error)
        price = price_of(model.identity)
        # answers to probes that failed, of models that keep them; a server that scores in one way needs no other
        failed = [one for one in getattr(model, "findings", ()) if not one.works]
        reasons = [one for one in failed if not (able.scoring and one.ability.startswith("scoring"))]
        scoring, writing, seconds = await _speeds(model, scores=canaries is not None)
        return Diagnosis(
            model=model.identity.short,
            identity=model.identity.as_dict(),
            capabilities=asdict(able),
            reasons={one.ability: one.answer for one in reasons},
            warning=layout_note(model),
            canaries=canaries,
            complaint=complaint,
            scored_tokens_per_second=scoring,
            written_tokens_per_second=writing,
            seconds_per_call=seconds,
            price_usd_per_million=None if price is None else (price.input_usd, price.output_usd),
        )
    finally:
        await model.aclose()


@doctor.told
def _tell(found: Diagnosis, output: Output) -> None:
    output.show(found)
    if found.complaint is not None:
        end(NOTHING, f"error: {found.complaint}")


async def _speeds(model: Model, *, scores: bool) -> tuple[float | None, float | None, dict[str, float]]:
    """Tokens scored and written per second, and what one call of each kind to a server takes alone.

    The latter is kept for goldless plan, which times local models itself.
    """
    from goldless.models.cache import default_journal
    from goldless.models.canaries import INSTRUCTION, TEXTS
    from goldless.models.catalogue import is_local
    from goldless.models.interface import ChatReply, ChatRequest, Message
    from goldless.models.journal import keep_measured

    local, scoring, writing = is_local(model.identity), None, None
    alone: dict[Kind, float] = {}
    if scores:
        long = Message("user", " ".join(TEXTS * REPEATS))
        requests = [await model.encode([INSTRUCTION, long], text) for text in TEXTS]
        begin = time.perf_counter()
        await model.score(requests, lambda _: None)
        scoring = sum(request.tokens for request in requests) / (time.perf_counter() - begin)
        begin = time.perf_counter()
        await model.score([] if local else requests[-1:], lambda _: None)
        alone |= {} if local else {"score": time.perf_counter() - begin}
    asked: dict[Kind, tuple[str, int]] = {
        "text": ("Describe a bicycle in about a hundred words.", 32 if local else 150),
        "verdict": ("Is snow white? Answer with one word: Yes or No.", 4),
    }
    for kind, (question, most) in asked.items() if model.capabilities.chat else ():
        begin = time.perf_counter()
        reply = await model.chat(ChatRequest((Message("user", question),), max_tokens=most))
        seconds = time.perf_counter() - begin
        if isinstance(reply, ChatReply):
            alone |= {} if local else {kind: seconds}
            if kind == "text" and reply.usage.output_tokens:
                writing = reply.usage.output_tokens / seconds
    if alone:
        keep_measured(default_journal(), model.identity, alone)
    return scoring, writing, {str(kind): seconds for kind, seconds in alone.items()}
