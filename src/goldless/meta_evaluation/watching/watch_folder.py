"""The folder of a watch: what is watched, and the values of every occasion."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from goldless._version import __version__
from goldless.errors import UserError
from goldless.files import alone, write_text
from goldless.reports.run_folder import SCORES
from goldless.runs.store import try_writing
from goldless.statistics.change_evidence import Values
from goldless.studies.checking import Checking, all_at_once
from goldless.studies.tables import ALLOWED, Source, is_table

WATCH, OCCASIONS = "watch.json", "occasions.jsonl"
Numbers = dict[str, list[Annotated[float, Field(allow_inf_nan=False)]]]


@dataclass(frozen=True, slots=True)
class Watched:
    """What is watched, the same on every occasion."""

    anchors: str
    """Name of the study of anchors."""
    fingerprint: str
    judge: Mapping[str, str]
    """How the anchors are asked: the model as given, the metric or scale, the wording."""
    alpha: Annotated[float, Field(gt=0, lt=1)]
    seed: Annotated[int, Field(ge=0)]
    id: str
    """A random name, which keeps the calls of this watch apart in the journal."""
    goldless: str = __version__


@dataclass(frozen=True, slots=True)
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
    """Whether the comparison starts anew here."""


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_watch(folder: Path) -> tuple[Watched | None, list[Occasion]]:
    """What is in the folder; None and nothing if it is new."""
    if not (folder / WATCH).is_file():
        return None, []
    try:
        known = TypeAdapter(Watched).validate_json((folder / WATCH).read_bytes())
        path = folder / OCCASIONS
        lines = path.read_bytes().splitlines() if path.is_file() else []
        occasion = TypeAdapter(Occasion)
        return known, [occasion.validate_json(line) for line in lines if line.strip()]
    except (OSError, ValidationError) as error:
        said = error if isinstance(error, OSError) else _first(error)
        raise UserError(
            f"{folder}: the watch cannot be read ({said}). Restore it, or watch in another folder"
        ) from error


def _first(error: ValidationError) -> str:
    """What is wrong first, and where."""
    found = error.errors()[0]
    return f"{'.'.join(map(str, found['loc'])) or 'a line'}: {found['msg']}"


def start_watch(folder: Path, watched: Watched) -> None:
    """Write what is watched, before anything is asked."""
    try_writing(folder, "Choose another folder")
    with alone(folder):
        if any(folder.iterdir()):
            raise UserError(f"{folder} has other files. Give a new folder to a watch")
        write_text(folder / WATCH, json.dumps(asdict(watched), ensure_ascii=False, indent=2) + "\n")


def add_occasion(folder: Path, known: Sequence[Occasion], new: Occasion) -> None:
    """Append an occasion. Raises if another process did so in the meantime."""
    with alone(folder):
        _, there = read_watch(folder)
        if len(there) != len(known):
            raise UserError(f"{folder}: another command added occasion {len(there)} in the meantime. Run one at a time")
        lines = [json.dumps(asdict(one), ensure_ascii=False, allow_nan=False) + "\n" for one in (*there, new)]
        write_text(folder / OCCASIONS, "".join(lines))


def check_same(folder: Path, known: Watched, given: Watched) -> None:
    """Refuse anchors, a judge or a rate of false alarms other than those of the first occasion."""
    if known.fingerprint != given.fingerprint:
        raise UserError(
            f"the anchors changed: {folder} watches {known.anchors} ({known.fingerprint[:8]}), got {given.anchors} "
            f"({given.fingerprint[:8]}). Give the same anchors, or start another watch in a new folder"
        )
    for name in {**known.judge, **given.judge}:
        was, is_ = known.judge.get(name), given.judge.get(name)
        if was != is_:
            raise UserError(
                f"{folder} watches {name} {was or 'none'}, got {is_ or 'none'}. Give the same judge, or start another "
                "watch in a new folder"
            )
    if known.alpha != given.alpha:
        raise UserError(f"--alpha must stay {known.alpha:g}, with which {folder} was started, got {given.alpha:g}")


# --- the system's stream ---------------------------------------------------------------------------------------------


def read_stream(path: Path, known: Sequence[Occasion]) -> tuple[dict[str, list[float]], str]:
    """The scores of a file or run folder by response, and its hash. A file given before is refused."""
    path = path / SCORES if path.is_dir() else path
    if not is_table(path):
        raise UserError(f"{path}: no such file of scores; {ALLOWED}")
    content = hashlib.sha256(path.read_bytes()).hexdigest()
    if before := next((one.number for one in known if one.stream_hash == content), None):
        raise UserError(f"{path}: the same scores were given on occasion {before}. Give those since then")
    found: dict[str, list[float]] = {}
    metrics: set[str] = set()
    with all_at_once("stream") as problems:
        check = Checking(path.name, problems)
        for chunk in Source(path, path.name).chunks(problems):
            check.rows += len(chunk.rows)
            for line, row in zip(chunk.lines, chunk.rows, strict=True):
                score = (
                    check.optional_number(row, "score", line) if "score" in row else check.number(row, "score", line)
                )
                names = [check.optional_name(row, column, line) for column in ("task", "agent")]
                metrics.add(check.optional_name(row, "metric", line) or "")
                if score is not None:
                    found.setdefault(" / ".join(name for name in names if name), []).append(score)
        check.finish()
        if len(metrics) > 1:
            check.add(f"scores must be of one metric, got {', '.join(sorted(metrics))}")
        if not found and not check.broken:
            check.add("no scores. The columns are score and, where they recur, task and agent")
    return found, content


def stream_values(occasions: Sequence[Occasion]) -> tuple[list[Values], str]:
    """The stream of each occasion, and what a score is ranked among.

    Where the second occasion has the responses of the first, each is compared with its own earlier scores, otherwise
    with all earlier scores.
    """
    given = [one for one in occasions if one.stream]
    by_item = len(given) > 1 and set(given[0].stream) == set(given[1].stream) and "" not in given[0].stream
    if not by_item:
        return [
            {"": [value for new in one.stream.values() for value in new]} for one in occasions
        ], "all earlier scores"
    for one in given:
        if set(one.stream) != set(given[0].stream):
            raise UserError(
                f"the stream of occasion {one.number} must have the responses of the first occasion, got "
                f"{len(set(one.stream) ^ set(given[0].stream))} others. Start another watch in a new folder"
            )
    return [dict(one.stream) for one in occasions], "its own earlier scores"


def as_known(found: Mapping[str, Any]) -> dict[str, str]:
    """Settings as texts, without empty ones."""
    return {name: str(value) for name, value in found.items() if value not in {None, ""}}
