"""The result of ``goldless plan --cost``: what metrics and reviewers cost on a study, and on more tasks.

A run's spending is read from its folder: calls, tokens and US dollars by model, for all metrics of the run together,
because metrics of one run share evidence. If the folder also has a review, their spending is separate, and what other
verbs spent there belongs to neither. Replies from the journal were paid for before and are counted separately. What no
run covers is planned, as if the journal were empty. A price that is not known stays unknown.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from goldless.errors import CapabilityError, UserError, check_known
from goldless.judging.judges import find_judge
from goldless.meta_evaluation.judges import draws_of
from goldless.models.cache import default_journal
from goldless.models.catalogue import open_model, unopened_identity
from goldless.models.interface import ModelIdentity
from goldless.models.journal import Journal, ModelTotal, model_totals
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
from goldless.statistics.bootstrap import ABSENT, Estimate, task_intervals
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
    tokens: Estimate
    """Without an interval: too few tasks, or the cost does not depend on tasks."""
    usd: Estimate
    """None: price unknown."""
    seconds: float | None = None
    """None: not known."""
    KEYS = (
        *("tasks", "calls", "tokens:tokens.value", "tokens_low:tokens.low", "tokens_high:tokens.high"),
        *("usd:usd.value", "usd_low:usd.low", "usd_high:usd.high", "seconds"),
    )


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
    growth: str = ""
    """Growth of the calls, in words."""
    scaled: ScaledCost | None = None
    """None: there is nothing to scale."""


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
    KEYS = ("*", "total")

    @property
    def total(self) -> ScaledCost | None:
        """The sum over rows on the larger number of tasks; unknown if a price is unknown. None: no rows."""
        rows = [row.scaled for row in self.rows if row.scaled is not None]
        if not rows:
            return None
        usd = [None if row.scaled is None else row.scaled.usd.value for row in self.rows]
        seconds = [None if row.scaled is None else row.scaled.seconds for row in self.rows if row.source != "no model"]
        calls, tokens = sum(row.calls for row in rows), sum(row.tokens.value or 0.0 for row in rows)
        return ScaledCost(self.tasks, calls, Estimate(tokens), Estimate(_sum(usd)), _sum(seconds))

    def findings(self) -> Iterator[Said]:
        yield from ()

    def tables(self) -> list[ReportTable]:
        here = (
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
        there = (
            *here[:2],
            Column("scaled_calls", "calls", "large"),
            Column("scaled_tokens", "tokens", "large"),
            Column("scaled_usd", "USD", "usd", "unknown"),
            Column("share_low share_high", f"{self.level * 100:g}% interval", "shares", decimals=1),
            Column("scaled_seconds", "time", "seconds", "?"),
            Column("scaled_tokens_low scaled_tokens_high", "tokens", "interval", decimals=0, wide=True),
            Column("scaled_usd_low scaled_usd_high", "USD", "interval", decimals=2, wide=True),
            Column("growth", "grows with", wide=True),
        )
        rows = []
        for one in self.rows:
            row = {**write(one), "metric": ", ".join(one.metrics)}
            if (scaled := one.scaled) is not None:
                row |= {f"scaled_{name}": value for name, value in write(scaled).items()}
                tokens = scaled.tokens
                if tokens.value and tokens.low and tokens.high:
                    row |= {"share_low": tokens.low / tokens.value, "share_high": tokens.high / tokens.value}
            rows.append(row)
        titles = (
            f"Cost on {self.study}: {self.n_tasks} tasks, {self.n_agents} agents",
            f"The same on {self.tasks:,} similar tasks with {self.n_agents} agents",
        )
        return [ReportTable(title, columns, tuple(rows)) for title, columns in zip(titles, (here, there), strict=True)]


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum; None: one of the values is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _times(share: Estimate, amount: float | None) -> Estimate:
    low, high = (None if end is None or amount is None else end * amount for end in (share.low, share.high))
    return replace(share, value=amount, low=low, high=high)


async def find_costs(
    study: Study,
    options: Options,
    *,
    tasks: int = 10_000,
    runs: Sequence[Path | str] = (),
    prices: Mapping[str, Price] | None = None,
    tokens_a_judgement: float | None = None,
) -> CostReport:
    """The costs of the metrics and reviewers on the study, and on ``tasks`` tasks. Calls no model.

    ``runs``: folders of runs and reviews of this study, whose spending is used instead of a plan. ``prices``: by
    reviewer, overriding the price table. ``tokens_a_judgement``: of reviewers; None: a quarter of the question's
    characters and one for the verdict.
    """
    costs = _Costs(study, with_default_metrics(study, options), tasks)
    reviewing = list(costs.of_reviewers(prices or {}, tokens_a_judgement))
    rows = [row for folder in runs for row in costs.spent(Path(folder))]
    covered = {name for row in rows for name in row.metrics}
    if left := tuple(name for name in dict.fromkeys(costs.options.metrics) if name not in covered):
        rows += await costs.planned(left)
    rows += reviewing
    counts = costs.here, len(study.agents), tasks
    return CostReport(study.name, *counts, options.level, tuple(rows), (*costs.notes, *_notes(rows)))


def _notes(rows: Sequence[Cost]) -> Iterator[str]:
    for growth in dict.fromkeys(row.growth for row in rows if row.growth):
        whose = ", ".join(dict.fromkeys(row.part for row in rows if row.growth == growth))
        yield f"calls of {whose} grow with {growth}"
    spent = [row for row in rows if row.source == "spent"]
    if any(row.reused for row in rows):
        yield "reused: from the journal, paid for before; costs on more tasks assume that every call is made again"
    if spent:
        yield "calls without a reply to keep, such as probes, are not counted on more tasks"
    if any(len(row.metrics) > 1 for row in spent):
        yield "metrics of one run share evidence, so their spending is given together"
    if any(row.scaled is not None and row.scaled.tokens.low is not None for row in rows):
        yield "intervals: Student's t or bootstrap over tasks, of the length of what is read on a task"
    if any(row.seconds is not None for row in spent):
        yield "time: the run's calls at the speed that the journal recorded for the model"


class _Costs:
    """The rows of a report, and notes on them."""

    def __init__(self, study: Study, options: Options, tasks: int) -> None:
        self.study, self.options, self.tasks, self.here = study, options, tasks, study.n_tasks_with_peers
        self.spread = {pairs: self._spread(pairs=pairs) for pairs in (False, True)}
        self.notes: list[str] = []

    def _spread(self, *, pairs: bool) -> Estimate:
        """The mean length of what is read on a task, as a share of itself.

        ``pairs``: every response is read with every other one; else each once.
        """
        read = []
        for task, responses in self.study.with_peers():
            times = len(responses) - 1 if pairs else 1
            lengths = sum(len(response.text) for response in responses)
            read.append(times * ((1 + pairs) * lengths + len(responses) * len(task.prompt or "")))
        mean = float(np.mean(read)) if read else 0.0
        if mean <= 0:
            return ABSENT
        (found,) = task_intervals(np.array(read, np.float64)[:, None] / mean, **draws_of(self.options))
        return found if found.low is None else replace(found, low=max(0.0, found.low))

    def _scaled(self, row: Cost, *, even: bool = False, times: float = 1.0) -> ScaledCost | None:
        """The row on more tasks, ``times`` as many calls each; ``even``: tokens are assumed equal on every task."""
        if not self.here:
            return None
        fixed = row.part == "critic" and self.options.budget_calls is not None
        by = times * (1.0 if fixed else self.tasks / self.here)
        usd, seconds = (None if one is None else one * by for one in (row.usd, row.seconds))
        spread = ABSENT if fixed or even else self.spread["agents²" in row.growth]
        return ScaledCost(self.tasks, row.calls * by, _times(spread, row.tokens * by), _times(spread, usd), seconds)

    def _growth(self, part: str, metric: str) -> str:
        """Growth of a part's calls with tasks and agents, in words."""
        options, scale = self.options, metric.removeprefix("review[").removesuffix("]")
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

    def _free(self, metrics: tuple[str, ...], run: str | None = None) -> Cost:
        free = ScaledCost(self.tasks, 0.0, tokens=Estimate(0.0), usd=Estimate(0.0))
        return Cost(metrics=metrics, part="", model="", source="no model", run=run, scaled=free)

    # --- what runs have spent

    def spent(self, folder: Path) -> Iterator[Cost]:
        """The spending of a run or review, or of both, by model."""
        run = RunFolder(folder)
        for name in ("leaderboard", "review", "made_by"):
            run.required(name)
        made, board, review = run.made_by.made, run.leaderboard, run.review
        sources: list[tuple[Sequence[Spending], tuple[str, ...], dict[str, str]]] = []
        if board is not None and "score" in made:
            models = {part: identity.short for part, identity in board.models.items()}
            sources.append((made["score"].spending, tuple(board.metrics), models))
        if review is not None and "review" in made:
            models = {reviewer.name: reviewer.model or "" for reviewer in review.reviewers}
            sources.append((made["review"].spending, (f"review[{review.scale}]",), models))
        if not sources:
            raise UserError(
                f"{folder} is not a run folder: it needs leaderboard.json or review.json, and {MADE_BY} that says "
                "what they cost. Write one with goldless score --out or goldless review --out"
            )
        if any(one is not None and one.fingerprint != self.study.fingerprint for one in (board, review)):
            raise UserError(
                f"{folder} is a run of another study ({run.study_name}), or of this one before it was changed. Give "
                f"runs of {self.study.name}, or leave it out to plan the cost"
            )
        with closing(Journal(self.options.journal or default_journal())) as journal:
            totals = {total.model: total for total in model_totals(journal)}
        for spending, metrics, models in sources:
            if not spending:
                yield self._free(metrics, str(folder))
            for one in spending:
                played = [part for part, model in models.items() if model == one.model]
                growth = "; ".join(dict.fromkeys(self._growth(part, metrics[0]) for part in played))
                row = Cost(metrics=metrics, part=", ".join(played) or "model", model=one.model, source="spent")
                row = replace(row, run=str(folder), growth=growth)
                yield self._spent_row(row, one, totals.get(one.model))

    def _spent_row(self, row: Cost, spent: Spending, total: ModelTotal | None) -> Cost:
        """The row with what was spent; on more tasks, replies from the journal are asked for anew.

        Such a reply costs what this run's calls cost or, where it made none, the model's others.
        """
        row = replace(row, calls=spent.calls, reused=spent.reused, usd=spent.cost_usd)
        row = replace(row, tokens=spent.usage.input_tokens + spent.usage.output_tokens)
        kept, usage = spent.calls if spent.kept is None else spent.kept, spent.kept_usage or spent.usage
        if kept:  # without probes and failed attempts, which do not grow with the tasks
            tokens = usage.input_tokens + usage.output_tokens
            usd = None if row.usd is None else row.usd * tokens / max(1, row.tokens)
            base = replace(row, calls=kept, tokens=tokens, usd=usd)
        elif total is not None:
            base = replace(row, calls=total.calls, tokens=total.tokens, usd=total.cost_usd)
        else:
            return row
        return replace(row, scaled=self._scaled(base, times=(kept + row.reused) / max(1, base.calls)))

    # --- what is planned

    async def planned(self, metrics: Sequence[Any]) -> list[Cost]:
        """The plan of each metric alone, as if the journal were empty."""
        options = replace(self.options, metrics=tuple(metrics))
        with tempfile.TemporaryDirectory() as aside:
            plan = await plan_study(self.study, replace(options, journal=Path(aside) / "empty.sqlite"))
        self.notes += plan.notes
        found: list[Cost] = []
        asking = {row.metric for row in plan.rows}
        for name in (metric.name for metric in options.chosen_metrics()):
            for row in (row for row in plan.rows if row.metric == name):
                cost = Cost(metrics=(name,), part=row.part, model=row.model, source="planned", calls=row.calls)
                paid: dict[str, Any] = {"tokens": row.tokens, "usd": row.cost_usd, "seconds": row.seconds}
                cost = replace(cost, **paid, growth=self._growth(row.part, name))
                found.append(replace(cost, scaled=self._scaled(cost)))
            if name not in asking:  # what a custom metric asks cannot be seen
                unseen = Cost(metrics=(name,), part="", model="", source="not known", usd=None)
                found.append(unseen if name.startswith(YOUR_OWN) else self._free((name,)))
        if len(asking) > 1:
            self.notes.append(
                "planned metrics are counted separately; in one run, calls that they share are made once (goldless "
                "plan)"
            )
        return found

    def of_reviewers(self, prices: Mapping[str, Price], tokens_a_judgement: float | None) -> Iterator[Cost]:
        """The cost of asking each reviewer about everything."""
        study, options, scale = self.study, self.options, self.options.chosen_scale
        named = named_reviewers(options.reviewers)
        check_known(prices, named, "--reviewer-price: no reviewer", "Reviewers")
        texts = {(one.task, one.agent): one.text for _, responses in study for one in responses}
        prompts = {task.task: task.prompt for task, _ in study}
        metric = f"review[{options.scale}]"
        for name, given in named.items():
            identity = _identity(given)
            asked = review_questions(self.study, self.options, name, None if identity is None else identity.name)
            read, written = 0.0, float(len(asked))
            if tokens_a_judgement is None:
                described = options.descriptions.get(name, options.task_description)
                for one in asked:
                    shown = texts[one.task, one.first], texts.get((one.task, one.second or ""))
                    messages = scale.messages(*shown, prompt=prompts[one.task], task_description=described)
                    read += sum(len(message.content) for message in messages) // CHARACTERS_A_TOKEN + 1
            else:
                written *= min(1.0, tokens_a_judgement)
                read = tokens_a_judgement * len(asked) - written
            price = prices.get(name) or (Price(0.0, 0.0) if identity is None else price_of(identity) or options.price)
            price = price and price.of_call(read / max(1, len(asked)))
            usd = None if price is None else (read * price.input_usd + written * price.output_usd) / MILLION
            row = Cost(metrics=(metric,), part=name, model=name, source="estimated", calls=len(asked), usd=usd)
            row = replace(row, tokens=round(read + written), growth=self._growth(name, metric))
            yield replace(row, scaled=self._scaled(row, even=tokens_a_judgement is not None))
            paid = "price unknown" if price is None else f"{price.input_usd:g} USD/M in, {price.output_usd:g} out"
            self.notes.append(f"{name}: {(read + written) / max(1, len(asked)):,.0f} tokens per judgement, {paid}")


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
