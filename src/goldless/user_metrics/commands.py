"""``command:WORDS``: a program that reads responses as JSON lines and writes one score per line, as a metric.

A line is a number, ``null``, or an object with ``score`` and optionally ``id`` and ``problem``. All problems of the
lines are reported at once; a score is never guessed from a bad line.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldless.child_process import Finished, file_hash, program_files, program_words, run_program
from goldless.errors import MetricError
from goldless.records import ItemScore, TextItem
from goldless.user_metrics.scores import fields, last_lines, number_score, parsed_number, refuse_if_all_failed, shown
from goldless.user_metrics.source_objects import Form, SourceObject

TIMEOUT_SECONDS = 600.0
"""Default time limit for the whole batch."""
SHOWN_PROBLEMS = 20
OUTPUT_PER_ITEM = 65_536
"""Average bytes of standard output allowed per response; beyond this the command is killed."""
MOST_OUTPUT = 64 * 2**20
"""Bytes of standard output allowed for any number of responses."""


class CommandMetric:
    """A command as a metric: one process for all responses."""

    unit = "score"
    """The unit is unknown."""

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
        most_output = min(OUTPUT_PER_ITEM * max(len(items), 16), MOST_OUTPUT)
        try:
            ended = await run_program(
                self._words, _rows(items), timeout_seconds=self._timeout_seconds, most_output=most_output
            )
        except OSError as error:
            raise MetricError(f"{self.name}: cannot start the command ({error})") from error
        found, problems = read_score_lines(ended.output, len(items))
        if ended.ending != "well" or problems:
            raise MetricError(self._message(ended, found, problems))
        scores = [score for score in found if score is not None]
        refuse_if_all_failed(self.name, items, scores)
        return scores

    def _message(self, ended: Finished, found: Sequence[ItemScore | None], problems: Sequence[str]) -> str:
        valid = sum(score is not None for score in found)
        lines = [f"{self.name}: the command {ended.how}; {valid} of {len(found)} scores are valid"]
        lines += [f"  {problem}" for problem in problems[:SHOWN_PROBLEMS]]
        if len(problems) > SHOWN_PROBLEMS:
            lines.append(f"  … and {len(problems) - SHOWN_PROBLEMS} more")
        for title, said in (("output", ended.output.decode("utf-8", "replace")), ("error", ended.errors)):
            ending = last_lines(said)
            lines += [f"  standard {title} ends with:", ending] if ending else [f"  standard {title} is empty"]
        return "\n".join(lines)


def _source(command: str, _: str) -> SourceObject:
    words = program_words(command, MetricError)
    settings = {"command": shlex.join(words).replace("\n", "\\n")}  # a signature is one line
    if files := dict.fromkeys(program_files(words)):
        settings["files"] = ",".join(f"{path.name}={file_hash(path)}" for path in files)
    return SourceObject(words, settings)


def _rows(items: Sequence[TextItem]) -> Iterator[bytes]:
    """The items as JSON lines."""
    for number, item in enumerate(items):
        # Escaped to ASCII: a text may hold half a surrogate pair or what somebody's reader takes for the end of a line.
        yield json.dumps({"id": number, **fields(item)}).encode("ascii") + b"\n"


def read_score_lines(output: bytes, count: int) -> tuple[list[ItemScore | None], list[str]]:
    """The score of each of ``count`` items, None without a valid line, and every problem of the lines.

    A line without an id is of the item in its place. Lines beyond one per item are counted and not read.
    """
    text = output.removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n")
    written = text.count(b"\n") + 1 if text else 0
    scores: list[ItemScore | None] = [None] * count
    problems = []
    if written != count:
        problems.append(f"got {written} line{'s' * (written != 1)} for {count} items. Write one per item")
    seen: dict[int, int] = {}
    for number, line in enumerate(text.split(b"\n", count)[: min(written, count)], 1):
        identity, score, problem = _read_line(line.decode("utf-8", "replace").strip(), number)
        if isinstance(identity, str) and identity.isdecimal() and len(identity) < 19:
            identity = int(identity)
        if not isinstance(identity, int) or isinstance(identity, bool) or not 0 <= identity < count:
            problem = f"unknown id {shown(identity)}; the items have ids 0 to {count - 1}"
        elif seen.setdefault(identity, number) != number:
            problem = f"id {identity} is already in line {seen[identity]}"
        elif problem is None:
            scores[identity] = score
        if problem is not None:
            problems.append(f"line {number}: {problem}")
    if absent := [place for place in range(count) if place not in seen]:
        listed = f"{', '.join(map(str, absent[:20]))}{' …' * (len(absent) > 20)}"
        problems.append(f"no line for {len(absent)} of {count} items: id {listed}")
    return scores, problems


def _read_line(text: str, number: int) -> tuple[Any, ItemScore | None, str | None]:
    """The id, by default that of its place, and the score or the problem of a line."""
    place, value = number - 1, parsed_number(text)
    if value is None and text != "null":
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            form = "a number, null, or an object with 'score' (and 'id')"
            return place, None, f"{shown(text)} is not {form}" if text else "empty line"
        place = row.get("id", place)
        if "score" not in row:
            return place, None, f"{shown(text)} has no 'score'"
        value = row["score"]
        if value is None and isinstance(row.get("problem"), str):
            return place, ItemScore(None, row["problem"][:300]), None
    score = number_score(value, verb="wrote", absent="null")
    return place, score, score.problem


FORM = Form(
    "command:WORDS",
    "a program that reads responses as JSON lines and writes one score per line",
    _source,
    CommandMetric,
)
