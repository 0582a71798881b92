"""Replaying a run folder: its printed numbers, recomputed from its own evidence without a model or key."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from goldless.errors import GoldlessError, UserError
from goldless.files import POLARS_FAILED
from goldless.metrics.catalogue import find_metric
from goldless.metrics.metric import Pairing
from goldless.reports.document import write
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.runs.option_forms import declared
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study, review_study
from goldless.studies import Study

OF_REVIEW = ("reviewers", "panel", "ranking", "rankings", "comparisons", "labels", "until", "sweep")
"""The parts of a review that are computed from its evidence."""
OF_A_RUN = {"signature", "notes", "usd_per_task", "usd", "model"}
"""Keys that say how evidence came about, not what follows from it."""
RELATIVE_TOLERANCE = 1e-9
"""Processors round sums differently; what is printed has far fewer digits."""
SHOWN = 20
Outcome = Literal["equal", "different", "not replayed"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that was not met again."""

    place: str
    printed: Any
    recomputed: Any


@dataclass(frozen=True, slots=True)
class Part:
    """A metric or the review of a run, replayed."""

    name: str
    values: int = 0
    """Values compared."""
    differences: tuple[Difference, ...] = ()
    left_out: str | None = None
    """Why it was not replayed."""
    KEYS = ("name", "outcome", "values", "left_out", "differences")

    @property
    def outcome(self) -> Outcome:
        """What came of it."""
        if self.left_out:
            return "not replayed"
        return "different" if self.differences else "equal"


@dataclass(frozen=True, slots=True)
class Replay:
    """A run folder, replayed."""

    study: str
    texts_as_noted: bool
    """Whether the texts are those that the run noted the hash of."""
    parts: tuple[Part, ...]
    KEYS = ("study", "outcome", "texts_as_noted", "values", "parts")

    @property
    def outcome(self) -> Outcome:
        """Different if anything differs; equal if everything was met again."""
        found = {part.outcome for part in self.parts}
        if "different" in found or not self.texts_as_noted:
            return "different"
        return "not replayed" if "not replayed" in found or not found else "equal"

    @property
    def values(self) -> int:
        """Values compared."""
        return sum(part.values for part in self.parts)

    @property
    def sentence(self) -> str:
        """What came of it, in a sentence."""
        if not self.texts_as_noted:
            return f"{self.study}: the texts are not those that the results were made from."
        different = sum(len(part.differences) for part in self.parts)
        if different:
            return f"{self.study}: {different} of {self.values} values are not met again."
        left = [part.name for part in self.parts if part.left_out]
        if not left:
            return f"{self.study}: all {self.values} values are met again, from the evidence alone."
        met = f"{self.values} values are met again; " if self.values else ""
        return f"{self.study}: {met}not replayed: {', '.join(left)}."

    def table(self) -> ReportTable:
        """One row a metric or review."""
        rows = tuple({**write(part), "different": len(part.differences)} for part in self.parts)
        columns = (
            Column("name", "replayed", "name"),
            Column("values", "values", "count"),
            Column("different", "different", "count"),
            Column("outcome", "outcome"),
            Column("left_out", "why", absent=""),
        )
        return ReportTable("Replay", columns, rows)


async def replay(folder: Path) -> Replay:
    """Recompute the scores and the review of a run folder, and compare them with what it printed.

    Calls no model, and runs no code that comes with the folder.
    """
    run = RunFolder(folder)
    scores, review = run.data("leaderboard"), run.data("review")
    if scores is None and review is None:
        raise UserError(
            f"{folder}: no results to replay (leaderboard.json or review.json). Give a folder made with --out"
        )
    study = run.study
    parts: list[Part] = []
    if scores is not None:
        parts += await _score_again(study, scores, _noted_pairing(run, study, scores))
    if review is not None:
        parts.append(await _review_again(study, review))
    noted = run.made_by.fingerprint
    name = (scores or review or {}).get("study") or study.name
    return Replay(str(name), not noted or noted == study.fingerprint, tuple(parts))


def _noted_pairing(run: RunFolder, study: Study, printed: Mapping[str, Any]) -> Pairing | None:
    """With whom each response was compared, where some agents were peers only; None: with all others."""
    boards = printed.get("metrics", {}).values()
    ranked = {row.get("agent") for board in boards for row in board.get("rows", ())}
    if study.samples or ranked >= {agent.agent for agent in study.agents}:
        return None
    compared_with = pl.col("peer").unique(maintain_order=True)
    try:
        pairs = run.scan("pair_scores")
        if pairs is None:
            return None
        known = pairs.filter(pl.col("peer").is_not_null())
        rows = known.group_by("task", "agent", maintain_order=True).agg(compared_with)
        return {(task, agent): tuple(peers) for task, agent, peers in rows.collect().iter_rows()}
    except POLARS_FAILED as error:
        raise UserError(f"{run.path}: pair_scores cannot be read ({str(error).splitlines()[0]})") from error


async def _score_again(study: Study, printed: Mapping[str, Any], pairing: Pairing | None) -> list[Part]:
    """All metrics of the run that are ours, together: the first may decide where it stopped."""
    names = list(printed.get("metrics", {}))
    ours = [name for name in names if _is_ours(name)]
    found = await _evaluated(study, printed, ours, pairing)
    if isinstance(found, str) and len(ours) > 1 and "until" not in printed:
        alone = {name: await _evaluated(study, printed, [name], pairing) for name in ours}
    else:
        alone = dict.fromkeys(ours, found)
    parts = []
    for name in names:
        made = alone.get(name, "needs code of its own, and a replay runs none")
        left_out = isinstance(made, str)
        parts.append(Part(name, left_out=made) if left_out else compared(name, printed["metrics"][name], made[name]))
    return parts


def _is_ours(metric: str) -> bool:
    """Whether a metric comes with goldless or a plugin that is installed: no folder from elsewhere runs its code."""
    try:
        find_metric(metric)
    except GoldlessError:
        return False
    return True


async def _evaluated(study: Study, printed: Mapping[str, Any], metrics: Sequence[str], pairing: Pairing | None) -> Any:
    """The metrics' results as plain data, or why there are none."""
    try:
        options = recorded_options(printed, metrics=tuple(metrics), pairing=pairing)
        return write(await evaluate_study(study, options))["metrics"]
    except GoldlessError as error:
        return str(error).splitlines()[0]


async def _review_again(study: Study, printed: Mapping[str, Any]) -> Part:
    name = f"review, {printed.get('scale')}"
    try:
        options = recorded_options(printed, scale=str(printed.get("scale")))
        found = write(await review_study(study, options))
    except GoldlessError as error:
        return Part(name, left_out=str(error).splitlines()[0])
    then, now = ({key: one[key] for key in OF_REVIEW if key in one} for one in (printed, found))
    return compared(name, then, now)


def recorded_options(printed: Mapping[str, Any], **more: Any) -> Options:
    """The options of the run, with recorded evidence alone."""
    noted = printed.get("options")
    if noted is None:
        raise UserError("made before options were noted: run goldless score FOLDER --recorded by hand")
    known = declared(Options)
    if not isinstance(noted, dict) or not set(noted) <= set(known):
        raise UserError("made by a newer goldless, with options that this one does not know")
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in noted.items()}
    return Options(**{**given, **more, "recorded": True})


def compared(name: str, printed: Any, recomputed: Any) -> Part:
    """A metric or review as printed and as recomputed."""
    values = sum(1 for _ in _leaves(printed))
    return Part(name, values, tuple(_differences(printed, recomputed, "")))


def _leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key not in OF_A_RUN:
                yield from _leaves(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _leaves(value)
    else:
        yield data


def _differences(printed: Any, recomputed: Any, place: str) -> Iterator[Difference]:
    if isinstance(printed, Mapping) and isinstance(recomputed, Mapping):
        for key in dict.fromkeys((*printed, *recomputed)):
            if key not in OF_A_RUN:
                yield from _differences(printed.get(key), recomputed.get(key), f"{place}.{key}".lstrip("."))
    elif _is_list(printed) and _is_list(recomputed) and len(printed) == len(recomputed):
        for i, (one, other) in enumerate(zip(printed, recomputed, strict=True)):
            yield from _differences(one, other, f"{place}[{_label(one, i)}]")
    elif not _equal(printed, recomputed):
        yield Difference(place, printed, recomputed)


def _is_list(data: Any) -> bool:
    return isinstance(data, Sequence) and not isinstance(data, str)


def _label(row: Any, index: int) -> str:
    """An agent's or reviewer's row by its name."""
    named = [row[key] for key in ("agent", "name") if isinstance(row, Mapping) and isinstance(row.get(key), str)]
    return named[0] if named else str(index)


def _equal(printed: Any, recomputed: Any) -> bool:
    numbers = [isinstance(one, int | float) and not isinstance(one, bool) for one in (printed, recomputed)]
    if all(numbers):
        return math.isclose(printed, recomputed, rel_tol=RELATIVE_TOLERANCE, abs_tol=RELATIVE_TOLERANCE)
    return bool(printed == recomputed)
