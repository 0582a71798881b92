"""``command:WORDS``: a program that reads responses as JSON lines and writes one score per line, as a metric.

A line is a number, ``null``, or an object with ``score`` and optionally ``id`` and ``problem``. All problems of the
lines are reported at once; a score is never guessed from a bad line.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from goldless.child_process import Finished, file_hash, program_files, program_words, run_program
from goldless.errors import MetricError
from goldless.records import ItemScore, TextItem
from goldless.user_metrics.functions import fields, last_lines, number_score, parsed_number, refuse_if_all_failed, shown

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

    def __init__(self, command: str, name: str, timeout_seconds: float | None) -> None:
        """Find the program and hash the files among its words; nothing is run."""
        self._words = program_words(command, MetricError)
        self._timeout_seconds = timeout_seconds or TIMEOUT_SECONDS
        self.name = name
        self.settings = {"command": shlex.join(self._words).replace("\n", "\\n")}  # a signature is one line
        if files := dict.fromkeys(program_files(self._words)):
            self.settings["files"] = ",".join(f"{path.name}={file_hash(path)}" for path in files)

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in order; raises if the output is not one score per response."""
        if not items:
            return []
        # Escaped to ASCII: a text may hold half a surrogate pair or what somebody's reader takes for the end of a line.
        lines = (json.dumps({"id": i, **fields(item)}).encode("ascii") + b"\n" for i, item in enumerate(items))
        most_output = min(OUTPUT_PER_ITEM * max(len(items), 16), MOST_OUTPUT)
        try:
            ended = await run_program(
                self._words, lines, timeout_seconds=self._timeout_seconds, most_output=most_output
            )
        except OSError as error:
            raise MetricError(f"{self.name}: cannot start the command ({error})") from error
        found, problems = read_score_lines(ended.output, len(items))
        if ended.ending != "well" or problems:
            raise MetricError(self._message(ended, found, problems, len(items)))
        scores = [found[number] for number in range(len(items))]
        refuse_if_all_failed(self.name, items, scores)
        return scores

    def _message(self, ended: Finished, found: dict[int, ItemScore], problems: Sequence[str], count: int) -> str:
        lines = [f"{self.name}: the command {ended.how}; {len(found)} of {count} scores are valid"]
        lines += [f"  {problem}" for problem in problems[:SHOWN_PROBLEMS]]
        if len(problems) > SHOWN_PROBLEMS:
            lines.append(f"  … and {len(problems) - SHOWN_PROBLEMS} more")
        for title, said in (("output", ended.output.decode("utf-8", "replace")), ("error", ended.errors)):
            ending = last_lines(said)
            lines += [f"  standard {title} ends with:", ending] if ending else [f"  standard {title} is empty"]
        return "\n".join(lines)


def read_score_lines(output: bytes, count: int) -> tuple[dict[int, ItemScore], list[str]]:
    """The valid scores by item, and every problem of the lines.

    A line without an id is of the item in its place. Lines beyond one per item are counted and not read.
    """
    text = output.removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n")
    written = text.count(b"\n") + 1 if text else 0
    problems = []
    if written != count:
        problems.append(f"got {written} line{'s' * (written != 1)} for {count} items. Write one per item")
    scores: dict[int, ItemScore] = {}
    lines: dict[int, int] = {}
    for number, line in enumerate(text.split(b"\n", count)[: min(written, count)], 1):
        try:
            identity, score = _read_line(line.decode("utf-8", "replace").strip(), number - 1, count)
        except ValueError as problem:
            problems.append(f"line {number}: {problem}")
            continue
        if lines.setdefault(identity, number) == number:
            scores[identity] = score
        else:
            problems.append(f"line {number}: id {identity} is already in line {lines[identity]}")
    return scores, problems


def _read_line(text: str, place: int, count: int) -> tuple[int, ItemScore]:
    """The id, by default that of its place, and the score of a line; ValueError: they are not valid."""
    identity = place
    value: Any = None if text == "null" else parsed_number(text)
    if value is None and text != "null":
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            form = "a number, null, or an object with 'score' (and 'id')"
            raise ValueError(f"{shown(text)} is not {form}" if text else "empty line")
        if "score" not in row:
            raise ValueError(f"{shown(text)} has no 'score'")
        identity, value = row.get("id", place), row["score"]
        if isinstance(identity, str) and identity.isdecimal():
            identity = int(identity)
        if not isinstance(identity, int) or isinstance(identity, bool) or not 0 <= identity < count:
            raise ValueError(f"unknown id {shown(identity)}; the items have ids 0 to {count - 1}")
        if value is None and isinstance(row.get("problem"), str):
            return identity, ItemScore(None, row["problem"][:300])
    score = number_score(value, verb="wrote", absent="null")
    if score.problem is not None:
        raise ValueError(score.problem)
    return identity, score
