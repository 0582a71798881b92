"""Costs of metrics: as spent in runs, as planned without a run, and scaled to another number of tasks.

A run's spending is read from its folder: calls, tokens and US dollars by model, for all metrics of the run together,
because metrics of one run share evidence. If the folder also has a review, their spending is separate, and what other
verbs spent there belongs to neither. Replies from the journal were paid for before and are counted separately. What no
run covers is planned, as if the journal were empty.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from goldless.errors import UserError
from goldless.judging.judges import find_judge
from goldless.meta_evaluation.cost.cost_report import Cost, CostReport, ScaledCost
from goldless.meta_evaluation.cost.judgement_costs import ReviewerCost
from goldless.models.cache import default_journal
from goldless.models.call_paces import Pace, call_paces
from goldless.models.interface import ModelIdentity
from goldless.reports.documents.scores import ModelNote, SpendingNote
from goldless.reports.run_folder import RunFolder
from goldless.runs.collection import with_peers
from goldless.runs.estimate import CHARACTERS_A_TOKEN, PlannedCalls, plan_study
from goldless.runs.options import Options
from goldless.runs.plan import with_default_metrics
from goldless.runs.store import MADE_BY
from goldless.statistics.bootstrap import task_intervals
from goldless.studies import Study
from goldless.user_metrics.catalogue import USER_METRICS

YOUR_OWN = tuple(f"{form.partition(':')[0]}:" for form in USER_METRICS)
"""Prefixes of the names of custom metrics."""
BLOCKS = 20
"""Blocks of tasks over which the spread of tokens is measured."""
TASKS_A_BLOCK = 2
COUNTED = "vllm:counted-only"
"""Replaces a model when only the length of its input matters. It is never opened."""


async def find_costs(
    study: Study,
    options: Options,
    *,
    tasks: int = 10_000,
    runs: Sequence[Path | str] = (),
    reviewers: Mapping[str, ReviewerCost] | None = None,
    scale: str = "pairwise",
) -> CostReport:
    """The costs of the metrics and reviewers on the study, and on ``tasks`` tasks. Calls no model.

    ``runs``: folders of runs and reviews of this study, whose spending is used instead of a plan. ``reviewers``: the
    costs of their judgements on ``scale``, from ``reviewer_costs`` or ``planned_reviewer_costs``.
    """
    if tasks < 1:
        raise UserError(f"tasks must be at least 1, got {tasks}. Try --tasks 10000")
    options = with_default_metrics(study, replace(options, recorded=False))
    known = call_paces(options.journal or default_journal()) if runs else ()
    paces = {identity.short: pace for identity, pace in known}
    found = [row for folder in runs for row in _spent(study, Path(folder), options, paces)]
    covered = {name for row in found for name in row.metrics}
    left = [name for name in dict.fromkeys(options.metrics) if name not in covered]
    notes: list[str] = []
    if left:
        planned, said = await _planned(study, replace(options, metrics=tuple(left)))
        found += planned
        notes += said
    for name, cost in (reviewers or {}).items():
        found.append(_reviewer(name, cost, scale, options))
    n_tasks = sum(1 for _ in with_peers(study))
    spread = await _spread(
        study, options, [row.metrics for row in found if row.source not in {"no model", "not known"}]
    )
    rows = tuple(replace(row, scaled=_scaled(row, n_tasks, tasks, spread.get(row.metrics))) for row in found)
    return CostReport(
        study=study.name,
        n_tasks=n_tasks,
        n_agents=len(study.agents),
        tasks=tasks,
        level=options.level,
        rows=rows,
        notes=(*notes, *_said(rows)),
        reviewers=tuple((reviewers or {}).values()),
    )


def _said(rows: Sequence[Cost]) -> list[str]:
    """What a reader of the tables must know."""
    notes = [
        f"calls of {part} grow with {growth}"
        for growth in dict.fromkeys(row.growth for row in rows if row.growth)
        for part in [", ".join(dict.fromkeys(row.part for row in rows if row.growth == growth))]
    ]
    if any(row.reused for row in rows):
        notes.append(
            "reused: from the journal, paid for before; costs on more tasks assume that every call is made again"
        )
    if any(row.unkept_calls for row in rows):
        notes.append("calls without a reply to keep, such as probes, are not counted on more tasks")
    if any(row.source == "spent" and len(row.metrics) > 1 for row in rows):
        notes.append("metrics of one run share evidence, so their spending is given together")
    if any(row.scaled is not None and row.scaled.tokens_low is not None for row in rows):
        notes.append(
            "intervals: Student's t or bootstrap over blocks of tasks, of the mean tokens per task by length of text "
            f"at {CHARACTERS_A_TOKEN} characters per token"
        )
    if any(row.source == "spent" and row.seconds is not None for row in rows):
        notes.append("time: the run's calls at the speed that the journal recorded for the model")
    return notes


# --- what runs have spent ------------------------------------------------------------------------------------------


def _spent(study: Study, folder: Path, options: Options, paces: Mapping[str, Pace]) -> list[Cost]:
    """The spending of a run or review, or of both, by model."""
    run = RunFolder(folder)
    board, review, noted = (run.required(name) for name in ("leaderboard", "review", "made_by"))
    if (board is None and review is None) or noted is None:
        raise UserError(
            f"{folder} is not a run folder: it needs leaderboard.json or review.json, and {MADE_BY}. "
            "Write one with goldless score --out or goldless review --out"
        )
    made = {verb: one.spending for verb, one in run.made_by.made.items()}
    if not made and "spending" in run.made_by.model_fields_set:
        # an old folder without separate verbs has one sum, taken as the first one's
        made = {"review" if board is None else "score": run.made_by.spending}
    rows: list[Cost] = []
    if run.leaderboard is not None and "score" in made:
        models = {part: _identity(note).short for part, note in run.leaderboard.models.items()}
        rows += _spent_rows(made["score"], tuple(run.leaderboard.metrics), models, str(folder), options)
    if run.review is not None and "review" in made:
        models = {reviewer.name: reviewer.model or "" for reviewer in run.review.reviewers}
        rows += _spent_rows(made["review"], (f"review[{run.review.scale}]",), models, str(folder), options)
    if not rows:
        raise UserError(f"{folder}: {MADE_BY} cannot be read as that of a run or review. Run it again")
    if any(one is not None and one.fingerprint != study.fingerprint for one in (run.leaderboard, run.review)):
        raise UserError(
            f"{folder} is a run of another study ({run.study_name}), or of this one before it was changed. Give runs "
            f"of {study.name}, or leave it out to plan the cost"
        )
    return [_with_pace(row, paces.get(row.model)) for row in rows]


def _spent_rows(
    spending: Sequence[SpendingNote], metrics: tuple[str, ...], parts: Mapping[str, str], run: str, options: Options
) -> list[Cost]:
    rows = [_spent_row(row, metrics, parts, run, options) for row in spending]
    return rows or [Cost(metrics=metrics, part="", model="", source="no model", run=run)]


def _with_pace(row: Cost, pace: Pace | None) -> Cost:
    seconds = None if pace is None or pace.seconds is None else pace.seconds / pace.calls * row.calls
    return replace(row, pace=pace, seconds=seconds)


def _identity(note: ModelNote) -> ModelIdentity:
    return ModelIdentity(note.provider, note.name, note.revision, note.tokenizer, note.settings)


def _spent_row(
    row: SpendingNote, metrics: tuple[str, ...], parts: Mapping[str, str], run: str, options: Options
) -> Cost:
    played = [part for part, model in parts.items() if model == row.model]
    calls, tokens, kept = row.calls or 0, sum(row.usage.values()), row.get("kept")
    kept_usage = row.get("kept_usage") or row.usage
    return Cost(
        metrics=metrics,
        part=", ".join(played) or "model",
        model=row.model,
        source="spent",
        run=run,
        calls=calls,
        reused=row.reused or 0,
        tokens=tokens,
        usd=row.cost_usd,
        unkept_calls=0 if kept is None else calls - kept,
        unkept_tokens=tokens - sum(kept_usage.values()),
        growth="; ".join(dict.fromkeys(_growth(part, options, metrics[0]) for part in played)),
        fixed=played == ["critic"] and options.budget_calls is not None,
    )


# --- what is planned -----------------------------------------------------------------------------------------------


async def _planned(study: Study, options: Options) -> tuple[list[Cost], tuple[str, ...]]:
    """The plan of each metric alone, as if the journal were empty."""
    with tempfile.TemporaryDirectory() as aside:
        plan = await plan_study(study, replace(options, journal=Path(aside) / "empty.sqlite"))
    asked = {row.metric for row in plan.rows}
    rows = [_planned_row(row, options) for row in plan.rows]
    names = [metric.name for metric in options.chosen_metrics()]
    rows += [_unasked(name) for name in names if name not in asked]
    order = {name: i for i, name in enumerate(names)}
    notes = list(plan.notes)
    if len(asked) > 1:
        notes.append(
            "planned metrics are counted separately; in one run, calls that they share are made once (goldless plan)"
        )
    return sorted(rows, key=lambda row: order[row.metrics[0]]), tuple(notes)


def _unasked(metric: str) -> Cost:
    """A metric that asks no model of ours; what a user's own one asks cannot be seen."""
    if metric.startswith(YOUR_OWN):
        return Cost(metrics=(metric,), part="", model="", source="not known", usd=None)
    return Cost(metrics=(metric,), part="", model="", source="no model")


def _planned_row(row: PlannedCalls, options: Options) -> Cost:
    return Cost(
        metrics=(row.metric or "",),
        part=row.part,
        model=row.model,
        source="planned",
        calls=row.calls,
        tokens=row.tokens,
        usd=row.cost_usd,
        seconds=row.seconds,
        growth=_growth(row.part, options, row.metric or ""),
        fixed=row.part == "critic" and options.budget_calls is not None,
    )


def _reviewer(name: str, cost: ReviewerCost, scale: str, options: Options) -> Cost:
    return Cost(
        metrics=(f"review[{scale}]",),
        part=name,
        model=name,
        source="spent" if cost.tokens_from in {"recorded", "measured"} else "estimated",
        calls=cost.judgements,
        tokens=round(cost.tokens),
        usd=cost.usd,
        growth=_reviewing(scale, options),
        even=cost.tokens_from == "given",
    )


def _reviewing(scale: str, options: Options) -> str:
    if not find_judge(scale).pairwise:
        return "tasks times agents"
    return f"tasks times agents² (every pair {'in both orders' if options.orders == 'both' else 'once'})"


def _growth(part: str, options: Options, metric: str) -> str:
    """How the calls of a part grow with tasks and agents, in words."""
    chosen = options.peer_sample is not None or options.peers is not None
    if part == "critic" and options.budget_calls is not None:
        return "nothing: the budget limits the calls"
    if part == "scorer" or part.startswith("juror "):
        return "tasks times agents (chosen peers)" if chosen else "tasks times agents² (every ordered pair of agents)"
    if part == "critic":
        pairs = "tasks times agents (chosen peers)" if chosen else "tasks times agents² (every ordered pair of agents)"
        return f"{pairs} times (1 + shuffles)"
    if part.startswith("rewriter"):
        return "tasks times agents (each response once)"
    if part == "synopsis writer":
        return "tasks"
    scale = metric.removeprefix("review[").removesuffix("]")
    return _reviewing(scale, options) if metric.startswith("review[") else "tasks"


# --- more tasks ----------------------------------------------------------------------------------------------------


def _scaled(row: Cost, n_tasks: int, tasks: int, spread: tuple[float, float] | None) -> ScaledCost | None:
    """The row on another number of tasks; None: there is nothing to reckon from."""
    if row.source == "no model":
        return ScaledCost(tasks, calls=0.0, tokens=0.0, usd=0.0)
    whole = None if row.source == "not known" else _asked_anew(row)
    if not n_tasks or whole is None:
        return None
    times = 1.0 if row.fixed else tasks / n_tasks
    tokens, usd = whole.tokens * times, None if whole.usd is None else whole.usd * times
    found = ScaledCost(
        tasks,
        calls=whole.calls * times,
        tokens=tokens,
        usd=usd,
        seconds=None if whole.seconds is None else whole.seconds * times,
    )
    if spread is None or row.fixed or row.even:
        return found
    found = replace(found, tokens_low=tokens * spread[0], tokens_high=tokens * spread[1])
    return found if usd is None else replace(found, usd_low=usd * spread[0], usd_high=usd * spread[1])


def _asked_anew(row: Cost) -> ScaledCost | None:
    """The row with replies from the journal counted as new calls, like this run's calls or the model's others."""
    kept, tokens = row.calls - row.unkept_calls, row.tokens - row.unkept_tokens
    calls = kept + row.reused
    if row.source != "spent" or kept:
        usd = None if row.usd is None else row.usd * tokens / max(1, row.tokens)
        seconds = None if row.seconds is None else row.seconds * kept / max(1, row.calls)
        known: tuple[int, float, float | None, float | None] = (kept, tokens, usd, seconds)
    elif row.pace is not None:
        known = (row.pace.calls, row.pace.tokens, row.pace.usd, row.pace.seconds)
    else:
        return None
    times = calls / max(1, known[0])
    usd, seconds = (None if one is None else one * times for one in known[2:])
    return ScaledCost(0, calls, known[1] * times, usd=usd, seconds=seconds)


async def _spread(
    study: Study, options: Options, asked: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], tuple[float, float]]:
    """The interval of the mean tokens per task as shares of that mean, by metrics computed together.

    Measured over blocks of tasks spread over the study, by the length of the input. The share does not depend on the
    model, so none is opened.
    """
    names = [task.task for task, _ in with_peers(study)]
    count = min(BLOCKS, len(names) // TASKS_A_BLOCK)
    if count < 2:
        return {}
    step = len(names) / (count * TASKS_A_BLOCK)
    some = [names[int(i * step)] for i in range(count * TASKS_A_BLOCK)]
    blocks = [study.subset(tasks=some[i::count]) for i in range(count)]
    counting = replace(
        options,
        scorer=COUNTED,
        critic=COUNTED,
        rewriters=tuple(f"{COUNTED}-{i}" for i, _ in enumerate(options.rewriters)),
        synopsis_writer=None if options.synopsis_writer is None else COUNTED,
        budget_calls=None,
        shuffles=1,
        compare_groups=None,
    )
    found = {}
    for metrics in dict.fromkeys(asked):
        if metrics[0].startswith("review["):
            pairwise = find_judge(metrics[0].removeprefix("review[").removesuffix("]")).pairwise
            tokens = [_characters_read(block, pairwise=pairwise) for block in blocks]
        else:
            tokens = [await _planned_tokens(block, replace(counting, metrics=metrics)) for block in blocks]
        mean = float(np.mean(tokens))
        if mean <= 0:
            continue
        shares = np.array(tokens)[:, None] / mean
        interval = task_intervals(shares, seed=options.seed, resamples=options.resamples, level=options.level)[0]
        if interval.low is not None and interval.high is not None:
            found[metrics] = (max(0.0, interval.low), interval.high)
    return found


async def _planned_tokens(study: Study, options: Options) -> int:
    """Tokens of a plan of all metrics together, with nothing in the journal."""
    with tempfile.TemporaryDirectory() as aside, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said of the whole study already
        plan = await plan_study(study, replace(options, journal=Path(aside) / "empty.sqlite"))
    return sum(row.tokens for row in plan.together)


def _characters_read(study: Study, *, pairwise: bool) -> int:
    """Characters of questions and responses that a reviewer of everything reads."""
    total = 0
    for task, responses in study:
        times = 2 * (len(responses) - 1) if pairwise else 1
        lengths = sum(len(response.text) for response in responses)
        questions = len(responses) * (len(responses) - 1) if pairwise else len(responses)
        total += lengths * times + questions * len(task.prompt or "")
    return total
