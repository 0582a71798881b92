"""CSV files of scores by agent: a board's, with what is known of its agents, and other benchmarks'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goldless.dates import last_day
from goldless.records import Agent
from goldless.studies.checking import Checking, Problems, Row, all_at_once, is_empty
from goldless.studies.tables import Source

ABOUT_AGENTS = ("agent", "group", "family", "parameters", "size_estimated", "cutoff_date", "published_as")
"""Columns that are no scores."""
SAID = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False, "": False}


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One agent of a CSV file."""

    agent: Agent
    scores: Mapping[str, float | None]
    """By metric; None: the cell is blank."""
    size_estimated: bool = False
    """Whether its number of parameters is an estimate."""


def read_board_rows(path: Path) -> list[BoardRow]:
    """The rows of ``agent, METRIC…[, parameters, size_estimated, family, group, cutoff_date]``, at least one."""
    return _read(path, about=ABOUT_AGENTS, what="metric")


def read_benchmark_rows(path: Path) -> list[BoardRow]:
    """The rows of ``agent, BENCHMARK…``, at least one. Every other column is a benchmark."""
    return _read(path, about=("agent",), what="benchmark")


def _read(path: Path, *, about: Sequence[str], what: str) -> list[BoardRow]:
    rows: list[BoardRow] = []
    with all_at_once(str(path)) as problems:
        check = Checking(path.name, problems)
        first: dict[str, int] = {}
        for line, row in _lines(path, problems):
            check.rows += 1
            columns = [column for column in row if column not in about]
            if check.rows == 1:
                _check_header(row, columns, check, what)
            found = _row(row, columns, line, check, about)
            if found is None:
                continue
            if found.agent.agent in first:
                there = first[found.agent.agent]
                check.duplicate(f"agent {found.agent.agent!r} stands here again; it is on line {there}", line)
            first.setdefault(found.agent.agent, line)
            rows.append(found)
        check.finish()
        if not check.rows and not check.broken:
            check.add(f"no rows; a row for each agent is needed: agent, then a column for each {what}")
    return rows


def _lines(path: Path, problems: Problems) -> Iterator[tuple[int, Row]]:
    for chunk in Source(path, path.name).chunks(problems):
        yield from zip(chunk.lines, chunk.rows, strict=True)


def _check_header(row: Row, columns: Sequence[str], check: Checking, what: str) -> None:
    if any(not column.strip() for column in row):
        check.add("a column has no name in the header", 1)
    if not columns:
        came = ", ".join(row)
        check.add(f"the columns are {came}: no {what} among them; a column for each {what} is needed", 1)


def _row(row: Row, columns: Sequence[str], line: int, check: Checking, about: Sequence[str]) -> BoardRow | None:
    name = check.name(row, "agent", line)
    scores = {column: _score(row, column, line, check) for column in columns}
    if "parameters" not in about:
        return None if name is None else BoardRow(Agent(name), scores)
    parameters = check.optional_number(row, "parameters", line)
    if parameters is not None and parameters <= 0:
        check.add(f"parameters is {parameters:g}; a number of parameters such as 7e9 is needed", line)
    said = str(row.get("size_estimated") or "").strip().lower()
    if said not in SAID:
        check.add(f"size_estimated is {said!r}; yes or no is needed", line)
    cutoff = check.optional_text(row, "cutoff_date", line)
    if cutoff is not None and last_day(cutoff) is None:
        check.add(f"cutoff_date is {cutoff!r}; a date such as 2023-09-30, 2023-09 or 2023 is needed", line)
    group, family = check.optional_name(row, "group", line), check.optional_name(row, "family", line)
    if name is None:
        return None
    return BoardRow(Agent(name, group, parameters, family, cutoff), scores, SAID.get(said, False))


def _score(row: Row, column: str, line: int, check: Checking) -> float | None:
    value = row.get(column)
    return None if is_empty(value) or str(value).isspace() else check.number(row, column, line)
