"""The result of ``goldless plan --cost``: what metrics and reviewers cost on a study, and on more tasks.

A run's spending is read from its folder: calls, tokens and US dollars by model, for all metrics of the run together,
because metrics of one run share evidence. If the folder also has a review, their spending is separate, and what other
verbs spent there belongs to neither. Replies from the journal were paid for before and are counted separately. What no
run covers is planned, as if the journal were empty. A price that is not known stays unknown.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from goldless.errors import CapabilityError, UserError, nearest
from goldless.judging.judges import find_judge
from goldless.models.cache import default_journal
from goldless.models.catalogue import is_local, open_model, unopened_identity
from goldless.models.interface import ModelIdentity
from goldless.models.journal import CallPace, call_paces
from goldless.models.usage import MILLION, Price, parse_price, price_of
from goldless.reports.document import write
from goldless.reports.findings import Said
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.reports.run_record import Spending
from goldless.runs.estimate import CHARACTERS_A_TOKEN, plan_study
from goldless.runs.options import Options
from goldless.runs.plan import with_default_metrics
from goldless.runs.review_evidence import named_reviewers, review_questions
from goldless.runs.store import MADE_BY
from goldless.statistics.bootstrap import Draws, task_intervals
from goldless.studies import Study
from goldless.user_metrics import USER_METRICS

YOUR_OWN = tuple(f"{form.partition(':')[0]}:" for form in USER_METRICS)
"""Prefixes of the names of custom metrics."""

Source = Literal["spent", "planned", "estimated", "no model", "not known"]
"""``spent``: charged in a run. ``planned``: from a plan. ``estimated``: tokens of judgements by the length of the text
or as given. ``no model``: no model is called. ``not known``: a custom metric, which may call any model."""


@dataclass(frozen=True, slots=True)
class ScaledCost:
    """The cost on another number of similar tasks."""

    tasks: int
    calls: float
    tokens: float
    tokens_low: float | None = None
    """Interval of the mean over tasks; None: too few tasks, or the cost does not depend on tasks."""
    tokens_high: float | None = None
    usd: float | None = None
    """None: price unknown."""
    usd_low: float | None = None
    usd_high: float | None = None
    seconds: float | None = None
    """None: not known."""

    def times(self, by: float) -> ScaledCost:
        usd, seconds = (None if one is None else one * by for one in (self.usd, self.seconds))
        return replace(self, calls=self.calls * by, tokens=self.tokens * by, usd=usd, seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one model for one metric, or for all metrics of a run."""

    metrics: tuple[str, ...]
    """Several if a run computed them together."""
    part: str
    """The model's role; empty: no model is called."""
    model: str
    source: Source
    run: str | None = None
    """The folder it was read from."""
    calls: int = 0
    reused: int = 0
    """Replies from the journal: paid for before, and not in the other numbers."""
    tokens: int = 0
    usd: float | None = 0.0
    """None: price unknown."""
    seconds: float | None = None
    """None: not known."""
    unkept_calls: int = 0
    """Calls without a reply to keep: probes and failed attempts, which do not grow with the tasks."""
    unkept_tokens: int = 0
    growth: str = ""
    """Growth of the calls, in words."""
    fixed: bool = False
    """True if the cost does not depend on the number of tasks, as with a budget of calls."""
    even: bool = False
    """True if tokens are assumed equal on every task, so that an interval over tasks would be meaningless."""
    pace: CallPace | None = None
    """The model's calls in the journal."""
    scaled: ScaledCost | None = None
    """None: there is nothing to scale."""

    @property
    def row(self) -> dict[str, Any]:
        row = {**write(self), "metric": ", ".join(self.metrics)}
        scaled = self.scaled
        if scaled is not None:
            row |= {f"scaled_{name}": value for name, value in write(scaled).items()}
            if scaled.tokens and scaled.tokens_low and scaled.tokens_high:
                row |= {
                    "share_low": scaled.tokens_low / scaled.tokens,
                    "share_high": scaled.tokens_high / scaled.tokens,
                }
        return row


TokensFrom = Literal["given", "estimated"]
"""``given``: by the user. ``estimated``: from the text, at four characters per token."""
PriceFrom = Literal["given", "price table", "on this machine", "unknown"]


@dataclass(frozen=True, slots=True)
class ReviewerCost:
    """The cost of one reviewer's judgements."""

    reviewer: str
    judgements: int
    """Number of judgements requested; with both orders each pair counts twice."""
    tokens: float
    """Input and output tokens of all judgements together."""
    tokens_a_judgement: float
    """Mean over the judgements."""
    tokens_from: TokensFrom
    input_usd_per_million: float | None
    """None: price unknown."""
    output_usd_per_million: float | None
    price_from: PriceFrom
    usd: float | None
    """Of all judgements together; None: price unknown."""


@dataclass(frozen=True, slots=True)
class CostReport:
    """The costs of metrics and reviewers on a study and on more tasks."""

    study: str
    n_tasks: int
    """Number of tasks with responses of at least two agents."""
    n_agents: int
    tasks: int
    """Number of tasks that costs are scaled to."""
    level: float
    rows: tuple[Cost, ...]
    notes: tuple[str, ...]
    reviewers: tuple[ReviewerCost, ...] = ()
    """Cost of the reviewers' judgements."""
    KEYS = ("study", "n_tasks", "n_agents", "tasks", "level", "rows", "notes", "total", "reviewers")

    @property
    def total(self) -> ScaledCost | None:
        """The sum over rows on the larger number of tasks; unknown if a price is unknown. None: no rows."""
        rows = [row.scaled for row in self.rows if row.scaled is not None]
        if not rows:
            return None
        usd = [None if row.scaled is None else row.scaled.usd for row in self.rows]
        seconds = [None if row.scaled is None else row.scaled.seconds for row in self.rows if row.source != "no model"]
        calls, tokens = sum(row.calls for row in rows), sum(row.tokens for row in rows)
        return ScaledCost(self.tasks, calls, tokens, usd=_sum(usd), seconds=_sum(seconds))

    def findings(self) -> Iterator[Said]:
        yield from ()

    def tables(self) -> list[ReportTable]:
        return [self.table(), self.scaled_table(), *([self.reviewer_table()] if self.reviewers else ())]

    def table(self) -> ReportTable:
        columns = (
            Column("metric", "metric", "name"),
            Column("part", "role", "name", ""),
            Column("model", "model", "name", wide=True),
            Column("source", "source"),
            Column("calls", "calls", "count"),
            Column("reused", "reused", "count", wide=not any(row.reused for row in self.rows)),
            Column("tokens", "tokens", "count"),
            Column("usd", "USD", "usd", "unknown"),
            Column("seconds", "time", "seconds", "?"),
        )
        title = f"Cost on {self.study}: {self.n_tasks} tasks, {self.n_agents} agents"
        return ReportTable(title, columns, tuple(row.row for row in self.rows))

    def scaled_table(self) -> ReportTable:
        interval = f"{self.level * 100:g}% interval"
        columns = (
            Column("metric", "metric", "name"),
            Column("part", "role", "name", ""),
            Column("scaled_calls", "calls", "large"),
            Column("scaled_tokens", "tokens", "large"),
            Column("scaled_usd", "USD", "usd", "unknown"),
            Column("share_low share_high", interval, "shares", decimals=1),
            Column("scaled_seconds", "time", "seconds", "?"),
            Column("scaled_tokens_low scaled_tokens_high", "tokens", "interval", decimals=0, wide=True),
            Column("scaled_usd_low scaled_usd_high", "USD", "interval", decimals=2, wide=True),
            Column("growth", "grows with", wide=True),
        )
        title = f"The same on {self.tasks:,} similar tasks with {self.n_agents} agents"
        return ReportTable(title, columns, tuple(row.row for row in self.rows))

    def reviewer_table(self) -> ReportTable:
        columns = (
            Column("reviewer", "reviewer", "name"),
            Column("judgements", "judgements", "count"),
            Column("tokens_a_judgement", "tokens each", "count"),
            Column("tokens_from", "token source"),
            Column("input_usd_per_million", "USD/M in", "usd", "?"),
            Column("output_usd_per_million", "out", "usd", "?"),
            Column("price_from", "price source"),
            Column("usd", "USD", "usd", "unknown", wide=True),
        )
        return ReportTable("Reviewers' judgements", columns, tuple(map(write, self.reviewers)))


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum; None: one of the values is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


async def find_costs(
    study: Study,
    options: Options,
    *,
    tasks: int = 10_000,
    runs: Sequence[Path | str] = (),
    reviewers: Mapping[str, ReviewerCost] | None = None,
) -> CostReport:
    """The costs of the metrics and reviewers on the study, and on ``tasks`` tasks. Calls no model.

    ``runs``: folders of runs and reviews of this study, whose spending is used instead of a plan. ``reviewers``: the
    costs of their judgements, from ``reviewer_costs``.
    """
    options = with_default_metrics(study, options)
    known = call_paces(options.journal or default_journal()) if runs else ()
    paces = {identity.short: pace for identity, pace in known}
    found = [row for folder in runs for row in _spent(study, Path(folder), options, paces)]
    covered = {name for row in found for name in row.metrics}
    notes: list[str] = []
    if left := tuple(name for name in dict.fromkeys(options.metrics) if name not in covered):
        planned, notes = await _planned(study, replace(options, metrics=left))
        found += planned
    judged = {} if reviewers is None else reviewers
    for name, cost in judged.items():
        row = Cost(metrics=(f"review[{options.scale}]",), part=name, model=name, source="estimated", usd=cost.usd)
        growth, even = _growth(name, options, row.metrics[0]), cost.tokens_from == "given"
        found.append(replace(row, calls=cost.judgements, tokens=round(cost.tokens), growth=growth, even=even))
    n_tasks = study.n_tasks_with_peers
    spread = {pairs: _spread(study, options, pairs=pairs) for pairs in (False, True)}
    rows = tuple(replace(row, scaled=_scaled(row, n_tasks, tasks, spread["agents²" in row.growth])) for row in found)
    notes += _notes(rows)
    counts = n_tasks, len(study.agents), tasks
    return CostReport(study.name, *counts, options.level, rows, tuple(notes), tuple(judged.values()))


def _notes(rows: Sequence[Cost]) -> Iterator[str]:
    for growth in dict.fromkeys(row.growth for row in rows if row.growth):
        whose = ", ".join(dict.fromkeys(row.part for row in rows if row.growth == growth))
        yield f"calls of {whose} grow with {growth}"
    spent = [row for row in rows if row.source == "spent"]
    if any(row.reused for row in rows):
        yield "reused: from the journal, paid for before; costs on more tasks assume that every call is made again"
    if any(row.unkept_calls for row in rows):
        yield "calls without a reply to keep, such as probes, are not counted on more tasks"
    if any(len(row.metrics) > 1 for row in spent):
        yield "metrics of one run share evidence, so their spending is given together"
    if any(row.scaled is not None and row.scaled.tokens_low is not None for row in rows):
        yield "intervals: Student's t or bootstrap over tasks, of the length of what is read on a task"
    if any(row.seconds is not None for row in spent):
        yield "time: the run's calls at the speed that the journal recorded for the model"


# --- what runs have spent ------------------------------------------------------------------------------------------


def _spent(study: Study, folder: Path, options: Options, paces: Mapping[str, CallPace]) -> Iterator[Cost]:
    """The spending of a run or review, or of both, by model."""
    run = RunFolder(folder)
    board, review, noted = (run.required(name) for name in ("leaderboard", "review", "made_by"))
    if (board is None and review is None) or noted is None:
        raise UserError(
            f"{folder} is not a run folder: it needs leaderboard.json or review.json, and {MADE_BY}. "
            "Write one with goldless score --out or goldless review --out"
        )
    made = {verb: one.spending for verb, one in run.made_by.made.items()}
    sources: list[tuple[Sequence[Spending], tuple[str, ...], dict[str, str]]] = []
    if run.leaderboard is not None and "score" in made:
        models = {part: identity.short for part, identity in run.leaderboard.models.items()}
        sources.append((made["score"], tuple(run.leaderboard.metrics), models))
    if run.review is not None and "review" in made:
        models = {reviewer.name: reviewer.model or "" for reviewer in run.review.reviewers}
        sources.append((made["review"], (f"review[{run.review.scale}]",), models))
    if not sources:
        raise UserError(f"{folder}: {MADE_BY} cannot be read as that of a run or review. Run it again")
    if any(one is not None and one.fingerprint != study.fingerprint for one in (run.leaderboard, run.review)):
        raise UserError(
            f"{folder} is a run of another study ({run.study_name}), or of this one before it was changed. Give runs "
            f"of {study.name}, or leave it out to plan the cost"
        )
    for spending, metrics, models in sources:
        if not spending:
            yield Cost(metrics=metrics, part="", model="", source="no model", run=str(folder))
        for row in spending:
            played = [part for part, model in models.items() if model == row.model]
            tokens = row.usage.input_tokens + row.usage.output_tokens
            kept, pace = row.kept_usage or row.usage, paces.get(row.model)
            yield Cost(
                metrics=metrics,
                part=", ".join(played) or "model",
                model=row.model,
                source="spent",
                run=str(folder),
                calls=row.calls,
                reused=row.reused,
                tokens=tokens,
                usd=row.cost_usd,
                seconds=None if pace is None or pace.seconds is None else pace.seconds / pace.calls * row.calls,
                unkept_calls=0 if row.kept is None else row.calls - row.kept,
                unkept_tokens=tokens - kept.input_tokens - kept.output_tokens,
                growth="; ".join(dict.fromkeys(_growth(part, options, metrics[0]) for part in played)),
                fixed=played == ["critic"] and options.budget_calls is not None,
                pace=pace,
            )


# --- what is planned -----------------------------------------------------------------------------------------------


async def _planned(study: Study, options: Options) -> tuple[list[Cost], list[str]]:
    """The plan of each metric alone, as if the journal were empty, and notes on it."""
    with tempfile.TemporaryDirectory() as aside:
        plan = await plan_study(study, replace(options, journal=Path(aside) / "empty.sqlite"))
    found: list[Cost] = []
    asking = 0
    for metric in options.chosen_metrics():
        own = [row for row in plan.rows if row.metric == metric.name]
        asking += bool(own)
        for row in own:
            cost = Cost(metrics=(metric.name,), part=row.part, model=row.model, source="planned", calls=row.calls)
            growth = _growth(row.part, options, metric.name)
            fixed = row.part == "critic" and options.budget_calls is not None
            paid: dict[str, Any] = {"tokens": row.tokens, "usd": row.cost_usd, "seconds": row.seconds}
            found.append(replace(cost, **paid, growth=growth, fixed=fixed))
        if not own:  # what a custom metric asks cannot be seen
            custom = metric.name.startswith(YOUR_OWN)
            how: dict[str, Any] = {"source": "not known", "usd": None} if custom else {"source": "no model"}
            found.append(Cost(metrics=(metric.name,), part="", model="", **how))
    several = "planned metrics are counted separately; in one run, calls that they share are made once (goldless plan)"
    return found, [*plan.notes, *[several] * (asking > 1)]


def _growth(part: str, options: Options, metric: str) -> str:
    """Growth of a part's calls with tasks and agents, in words."""
    scale = metric.removeprefix("review[").removesuffix("]")
    if metric != scale and part != "synopsis writer":
        order = "in both orders" if options.orders == "both" else "once"
        pairwise = find_judge(scale).pairwise
        return f"tasks times agents² (every pair {order})" if pairwise else "tasks times agents"
    chosen = options.peer_sample is not None or options.peers is not None
    pairs = "tasks times agents (chosen peers)" if chosen else "tasks times agents² (every ordered pair of agents)"
    if part == "scorer" or part.startswith("juror "):
        return pairs
    if part == "critic":
        limited = options.budget_calls is not None
        return "nothing: the budget limits the calls" if limited else f"{pairs} times (1 + shuffles)"
    return "tasks times agents (each response once)" if part.startswith("rewriter") else "tasks"


def reviewer_costs(
    study: Study,
    options: Options,
    *,
    prices: Mapping[str, Price] | None = None,
    tokens_a_judgement: float | None = None,
) -> dict[str, ReviewerCost]:
    """The cost of asking the reviewers about everything, by reviewer. No model is called.

    Tokens are those given, else a quarter of the question's characters and one for the verdict. ``prices``: by
    reviewer, overriding the price table.
    """
    named, own_prices = named_reviewers(options.reviewers), prices or {}
    if strange := [name for name in own_prices if name not in named]:
        raise UserError(
            f"a price is given for {', '.join(map(repr, strange))}, which is not a reviewer"
            f"{nearest(strange[0], named) or '.'} Reviewers: {', '.join(named)}"
        )
    if tokens_a_judgement is not None and not 0 < tokens_a_judgement < math.inf:
        raise UserError(f"tokens per judgement must be above 0, got {tokens_a_judgement}. Try 1000, or leave it out")
    found = {}
    scale = options.chosen_scale
    texts = {(one.task, one.agent): one.text for _, responses in study for one in responses}
    prompts = {task.task: task.prompt for task, _ in study}
    for name, given in named.items():
        identity = _identity(given)
        asked = review_questions(study, options, name, None if identity is None else identity.name)
        judgements = len(asked)
        if tokens_a_judgement is None:
            read, written = 0.0, float(judgements)
            described = options.descriptions.get(name, options.task_description)
            for one in asked:
                shown = texts[one.task, one.first], texts.get((one.task, one.second or ""))
                messages = scale.messages(*shown, prompt=prompts[one.task], task_description=described)
                read += sum(len(message.content) for message in messages) // CHARACTERS_A_TOKEN + 1
        else:
            written = min(1.0, tokens_a_judgement) * judgements
            read = tokens_a_judgement * judgements - written
        given_price: tuple[Price, PriceFrom] | None = (own_prices[name], "given") if name in own_prices else None
        price, price_from = given_price or _price(identity, options)
        found[name] = ReviewerCost(
            reviewer=name,
            judgements=judgements,
            tokens=read + written,
            tokens_a_judgement=(read + written) / judgements if judgements else 0.0,
            tokens_from="estimated" if tokens_a_judgement is None else "given",
            input_usd_per_million=None if price is None else price.input_usd,
            output_usd_per_million=None if price is None else price.output_usd,
            price_from=price_from,
            usd=None if price is None else (read * price.input_usd + written * price.output_usd) / MILLION,
        )
    return found


def _identity(given: Any) -> ModelIdentity | None:
    """A reviewer's identity, as far as its specification gives it; None: a model on this machine.

    Nothing is loaded or called, and no key is needed. Unknown specifications are refused, as in a review.
    """
    if isinstance(given, str) and (told := unopened_identity(given)) is not None:
        return told
    model = open_model(given, use="chat") if isinstance(given, str) else given
    try:
        identity: ModelIdentity = model.identity
    except CapabilityError:
        return None  # says who it is only once it is loaded, so it is on this machine
    return identity


def _price(identity: ModelIdentity | None, options: Options) -> tuple[Price | None, PriceFrom]:
    if identity is None or is_local(identity):
        return Price(0.0, 0.0), "on this machine"
    if (price := price_of(identity)) is not None:
        return price, "price table"
    return options.price, "unknown" if options.price is None else "given"


def parse_reviewer_prices(given: Iterable[str]) -> dict[str, Price]:
    """Prices by reviewer from ``NAME=USD`` or ``NAME=IN,OUT``, in US dollars per million tokens."""
    found, problems = {}, []
    for item in given:
        name, _, price = item.rpartition("=")
        try:
            found[name.strip()] = parse_price(price if "," in price else f"{price},{price}")
        except UserError:
            problems.append(repr(item))
    if problems or "" in found:
        raise UserError(
            "--reviewer-price must be NAME=USD or NAME=IN,OUT in US dollars per million tokens, not negative, "
            f"got {', '.join(problems) or '=USD'}. Try gpt4=40 or open-model=0"
        )
    return found


# --- more tasks ----------------------------------------------------------------------------------------------------


def _scaled(row: Cost, n_tasks: int, tasks: int, spread: tuple[float, float] | None) -> ScaledCost | None:
    """The row on another number of tasks, replies from the journal asked for anew; None: nothing to reckon from.

    A reply from the journal costs what this run's calls cost or, where it made none, the model's others.
    """
    if row.source == "no model":
        return ScaledCost(tasks, calls=0.0, tokens=0.0, usd=0.0)
    kept, tokens, pace = row.calls - row.unkept_calls, row.tokens - row.unkept_tokens, row.pace
    if not n_tasks or row.source == "not known" or (row.source == "spent" and not kept and pace is None):
        return None
    if row.source == "spent" and not kept and pace is not None:
        known = ScaledCost(tasks, pace.calls, pace.tokens, usd=pace.usd, seconds=pace.seconds)
    else:
        usd = None if row.usd is None else row.usd * tokens / max(1, row.tokens)
        seconds = None if row.seconds is None else row.seconds * kept / max(1, row.calls)
        known = ScaledCost(tasks, kept, tokens, usd=usd, seconds=seconds)
    whole = known.times((kept + row.reused) / max(1, known.calls))
    found = whole.times(1.0 if row.fixed else tasks / n_tasks)
    if spread is None or row.fixed or row.even:
        return found
    low, high = (found.times(share) for share in spread)
    return replace(found, tokens_low=low.tokens, tokens_high=high.tokens, usd_low=low.usd, usd_high=high.usd)


def _spread(study: Study, options: Options, *, pairs: bool) -> tuple[float, float] | None:
    """The interval of the mean length of what is read on a task, as shares of that mean; None: too few tasks.

    ``pairs``: every response is read with every other one; else each once.
    """
    read = []
    for task, responses in study.with_peers():
        times = len(responses) - 1 if pairs else 1
        lengths = sum(len(response.text) for response in responses)
        read.append(times * ((1 + pairs) * lengths + len(responses) * len(task.prompt or "")))
    mean = float(np.mean(read)) if read else 0.0
    if mean <= 0:
        return None
    draws: Draws = {"seed": options.seed, "resamples": options.resamples, "level": options.level}
    (found,) = task_intervals(np.array(read, np.float64)[:, None] / mean, **draws)
    return None if found.low is None or found.high is None else (max(0.0, found.low), found.high)
