"""Replaying a run folder: its printed numbers, recomputed from its own evidence without a model or key.

It may come from elsewhere: nothing in it is run or trusted.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from goldless._version import __version__
from goldless.errors import GoldlessError, UserError
from goldless.metrics.catalogue import find_metric
from goldless.metrics.metric import Pairing
from goldless.reports.document import Result, cells, write, written_property
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.runs.evaluation import Evaluation
from goldless.runs.option_forms import declared
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study, review_study
from goldless.studies import Study

OF_REVIEW = ("reviewers", "panel", "rankings", "comparisons", "labels", "stopped", "sweep")
"""The parts of a review that are computed from its evidence."""
OF_A_RUN = {"signature", "settings", "notes", "usd_per_task", "usd", "model"}
"""Keys that say how evidence came about, not what follows from it."""
RELATIVE_TOLERANCE = 1e-9
"""Processors round sums differently; what is printed has far fewer digits."""
SHOWN = 20
Outcome = Literal["equal", "different", "not replayed"]


@dataclass(frozen=True)
class Difference:
    """A value that came out different."""

    place: str
    printed: Any
    recomputed: Any


@dataclass(frozen=True)
class ReplayedPart:
    """A metric or the review of a run, replayed."""

    name: str
    values: int = 0
    """Values compared."""
    differences: tuple[Difference, ...] = ()
    left_out: str | None = None
    """The reason why it was not replayed."""

    @written_property
    def outcome(self) -> Outcome:
        if self.left_out:
            return "not replayed"
        return "different" if self.differences else "equal"


@dataclass(frozen=True)
class Replay(Result):
    """A run folder, replayed."""

    study: str
    texts_as_noted: bool
    """True if the texts are those that the run noted the hash of."""
    made_by: str
    """The version of goldless that made the results; empty: not noted."""
    parts: tuple[ReplayedPart, ...]

    @written_property
    def outcome(self) -> Outcome:
        """Different if anything differs; equal if everything came out the same."""
        found = {part.outcome for part in self.parts}
        if "different" in found or not self.texts_as_noted:
            return "different"
        return "not replayed" if "not replayed" in found or not found else "equal"

    @written_property
    def values(self) -> int:
        return sum(part.values for part in self.parts)

    @property
    def sentence(self) -> str:
        if not self.texts_as_noted:
            return f"{self.study}: the texts are not those that the results were made from."
        different = sum(len(part.differences) for part in self.parts)
        if different:
            other = self.made_by not in {"", __version__}
            why = f" goldless {self.made_by} made them and this is {__version__}: replay with that version." * other
            return f"{self.study}: {different} of {self.values} values come out different.{why}"
        left = [part.name for part in self.parts if part.left_out]
        if not left:
            return f"{self.study}: all {self.values} values come out the same, from the evidence alone."
        met = f"{self.values} values come out the same; " if self.values else ""
        return f"{self.study}: {met}not replayed: {', '.join(left)}."

    def tables(self) -> list[ReportTable]:
        return [self.table()]

    def table(self) -> ReportTable:
        rows = tuple(cells(part, outcome=part.outcome, different=len(part.differences)) for part in self.parts)
        columns = (
            Column("name", "replayed", "name"),
            Column("values", "values", "count"),
            Column("different", "different", "count"),
            Column("outcome", "outcome"),
            Column("left_out", "why", absent=""),
        )
        return ReportTable("Replay", columns, rows)


async def replay(folder: Path) -> Replay:
    """Recompute the scores and the review of a run folder, and compare them with the recorded ones.

    Calls no model, and runs no code that comes with the folder.
    """
    run = RunFolder(folder)
    scores, review = run.data("leaderboard"), run.data("review")
    if scores is None and review is None:
        raise UserError(
            f"{folder}: no results to replay (leaderboard.json or review.json). Give a folder made with --out; unpack "
            "an archive of one first"
        )
    study = run.study
    parts = [] if scores is None else await _score_again(run, scores)
    if review is not None:
        name = f"review, {review.get('scale')}"
        try:
            found = write(await review_study(study, recorded_options(review, scale=str(review.get("scale")))))
            then, now = ({key: one[key] for key in OF_REVIEW if key in one} for one in (review, found))
            parts.append(compared(name, then, now))
        except GoldlessError as error:
            parts.append(ReplayedPart(name, left_out=str(error).splitlines()[0]))
    made = run.made_by
    study_name = (scores or review or {}).get("study") or study.name
    as_noted = made.fingerprint in {"", study.fingerprint}
    return Replay(str(study_name), as_noted, made.goldless, tuple(parts))


async def _score_again(run: RunFolder, printed: Mapping[str, Any]) -> list[ReplayedPart]:
    """All metrics of the run that are ours, together: the first may decide where it stopped."""
    boards, pairing = printed.get("metrics", {}), _noted_pairing(run, printed)

    async def evaluated(*metrics: str) -> Any:
        """The metrics' results as plain data, or why there are none."""
        try:
            options = recorded_options(printed, metrics=metrics, pairing=pairing)
            return write(await evaluate_study(run.study, options))["metrics"]
        except GoldlessError as error:
            return str(error).splitlines()[0]

    ours = []
    for name in boards:
        with contextlib.suppress(GoldlessError):  # no folder from elsewhere runs its code
            find_metric(name)
            ours.append(name)
    found = dict.fromkeys(ours, await evaluated(*ours)) if ours else {}
    if len(ours) > 1 and isinstance(found[ours[0]], str) and printed.get("stopped") is None:
        found = {name: await evaluated(name) for name in ours}
    parts = []
    for name, then in boards.items():
        made = found.get(name, "needs code of its own, and a replay runs none")
        parts.append(ReplayedPart(name, left_out=made) if isinstance(made, str) else compared(name, then, made[name]))
    return parts


def _noted_pairing(run: RunFolder, printed: Mapping[str, Any]) -> Pairing | None:
    """With whom each response was compared, where some agents were peers only; None: with all others."""
    boards = printed.get("metrics", {}).values()
    ranked = {row.get("agent") for board in boards for row in board.get("rows", ())}
    if run.study.samples or ranked >= {agent.agent for agent in run.study.agents}:
        return None

    def compared(pairs: pl.LazyFrame) -> pl.LazyFrame:
        by_response = pairs.filter(pl.col("peer").is_not_null()).group_by("task", "agent", maintain_order=True)
        return by_response.agg(pl.col("peer").unique(maintain_order=True))

    rows = run.rows("pair_scores", compared)
    return {(task, agent): tuple(peers) for task, agent, peers in rows.iter_rows()} or None


def recorded_options(printed: Mapping[str, Any], **more: Any) -> Options:
    """The options of the run, with recorded evidence alone."""
    noted = printed.get("options")
    if noted is None:
        raise UserError("made before options were noted: run goldless score FOLDER --recorded by hand")
    known = declared(Options)
    if not isinstance(noted, dict) or not set(noted) <= set(known) or not isinstance(noted.get("metrics", []), list):
        raise UserError("made by a newer goldless, with options that this one does not know, or damaged")
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in noted.items()}
    return Options.of(**{**given, **more, "recorded": True})


async def recompute_evaluation(
    study: Study, printed: Mapping[str, Any], **options: Any
) -> tuple[Evaluation, list[Difference]]:
    """The evaluation of a run from its recorded evidence, and the values that come out otherwise than printed."""
    metrics = printed.get("metrics", {})
    evaluation = await evaluate_study(study, recorded_options(printed, metrics=tuple(metrics), **options))
    made = write(evaluation)["metrics"]
    return evaluation, [one for name in metrics for one in compared(name, metrics[name], made.get(name)).differences]


def compared(name: str, printed: Any, recomputed: Any) -> ReplayedPart:
    """A metric or review as printed and as recomputed."""
    then, now = dict(_leaves(printed)), dict(_leaves(recomputed))
    places = dict.fromkeys((*then, *now))
    different = [Difference(p, then.get(p), now.get(p)) for p in places if not _equal(then.get(p), now.get(p))]
    return ReplayedPart(name, len(then), tuple(different))


def _leaves(data: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The values in plain data, each with its place; a row of an agent or reviewer is placed by its name."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key not in OF_A_RUN:
                yield from _leaves(value, f"{place}.{key}".lstrip("."))
    elif isinstance(data, list | tuple):
        named = [(row.get("agent") or row.get("name")) if isinstance(row, Mapping) else None for row in data]
        for i, row in enumerate(data):
            label = named[i] if isinstance(named[i], str) and named.count(named[i]) == 1 else i
            yield from _leaves(row, f"{place}[{label}]")
    else:
        yield place, data


def _equal(printed: Any, recomputed: Any) -> bool:
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in (printed, recomputed)):
        return bool(printed == recomputed)
    return math.isclose(printed, recomputed, rel_tol=RELATIVE_TOLERANCE, abs_tol=RELATIVE_TOLERANCE)
