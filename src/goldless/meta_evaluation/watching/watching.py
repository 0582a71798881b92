"""Ask the anchors again, and say whether the judge or the system changed.

folder → what is watched checked → anchors asked anew → occasion added → evidence of a change → who changed
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from goldless.errors import MetricError, UserError
from goldless.meta_evaluation.judges import response_scores
from goldless.meta_evaluation.watching.results import WatchedProcess, WatchReport
from goldless.meta_evaluation.watching.watch_folder import (
    Occasion,
    Watched,
    add_occasion,
    as_known,
    check_same,
    now,
    read_stream,
    read_watch,
    start_watch,
    stream_values,
)
from goldless.runs.opening import Spending
from goldless.runs.options import DEFAULT_METRICS, Options, check_options, check_review_options
from goldless.runs.pipeline import review_study, score_study
from goldless.statistics.change_evidence import Values, change_evidence, check_alpha
from goldless.studies import Study

FIRST_REPEATS = 4
"""How often the anchors are asked on the first occasion."""
GUARD = 2
"""Occasions within which the anchors must follow for an alarm of the stream to be the judge's."""
KEPT = ("rewrites", "synopses")
"""Recorded tables that are not what the watched model says."""


@dataclass(frozen=True, slots=True)
class _Asked:
    values: dict[str, float | None]
    model: str
    open: int
    spending: tuple[Spending, ...]


async def watch(
    anchors: Study,
    options: Options,
    *,
    folder: Path | str,
    stream: Path | str | None = None,
    alpha: float = 0.05,
    guard: int = GUARD,
    repeats: int | None = None,
    restart: bool = False,
) -> WatchReport:
    """Ask a judge or scorer all anchors anew, add the occasion to the folder, and report what changed.

    The judge is the one reviewer, or the model behind the one metric, of the options. ``stream``: scores of the system
    since the last occasion, a file or a run folder. ``repeats``: how often each anchor is asked now; None: 4 on the
    first occasion, then 1. ``restart``: compare from here on, after an alarm. An occasion that is interrupted is
    resumed by the same call, and nothing is paid for twice.
    """
    folder = Path(folder)
    check_alpha(alpha)
    if guard < 0 or (repeats is not None and repeats < 1):
        raise UserError(f"--guard must be at least 0 and --repeats at least 1, got {guard} and {repeats}")
    judge = _judge(options)
    known, occasions = read_watch(folder)
    given = Watched(anchors.name, anchors.fingerprint, judge, alpha, options.seed, uuid.uuid4().hex)
    if known is None:
        start_watch(folder, given)
        known = given
    check_same(folder, known, given)
    scores, stream_hash = ({}, None) if stream is None else read_stream(Path(stream), occasions)
    number = len(occasions) + 1
    fresh = restart or not occasions
    times = repeats or (FIRST_REPEATS if fresh else 1)
    asked = [
        await _ask(anchors, replace(options, occasion=f"{known.id}/{number}/{turn}"), judge) for turn in range(times)
    ]
    spending = tuple(row for one in asked for row in one.spending)
    if open_ := sum(one.open for one in asked):
        return replace(_report(folder, known, occasions, guard), open=open_, spending=spending)
    model = asked[0].model
    if occasions and occasions[-1].model != model:
        raise UserError(
            f"{folder} watches {occasions[-1].model}, but the model now reports itself as {model}: it is known to have "
            "changed. Start another watch in a new folder"
        )
    values = {item: [value for one in asked if (value := one.values.get(item)) is not None] for item in asked[0].values}
    missing = sum(value is None for one in asked for value in one.values.values())
    kept = {item: found for item, found in values.items() if found}
    if not kept:
        raise MetricError(
            f"{model} gave no value to any anchor, so the occasion is not added. Run goldless doctor on it"
        )
    new = Occasion(number, now(), model, kept, missing, dict(scores), stream_hash, restart)
    report = _report(folder, known, [*occasions, new], guard)  # a stream that does not fit is refused before it is kept
    add_occasion(folder, occasions, new)
    told = [note] if (note := _from_people(anchors, [*occasions, new])) else []
    return replace(report, spending=spending, notes=(*report.notes, *told))


def watched(folder: Path | str, *, guard: int = GUARD) -> WatchReport:
    """What is known from the occasions so far; asks nothing."""
    known, occasions = read_watch(Path(folder))
    if known is None:
        raise UserError(f"{folder} is not a watch. Start one with goldless watch {folder} --anchors STUDY")
    return _report(Path(folder), known, occasions, guard)


# --- asking ----------------------------------------------------------------------------------------------------------


def _judge(options: Options) -> dict[str, str]:
    """How the anchors are asked, as the folder keeps it. Refuses what cannot be watched, before any call."""
    if options.recorded:
        raise UserError("--recorded asks no model, so there is nothing to watch")
    if options.reviewers:
        check_review_options(options)
        given = options.reviewers
        names = [f"{n}={m}" for n, m in given.items()] if isinstance(given, Mapping) else [*map(_name, given)]
        if len(names) > 1:
            raise UserError(f"one reviewer can be watched at a time, got {len(names)}. Start a watch for each")
        if not options.metrics or tuple(options.metrics) == (DEFAULT_METRICS,):
            return as_known({"reviewer": names[0], "scale": options.scale, **_asked_with(options)})
        raise UserError("--metric and --reviewers exclude each other: watch a scorer or a reviewer")
    if tuple(options.metrics) in {(), (DEFAULT_METRICS,)}:
        raise UserError("name what to watch: --reviewers MODEL --scale 5-level, or --metric gem-raw --scorer MODEL")
    metrics = check_options(options)
    if len(metrics) > 1:
        raise UserError(f"one metric can be watched at a time, got {len(metrics)}. Start a watch for each")
    needs = metrics[0].needs
    if needs.logprobs is None and needs.verdicts is None:
        raise MetricError(f"{metrics[0].name} asks no model, so there is nothing to watch. Try gem-raw")
    return as_known(
        {
            "metric": metrics[0].name,
            "scorer": _name(options.scorer) if needs.logprobs is not None else "",
            "critic": _name(options.critic) if needs.verdicts is not None else "",
            "template": ",".join(template.name for template in options.chosen_templates()),
            "peers": ",".join(options.peers or ()),
            "peer sample": options.peer_sample,
            **_asked_with(options),
        }
    )


def _asked_with(options: Options) -> dict[str, Any]:
    return {"verdicts": options.verdicts, "task description": options.task_description}


def _name(model: Any) -> str:
    return model if isinstance(model, str) else str(model.identity.short)


async def _ask(anchors: Study, options: Options, judge: Mapping[str, str]) -> _Asked:
    """The value of each item: a rating, a preference over both orders, or the mean score of a task."""
    study = anchors.without_recorded(except_=KEPT)
    if "metric" in judge:
        scored = await score_study(study, options)
        by_task: dict[str, list[float]] = {task: [] for task in study.tasks}
        for (task, _), score in response_scores(scored.scores[judge["metric"]]).items():
            if score is not None:
                by_task[task].append(score)
        values = {task: float(np.mean(found)) if found else None for task, found in by_task.items()}
        models = dict.fromkeys(model.identity.short for model in scored.collected.models.values())
        return _Asked(values, ", ".join(models), scored.evidence.open, scored.spending)
    review = await review_study(study, replace(options, exams=("none",), own_family=True))
    names = ", ".join(one.model or one.name for one in review.reviewers)
    return _Asked(_judged(review.judgements), names, review.open, review.spending)


def _judged(rows: pl.DataFrame) -> dict[str, float | None]:
    """Each rating, or the preference for the agent whose name comes first, over both orders."""
    found: dict[str, list[float | None]] = {}
    for task, first, second, agent, value in rows.select("task", "first", "second", "agent", "value").iter_rows():
        if agent is not None:
            found.setdefault(f"{task} / {agent}", []).append(value)
            continue
        low, high = sorted((first, second))
        turned = value if value is None or low == first else 1 - value
        found.setdefault(f"{task} / {low}, {high}", []).append(turned)
    return {
        item: None if any(value is None for value in values) else float(np.mean(np.array(values, np.float64)))
        for item, values in found.items()
    }


# --- what changed ----------------------------------------------------------------------------------------------------


def _report(folder: Path, known: Watched, occasions: Sequence[Occasion], guard: int) -> WatchReport:
    starts = [place for place, one in enumerate(occasions) if one.restart]
    since = list(occasions[starts[-1] :]) if starts else list(occasions)
    streams, among = stream_values(since)
    rows = [_process("judge (anchors)", known, since, [one.anchors for one in since], seed=known.seed)]
    if any(one.stream for one in since):
        rows.append(_process("system (stream)", known, since, streams, seed=known.seed + 1))
    rows = [row for row in rows if row is not None]
    who, verdict = _who([row for row in rows if row is not None], len(occasions), guard)
    notes = []
    if len(rows) > 1:
        notes.append(f"A score of the stream is compared with {among}. Each process has its own false-alarm rate.")
    if since and since[-1].missing:
        notes.append(f"{since[-1].missing} anchors have no value this time, such as replies that could not be read.")
    if since and (moved := _moved(since)):
        notes.append(moved)
    return WatchReport(
        folder=str(folder),
        anchors=known.anchors,
        model=occasions[-1].model if occasions else known.judge.get("reviewer", known.judge.get("scorer", "")),
        alpha=known.alpha,
        occasions=len(occasions),
        processes=tuple(row for row in rows if row is not None),
        who=who,
        verdict=verdict,
        notes=tuple(notes),
    )


def _process(
    name: str, known: Watched, occasions: Sequence[Occasion], values: Sequence[Values], *, seed: int
) -> WatchedProcess | None:
    there = [place for place, one in enumerate(values) if any(one.values())]
    if not there:
        return None
    found = change_evidence(values, alpha=known.alpha, seed=seed)
    alarm = next((occasions[place].number for place, one in enumerate(found) if one.alarm), None)
    first, last = values[there[0]], values[there[-1]]
    at = next(place for place, one in enumerate(found) if one.alarm) if alarm is not None else len(found) - 1
    return WatchedProcess(
        process=name,
        occasions=len(there),
        items=len({item for one in values for item in one}),
        values=sum(len(some) for one in values for some in one.values()),
        missing=occasions[-1].missing if name.startswith("judge") else 0,
        first_mean=_mean(first),
        last_mean=_mean(last),
        evidence=found[-1].evidence,
        direction=found[at].direction,
        alarm_at=alarm,
    )


def _mean(values: Values) -> float:
    return float(np.mean([np.mean(found) for found in values.values() if len(found)]))


def _who(rows: Sequence[WatchedProcess], number: int, guard: int) -> tuple[str | None, str]:
    """Who changed, and the sentence that says it."""
    alarms = {row.process.split()[0]: row.alarm_at for row in rows if row.alarm_at is not None}
    judge, system = alarms.get("judge"), alarms.get("system")
    if judge is None and system is None:
        return None, f"No change is shown after {number} occasion{'s' * (number != 1)}."
    if system is None:
        return "judge", "The judge changed: it gives other values to the same anchors."
    if judge is None:
        rest = system + guard - number
        later = f" This is final if the anchors stay quiet for {rest} more occasions." if rest > 0 else ""
        return "system", f"The system changed: its scores changed, while the judge's anchors are quiet.{later}"
    if judge <= system + guard:
        return "judge", (
            "The judge changed: its anchors changed too, so the system's scores say nothing about the system. Score it "
            "with a judge that did not change."
        )
    return "both", f"The system changed on occasion {system}, and the judge later, on occasion {judge}."


def _from_people(anchors: Study, occasions: Sequence[Occasion]) -> str | None:
    """How far ratings are from people's, at first and now; None: the anchors have no ratings of the same items."""
    labels: dict[str, list[float]] = {}
    for rating in anchors.ratings():
        labels.setdefault(f"{rating.task} / {rating.agent}", []).append(rating.score)
    means = []
    for one in (occasions[0], occasions[-1]):
        off = [np.mean(values) - np.mean(labels[item]) for item, values in one.anchors.items() if item in labels]
        means.append(np.mean(off) if off else None)
    if None in means:
        return None
    return f"Judge minus people on the labelled anchors: {means[0]:+.2f} on the first occasion, {means[1]:+.2f} now."


def _moved(occasions: Sequence[Occasion]) -> str | None:
    """What a judge without noise shows at once: a value that was always the same is another one now."""
    *before, last = occasions
    same = {
        item: set(values)
        for item in last.anchors
        if len(values := [v for one in before for v in one.anchors.get(item, [])]) > 1 and len(set(values)) == 1
    }
    other = [item for item, values in same.items() if set(last.anchors[item]) != values]
    if not other or len(same) < len(last.anchors):
        return None
    return (
        f"Every anchor had the same value on each earlier occasion; {len(other)} of {len(same)} have another one now."
    )
