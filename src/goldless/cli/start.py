"""``goldless demo``: the sample study, scored on this machine; ``goldless doctor``: what a model can do."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterator
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from goldless.cli.command import RUN_FOLDER, verb
from goldless.cli.console import NOTHING, out
from goldless.cli.output import Output, plain_table
from goldless.cli.score import tell_evaluation
from goldless.errors import CanaryError, UserError
from goldless.models.canaries import CanaryReport
from goldless.reports.document import Result
from goldless.runs.option_forms import argument
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.models.interface import Model
    from goldless.models.journal import Kind
    from goldless.reports.report_table import ReportTable
    from goldless.runs.evaluation import Evaluation


READING = """\
An agent's score is how many nats, on average, another agent's response to the same task makes its own more \
predictable. Intervals come from resampling tasks. "beats #" lists the ranks an agent is better than on the \
same tasks, corrected for many comparisons. The constant answer (null) and the answers to another task (off-task) \
should be last, although the metric does not know which they are.

Next:
  goldless demo --study         # writes answers.csv, a small study to try
  goldless score answers.csv    # or your own file: columns task, agent, text
  goldless score -h
"""
STUDY_FILE = "answers.csv"


@verb(
    "journal",
    out=RUN_FOLDER,
    questions={"--study": "Write a small study to try everything on."},
)
async def demo(options: Options) -> Evaluation:
    """Score a sample study with the default metrics on the embedded model: no account, key, GPU or model hub.

    Examples:
      goldless demo
      goldless demo --out runs/demo
    """
    from goldless.runs.pipeline import evaluate_study
    from goldless.studies import read_study, sample_study

    study = read_study(sample_study())
    # half of the tasks: the first look takes minutes, goldless score sample all of them
    study = study.subset(tasks=study.tasks[::2])
    options.say(
        f"Sample study: {len(study)} of its tasks (peer reviews of invented papers, open questions) answered by "
        f"{len(study.agents)} invented agents. Scorer: the embedded language model, on this machine's processor."
    )
    return await evaluate_study(study, options)


@demo.renderer
def _tell(found: Evaluation, output: Output) -> None:
    tell_evaluation(found, output, last=READING)


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    folder: Path = argument("FOLDER", "Where to write the file.", Path())


@verb()
def quickstart(verb_options: InitOptions) -> None:
    """Write answers.csv, a small study of invented answers to ten support tickets, and say what to run next.

    Examples:
      goldless demo --study
      goldless demo --study trial
    """
    path = verb_options.folder / STUDY_FILE
    content = files("goldless.cli").joinpath("quickstart_answers.csv").read_bytes()
    try:
        if path.exists() and path.read_bytes() != content:
            raise UserError(
                f"{path} exists and would be overwritten. Choose another folder: goldless demo --study FOLDER"
            )
        verb_options.folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from error
    name = quote(str(path))
    out().print(f"Wrote {path}: 10 tasks, 4 agents, 40 responses, with prompts. Next:", markup=False, soft_wrap=True)
    out().print(f"  goldless score {name}  # who is most informative, on this machine", markup=False, soft_wrap=True)


REPEATS = 4


@dataclass(frozen=True)
class Diagnosis(Result):
    """The findings about a model."""

    model: str
    identity: dict[str, Any]
    capabilities: dict[str, bool]
    reasons: dict[str, str]
    """The server's answers to the probes of what it cannot do."""
    warning: str | None
    """The reason why its scores differ from those of the same model elsewhere."""
    canaries: CanaryReport | None
    complaint: str | None
    """The reason why its log-probabilities cannot be used."""
    scored_tokens_per_second: float | None
    written_tokens_per_second: float | None
    seconds_per_call: dict[str, float]
    """Of one call at a time to a server, by its kind; goldless plan takes these."""
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
class DoctorOptions:
    model: str = argument("MODEL", "Model to test; goldless list models shows the forms.", "embedded")


@verb(exit_status=lambda found: found.complaint and (NOTHING, f"error: {found.complaint}"))
async def doctor(verb_options: DoctorOptions, options: Options) -> Diagnosis:
    """Test what a model can do (chat, choice, log-probabilities, scoring), how exactly, how fast, at what price.

    Every call is made: nothing is taken from the journal.

    Examples:
      goldless doctor
      goldless doctor http://127.0.0.1:8000/v1#llama
    """
    from goldless.models.canaries import check_scorer
    from goldless.models.catalogue import open_model
    from goldless.models.usage import price_of
    from goldless.runs.opening import layout_note

    model: Any = open_model(verb_options.model, say=options.say)
    try:
        await model.prepare()
        able, canaries, complaint = model.capabilities, None, None
        try:
            canaries = await check_scorer(model) if able.scoring else None
        except CanaryError as error:
            complaint = str(error)
        price = price_of(model.identity, verb_options.model)
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
        _, seconds = await _timed(model.score(requests, lambda _: None))
        scoring = sum(request.tokens for request in requests) / seconds
        if not local:
            _, alone["score"] = await _timed(model.score(requests[-1:], lambda _: None))
    asked: dict[Kind, tuple[str, int]] = {
        "text": ("Describe a bicycle in about a hundred words.", 32 if local else 150),
        "verdict": ("Is snow white? Answer with one word: Yes or No.", 4),
    }
    for kind, (question, most) in asked.items() if model.capabilities.chat else ():
        reply, seconds = await _timed(model.chat(ChatRequest((Message("user", question),), max_tokens=most)))
        if isinstance(reply, ChatReply):
            alone |= {} if local else {kind: seconds}
            if kind == "text" and reply.usage.output_tokens:
                writing = reply.usage.output_tokens / seconds
    if alone:
        keep_measured(default_journal(), model.identity, alone)
    return scoring, writing, {str(kind): seconds for kind, seconds in alone.items()}


async def _timed(call: Awaitable[Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    return await call, time.perf_counter() - begin
