"""``command:WORDS``: a program that reads responses as JSON lines and writes one score per line, as a metric.

A line is a number, ``null``, or an object with ``score`` and optionally ``id``. All problems of the lines are
reported at once; a score is never guessed from a bad line.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless.child_process import Finished, await_child, file_hash, how_it_ended
from goldless.errors import MetricError
from goldless.records import ItemScore, TextItem
from goldless.user_metrics.scores import (
    last_lines,
    number_score,
    parsed_number,
    refuse_if_all_failed,
    row_lines,
    shown,
)
from goldless.user_metrics.source_objects import Form, SourceObject

TIMEOUT_SECONDS = 600.0
"""Default time limit for the whole batch."""
SHOWN_PROBLEMS = 20
OUTPUT_PER_ITEM = 65_536
"""Average bytes of standard output allowed per response; beyond this the command is stopped."""
MOST_OUTPUT = 64 * 2**20
"""Bytes of standard output kept in memory, for any number of responses."""

MORE_LINES = 20
"""Extra lines that are read beyond one per item; a program may write millions."""
LINE_FORM = "a number, null, or an object with 'score' (and 'id')"


class CommandMetric:
    """A command as a metric: one process for all responses."""

    unit = "score"
    """The unit is unknown."""
    what = "the command"
    """What messages call it."""

    def __init__(self, source: SourceObject, name: str, timeout_seconds: float | None) -> None:
        """Keep the words until there are responses."""
        self._words: list[str] = source.object
        self.name = name
        """The name as requested."""
        self.settings: Mapping[str, str] = source.settings
        """The command, and hashes of the files in its words."""
        self._timeout_seconds = TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in order; raises if the output is not one score per response."""
        if not items:
            return []
        return self._scores(await self._run(items), items)

    def _scores(self, finished: Finished, items: Sequence[TextItem]) -> list[ItemScore]:
        read = read_score_lines(finished.output, len(items))
        if finished.ending != "exited" or finished.status != 0 or read.problems:
            raise MetricError(self._message(finished, read, len(items)))
        scores = [score for score in read.scores if score is not None]
        refuse_if_all_failed(self.name, items, scores, None)
        return scores

    async def _run(self, items: Sequence[TextItem]) -> Finished:
        finished = await await_child(
            self._words,
            row_lines(items),
            timeout_seconds=self._timeout_seconds,
            most_output=most_output(len(items)),
        )
        if isinstance(finished, OSError):
            raise MetricError(f"{self.name}: cannot start the command ({finished})") from finished
        return finished

    def _message(self, finished: Finished, read: ScoreLines, count: int) -> str:
        limit_for = f" for {count} response{'s' * (count != 1)}"
        ended = how_it_ended(finished, self.what, self._timeout_seconds, most_output(count), limit_for)
        lines = [f"{self.name}: {ended}; {read.n_good} of {count} scores are valid"]
        lines += [f"  {problem}" for problem in read.problems[:SHOWN_PROBLEMS]]
        if len(read.problems) > SHOWN_PROBLEMS:
            lines.append(f"  … and {len(read.problems) - SHOWN_PROBLEMS} more")
        for title, said in (("output", finished.output), ("error", finished.error_tail)):
            ending = last_lines(said.decode("utf-8", errors="replace"))
            lines += [f"  standard {title} ends with:", ending] if ending else [f"  standard {title} is empty"]
        return "\n".join(lines)


def _source(command: str, name: str) -> SourceObject:
    """Split the command into words, as a shell would, and find its program; no shell is run."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise MetricError(f"{name!r}: the command cannot be split into words ({error})") from error
    if not words:
        raise MetricError("command: needs a program. Write 'command:PROGRAM ARGUMENTS'")
    if any("\0" in word for word in words):
        raise MetricError(f"{name!r}: a word of a command cannot contain NUL")
    if shutil.which(words[0]) is None:
        raise MetricError(f"{name!r}: program {words[0]!r} not found or not executable")
    return SourceObject(words, _settings(words))


def most_output(count: int) -> int:
    """Bytes of standard output that are read for this number of responses."""
    return min(OUTPUT_PER_ITEM * max(count, 16), MOST_OUTPUT)


def _settings(words: Sequence[str]) -> dict[str, str]:
    # a signature is one line
    settings = {"command": shlex.join(words).replace("\n", "\\n")}
    found = [Path(word) for word in words if len(word) < 4096 and "\n" not in word and Path(word).is_file()]
    if found:
        settings["files"] = ",".join(f"{path.name}={file_hash(path)}" for path in dict.fromkeys(found))
    return settings


# --- what the command wrote ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoreLines:
    """The lines as scores."""

    scores: tuple[ItemScore | None, ...]
    """One per item; None without a valid line."""
    problems: tuple[str, ...]
    """Everything wrong with the lines."""

    @property
    def n_good(self) -> int:
        """Items with a valid line, including missing scores."""
        return sum(score is not None for score in self.scores)


@dataclass(frozen=True, slots=True)
class _Line:
    """One line: its number from 1, its id, and its score or problem."""

    number: int
    identity: Any = None
    has_identity: bool = False
    score: ItemScore | None = None
    problem: str | None = None


def read_score_lines(output: bytes, count: int) -> ScoreLines:
    """The scores of ``count`` items. Lines without ids are in item order, one per item."""
    written, pieces = _lines(output, count + MORE_LINES)
    lines = [_read_line(number, line) for number, line in enumerate(pieces, 1)]
    if any(line.has_identity for line in lines):
        return _by_identity(lines, count, unread=written - len(lines))
    problems = [f"line {line.number}: {line.problem}" for line in lines if line.problem is not None]
    if written != count:
        problems.insert(0, f"got {written} line{'s' * (written != 1)} for {count} items. Write one per item")
    scores = [line.score for line in lines[:count]]
    return ScoreLines((*scores, *[None] * (count - len(scores))), tuple(problems))


def _by_identity(lines: list[_Line], count: int, *, unread: int) -> ScoreLines:
    scores: list[ItemScore | None] = [None] * count
    seen: dict[int, int] = {}
    problems = []
    for line in lines:
        place = _place(line.identity, count)
        problem = line.problem or _identity_problem(line, place, seen, count)
        if problem is not None:
            problems.append(f"line {line.number}: {problem}")
        elif place is not None:
            scores[place] = line.score
        if place is not None:
            seen.setdefault(place, line.number)
    if unread:
        problems.append(f"got {len(lines) + unread} lines for {count} items; the last {unread} were not read")
    absent = [place for place in range(count) if place not in seen]
    if absent:
        listed = f"{', '.join(map(str, absent[:20]))}{' …' * (len(absent) > 20)}"
        problems.append(f"no line for {len(absent)} of {count} items: id {listed}")
    return ScoreLines(tuple(scores), tuple(problems))


def _identity_problem(line: _Line, place: int | None, seen: Mapping[int, int], count: int) -> str | None:
    if not line.has_identity:
        return "no id, but other lines have one"
    if place is None:
        return f"unknown id {shown(line.identity)}; the items have ids 0 to {count - 1}"
    return f"id {place} is already in line {seen[place]}" if place in seen else None


def _lines(output: bytes, most: int) -> tuple[int, list[bytes]]:
    """The number of lines, by newlines alone, and the first of them; trailing empty lines do not count."""
    text = output.removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n")
    return (text.count(b"\n") + 1, text.split(b"\n", most)[:most]) if text else (0, [])


def _read_line(number: int, line: bytes) -> _Line:
    text = line.decode("utf-8", errors="replace").strip()
    value = parsed_number(text)
    if value is not None or text == "null":
        return _Line(number, **_read_number(value))
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        return _Line(number, problem=f"{shown(text)} is not {LINE_FORM}" if text else "empty line")
    identity = {"identity": row["id"], "has_identity": True} if "id" in row else {}
    if "score" not in row:
        return _Line(number, problem=f"{shown(text)} has no 'score'", **identity)
    if row["score"] is None and isinstance(row.get("problem"), str):
        return _Line(number, score=ItemScore(None, row["problem"][:300]), **identity)
    return _Line(number, **_read_number(row["score"]), **identity)


def _read_number(value: Any) -> dict[str, Any]:
    score = number_score(value, verb="wrote", absent="null")
    return {"score": score} if score.problem is None else {"problem": score.problem}


def _place(identity: Any, count: int) -> int | None:
    """The item of an id: its number, or the number as text."""
    if isinstance(identity, str) and identity.isascii() and identity.isdigit() and len(identity) < 19:
        identity = int(identity)
    whole = isinstance(identity, int) and not isinstance(identity, bool)
    return identity if whole and 0 <= identity < count else None


FORM = Form(
    "command:WORDS",
    "a program that reads responses as JSON lines and writes one score per line",
    _source,
    CommandMetric,
)
