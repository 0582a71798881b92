"""Watching: fixed anchors asked again, and whether the judge or the system changed.

folder → what is watched checked → anchors asked anew → occasion added → evidence of a change → who changed
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from goldless import __version__
from goldless.apps.watch.change_evidence import Values, change_evidence, check_alpha
from goldless.errors import MetricError, UserError
from goldless.files import alone, write_json, write_text
from goldless.meta_evaluation.judges import read_table
from goldless.reports.document import InMemory, Result, cells, read, write, written_property
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.runs.options import DEFAULT_METRICS, Options, check_options, check_review_options
from goldless.runs.pipeline import review_study, score_study
from goldless.runs.store import try_writing
from goldless.studies import Study
from goldless.studies.checking import all_at_once

FIRST_REPEATS = 4
"""Number of times the anchors are asked on the first occasion."""
GUARD = 2
"""Occasions within which the anchors must follow for an alarm of the stream to be the judge's."""
KEPT = ("rewrites", "synopses")
"""Recorded tables that are not what the watched model says."""
WATCH, OCCASIONS = "watch.json", "occasions.jsonl"
Numbers = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class WatchedProcess:
    """One process: the judge on its anchors, or the system's stream."""

    process: str
    """``judge (anchors)`` or ``system (stream)``."""
    occasions: int
    items: int
    values: int
    """Values in all."""
    missing: int
    """Items without a value on the last occasion."""
    first_mean: float
    """Mean on the first occasion of the comparison, over the items that have a value on the last occasion too."""
    last_mean: float
    """Mean on the last occasion, over the same items."""
    evidence: float
    """20 is an alarm with a false-alarm rate of 0.05."""
    direction: str
    alarm_at: int | None
    """Number of the occasion of the alarm; None: quiet."""

    @written_property
    def state(self) -> str:
        if self.alarm_at is None:
            return "quiet"
        return f"CHANGED on occasion {self.alarm_at}: {self.direction}"


@dataclass(frozen=True)
class WatchReport(Result):
    """The findings after the last occasion."""

    folder: str
    anchors: str
    model: str
    alpha: float
    occasions: int
    processes: tuple[WatchedProcess, ...]
    who: str | None
    """``judge``, ``system`` or ``both``; None: quiet."""
    verdict: str
    notes: tuple[str, ...] = ()
    open: int = 0
    """Calls that failed for a temporary cause: the occasion was not added."""
    spending: InMemory[tuple[Any, ...]] = ()

    @property
    def changed(self) -> bool:
        return self.who is not None

    def tables(self) -> list[ReportTable]:
        columns = (
            Column("process", "process"),
            *(Column(name, name, "count") for name in ("occasions", "items")),
            Column("values", "values", "count", wide=True),
            Column("missing", "missing", "count"),
            Column("first_mean", "first mean", "number", decimals=3),
            Column("last_mean", "last mean", "number", decimals=3),
            Column("evidence", "evidence", "figure"),
            Column("state", "state"),
        )
        rows = tuple(
            # two digits; a large number by its power of ten
            cells(one, state=one.state, evidence=f"{one.evidence:{'.2g' if one.evidence < 1000 else '.0e'}}")
            for one in self.processes
        )
        title = f"{self.model} on {self.anchors}, alarm at {1 / self.alpha:g}"
        return [ReportTable(title, columns, rows, notes=(self.verdict,))] if rows else []


# --- the folder ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Watched:
    """The subject of a watch, the same on every occasion."""

    anchors: str
    """Name of the study of anchors."""
    fingerprint: str
    judge: Mapping[str, str]
    """The way the anchors are asked: the model as given, the metric or scale, the wording."""
    alpha: float
    seed: int
    id: str
    """A random name, which keeps the calls of this watch apart in the journal."""
    goldless: str = __version__

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if self.seed < 0:
            raise UserError(f"seed must be at least 0, got {self.seed}")


@dataclass(frozen=True)
class Occasion:
    """One occasion."""

    number: int
    at: str
    model: str
    """Identity of the model, as it reported itself."""
    anchors: Numbers
    """Values by item."""
    missing: int
    """Items without a value, such as replies that could not be read."""
    stream: Numbers = field(default_factory=dict)
    """Scores of the system by response; empty: none were given."""
    stream_hash: str | None = None
    restart: bool = False
    """True if the comparison starts anew here."""


def read_watch(folder: Path) -> tuple[Watched | None, list[Occasion]]:
    """The contents of the folder; None and nothing if it is new."""
    if not (folder / WATCH).is_file():
        return None, []
    try:
        known = read(Watched, (folder / WATCH).read_bytes())
        path = folder / OCCASIONS
        lines = path.read_bytes().splitlines() if path.is_file() else []
        return known, [read(Occasion, line) for line in lines if line.strip()]
    except (OSError, ValueError, RecursionError, UserError) as error:
        said = f"{folder}: the watch cannot be read ({error}). Restore it, or watch in another folder"
        raise UserError(said) from error


def add_occasion(folder: Path, known: Sequence[Occasion], new: Occasion) -> None:
    """Append an occasion. Raises if another process did so in the meantime."""
    with alone(folder):
        _, there = read_watch(folder)
        if len(there) != len(known):
            raise UserError(f"{folder}: another command added occasion {len(there)} in the meantime. Run one at a time")
        lines = [json.dumps(write(one), ensure_ascii=False, allow_nan=False) + "\n" for one in (*there, new)]
        write_text(folder / OCCASIONS, "".join(lines))


def _same_watch(folder: Path, given: Watched) -> tuple[Watched, list[Occasion]]:
    """The watch of the folder, started if it is new; others than those of the first occasion are refused."""
    known, occasions = read_watch(folder)
    if known is None:
        try_writing(folder, "Choose another folder")
        with alone(folder):
            if any(folder.iterdir()):
                raise UserError(f"{folder} has other files. Give a new folder to a watch")
            write_json(folder / WATCH, write(given))
        return given, []
    was, now = ({"anchors": one.fingerprint[:8], "--alpha": f"{one.alpha:g}", **one.judge} for one in (known, given))
    for name in {**was, **now}:
        if was.get(name) != now.get(name):
            raise UserError(
                f"{folder} watches {name} {was.get(name, 'none')}, got {now.get(name, 'none')}. Give the same as "
                "on the first occasion, or start another watch in a new folder"
            )
    return known, occasions


# --- the system's stream ---------------------------------------------------------------------------------------------


def _read_stream(path: Path, known: Sequence[Occasion]) -> tuple[Numbers, str | None]:
    """The scores of a file or run folder by response, and its hash. A file given before is refused.

    A response whose score is missing has none, and is still one of the stream.
    """
    path = RunFolder(path).scores_file if path.is_dir() else path
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    if content and (before := next((one.number for one in known if one.stream_hash == content), None)):
        raise UserError(f"{path}: the same scores were given on occasion {before}. Give those since then")
    names = ("metric", "task", "agent")
    columns: dict[str, Any] = {**dict.fromkeys(names, "optional_name"), "score": "optional_number"}
    with all_at_once("stream") as problems:
        rows, check = read_table(path, columns, problems)
        metrics = sorted({name or "" for name in rows["metric"]})
        if len(metrics) > 1:
            check.add(f"scores must be of one metric, got {', '.join(metrics)}")
        if rows["score"].null_count() == len(rows) and not check.broken:
            check.add("no scores. The columns are score and, where they recur, task and agent")
    item = pl.concat_str("task", "agent", separator=" / ", ignore_nulls=True).alias("item")
    scores = rows.group_by(item, maintain_order=True).agg(pl.col("score").drop_nulls())
    return {name: tuple(values) for name, values in scores.iter_rows()}, content


def _stream_values(occasions: Sequence[Occasion]) -> tuple[list[Values], str]:
    """The stream of each occasion, and what a score is ranked among.

    Where the second occasion has the responses of the first, each is compared with its own earlier scores, otherwise
    with all earlier scores.
    """
    given = [one for one in occasions if one.stream]
    if len(given) < 2 or set(given[0].stream) != set(given[1].stream) or "" in given[0].stream:
        return [{"": [*chain.from_iterable(one.stream.values())]} for one in occasions], "all earlier scores"
    for one in given:
        if set(one.stream) != set(given[0].stream):
            raise UserError(
                f"the stream of occasion {one.number} must have the responses of the first occasion, got "
                f"{len(set(one.stream) ^ set(given[0].stream))} others. Start another watch in a new folder"
            )
    return [dict(one.stream) for one in occasions], "its own earlier scores"


# --- asking ----------------------------------------------------------------------------------------------------------


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
    judge = _judge(options)
    given = Watched(anchors.name, anchors.fingerprint, judge, alpha, options.statistics.seed, uuid.uuid4().hex)
    known, occasions = _same_watch(folder, given)
    scores, stream_hash = ({}, None) if stream is None else _read_stream(Path(stream), occasions)
    number = len(occasions) + 1
    times = repeats or (FIRST_REPEATS if restart or not occasions else 1)
    asked = [
        await _ask(anchors, replace(options, occasion=f"{known.id}/{number}/{turn}"), judge) for turn in range(times)
    ]
    spending = tuple(row for _, _, _, costs in asked for row in costs)
    if left := sum(still_open for _, _, still_open, _ in asked):
        return replace(_report(folder, known, occasions, guard), open=left, spending=spending)
    model = asked[0][1]
    if occasions and occasions[-1].model != model:
        raise UserError(
            f"{folder} watches {occasions[-1].model}, but the model now reports itself as {model}: it is known to have "
            "changed. Start another watch in a new folder"
        )
    given_values = [pair for values, *_ in asked for pair in values.items()]
    rows = pl.DataFrame(given_values, {"item": pl.String, "value": pl.Float64}, orient="row")
    heard = rows.drop_nulls().group_by("item", maintain_order=True).agg("value")
    if not len(heard):
        raise MetricError(
            f"{model} gave no value to any anchor, so the occasion is not added. Run goldless doctor on it"
        )
    values = {item: tuple(some) for item, some in heard.iter_rows()}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    new = Occasion(number, now, model, values, rows["value"].null_count(), dict(scores), stream_hash, restart)
    report = _report(folder, known, [*occasions, new], guard)  # a stream that does not fit is refused before it is kept
    add_occasion(folder, occasions, new)
    told = [note] if (note := _from_people(anchors, [*occasions, new])) else []
    return replace(report, spending=spending, notes=(*report.notes, *told))


def watched(folder: Path | str, *, guard: int = GUARD) -> WatchReport:
    """The findings from the occasions so far; asks nothing."""
    known, occasions = read_watch(Path(folder))
    if known is None:
        raise UserError(f"{folder} is not a watch. Start one with goldless watch {folder} --anchors STUDY")
    return _report(Path(folder), known, occasions, guard)


def _judge(options: Options) -> dict[str, str]:
    """The way the anchors are asked, as the folder keeps it. Refuses what cannot be watched, before any call."""
    chosen = () if tuple(options.scoring.metrics) == (DEFAULT_METRICS,) else tuple(options.scoring.metrics)
    given = options.review.reviewers
    names = [f"{n}={m}" for n, m in given.items()] if isinstance(given, Mapping) else [*map(_name, given)]
    if chosen and names:
        raise UserError("--metric and --reviewers exclude each other: watch a scorer or a reviewer")
    if not chosen and not names:
        raise UserError("name what to watch: --reviewers MODEL --scale 5-level, or --metric gem-raw --scorer MODEL")
    if len(chosen or names) > 1:
        what = "metric" if chosen else "reviewer"
        raise UserError(f"one {what} can be watched at a time, got {len(chosen or names)}. Start a watch for each")
    if names:
        check_review_options(options)
        found = {"reviewer": names[0], "scale": options.review.scale}
    else:
        (metric,) = check_options(options)
        if metric.needs.logprobs is None and metric.needs.verdicts is None:
            raise MetricError(f"{metric.name} asks no model, so there is nothing to watch. Try gem-raw")
        found = {
            "metric": metric.name,
            "scorer": _name(options.scoring.scorer) if metric.needs.logprobs is not None else "",
            "critic": _name(options.scoring.critic) if metric.needs.verdicts is not None else "",
            "template": ",".join(template.name for template in options.scoring.chosen_templates()),
            "peers": str(options.scoring.peers)
            if isinstance(options.scoring.peers, int)
            else ",".join(options.scoring.peers or ()),
        }
    found |= {"verdicts": options.models.verdicts, "task description": options.review.task_description or ""}
    return {name: value for name, value in found.items() if value}


def _name(model: Any) -> str:
    return model if isinstance(model, str) else str(model.identity.short)


async def _ask(
    anchors: Study, options: Options, judge: Mapping[str, str]
) -> tuple[dict[str, float | None], str, int, tuple[Any, ...]]:
    """The value of each item, who gave it, how many calls are open, and what they cost.

    An item is a rating, a preference over both orders, or the mean score of a task; where a part of it is missing, it
    is missing.
    """
    study = anchors.without_recorded(except_=KEPT)
    if "metric" in judge:
        scored = await score_study(study, options)
        responses = scored.scores[judge["metric"]].responses
        by_task = responses.group_by(pl.col("task").cast(pl.String))
        # a mean over the responses that happen to have a score would change with what is missing
        is_complete = (pl.col("score").null_count() == 0) & (pl.col("used").sum() == pl.col("asked").sum())
        means = by_task.agg(pl.when(is_complete).then(pl.col("score").mean()))
        values: dict[str, float | None] = dict.fromkeys(study.tasks) | dict(means.iter_rows())
        models = dict.fromkeys(model.identity.short for model in scored.collected.models.values())
        return values, ", ".join(models), scored.evidence.open, scored.spending
    review = await review_study(study, options.changed(exams=("none",), own_family=True))
    names = ", ".join(one.model or one.name for one in review.reviewers)
    first, second, value = (pl.col(name) for name in ("first", "second", "value"))
    # of a pair: the preference for the agent whose name comes first; missing where one order is
    pair = pl.format("{} / {}, {}", "task", pl.min_horizontal(first, second), pl.max_horizontal(first, second))
    item = pl.when(first.is_null()).then(pl.format("{} / {}", "task", "agent")).otherwise(pair).alias("item")
    turned = pl.when(first > second).then(1 - value).otherwise(value)
    judgements = review.judgements.with_columns(pl.col("task", "agent", "first", "second").cast(pl.String))
    mean = pl.when(value.null_count() == 0).then(turned.mean())
    judged = judgements.group_by(item, maintain_order=True).agg(mean.alias("value"))
    return dict(judged.iter_rows()), names, review.open, review.spending


# --- what changed ----------------------------------------------------------------------------------------------------


def _report(folder: Path, known: Watched, occasions: Sequence[Occasion], guard: int) -> WatchReport:
    start = max((place for place, one in enumerate(occasions) if one.restart), default=0)
    since = occasions[start:]
    streams, among = _stream_values(since)
    rows = [
        *_process("judge (anchors)", known, since, [one.anchors for one in since], seed=known.seed),
        *_process("system (stream)", known, since, streams, seed=known.seed + 1),
    ]
    who, verdict = _who(rows, len(occasions), guard)
    notes = []
    if len(rows) > 1:
        notes.append(f"A score of the stream is compared with {among}. Each process has its own false-alarm rate.")
    if since and since[-1].missing:
        notes.append(f"{since[-1].missing} anchors have no value this time, such as replies that could not be read.")
    model = occasions[-1].model if occasions else known.judge.get("reviewer", known.judge.get("scorer", ""))
    counts = len(occasions), tuple(rows)
    return WatchReport(str(folder), known.anchors, model, known.alpha, *counts, who, verdict, tuple(notes))


def _process(
    name: str, known: Watched, occasions: Sequence[Occasion], values: Sequence[Values], *, seed: int
) -> Iterator[WatchedProcess]:
    there = [one for one in values if any(one.values())]
    if not there:
        return
    found = change_evidence(values, alpha=known.alpha, seed=seed)
    alarm = next((place for place, one in enumerate(found) if one.alarm), None)
    first, last = _common_means(there[0], there[-1])
    yield WatchedProcess(
        process=name,
        occasions=len(there),
        items=len({item for one in values for item in one}),
        values=sum(len(some) for one in values for some in one.values()),
        missing=occasions[-1].missing if name.startswith("judge") else 0,
        first_mean=first,
        last_mean=last,
        evidence=found[-1].evidence,
        direction=found[-1 if alarm is None else alarm].direction,
        alarm_at=None if alarm is None else occasions[alarm].number,
    )


def _common_means(first: Values, last: Values) -> tuple[float, float]:
    """Return the mean over the items that have values on both occasions, or over each one's items if none has."""
    common = [item for item, values in first.items() if len(values) and len(last.get(item, ()))]
    means = []
    for occasion in (first, last):
        items = common or [item for item, values in occasion.items() if len(values)]
        means.append(float(np.mean([np.mean(occasion[item]) for item in items])))
    return means[0], means[1]


def _who(rows: Sequence[WatchedProcess], number: int, guard: int) -> tuple[str | None, str]:
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
    """Distance of ratings from people's, at first and now; None: the anchors have no ratings of the same items."""
    labels: dict[str, list[float]] = {}
    for rating in anchors.ratings():
        labels.setdefault(f"{rating.task} / {rating.agent}", []).append(rating.score)
    first, last = occasions[0].anchors, occasions[-1].anchors
    common = [item for item in first if item in last and item in labels]
    if not common:
        return None
    means = [np.mean([np.mean(anchors[item]) - np.mean(labels[item]) for item in common]) for anchors in (first, last)]
    return f"Judge minus people on the labelled anchors: {means[0]:+.2f} on the first occasion, {means[1]:+.2f} now."
