"""Plain tables with other column names than goldless's, or with one column per agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.studies.checking import ALIASES, Problems, Row, as_text, is_empty, probable_column
from goldless.studies.frames import REQUIRED, SAMPLE, is_task_column
from goldless.studies.importers.log import Repeats
from goldless.studies.tables import SINGLE, Line, Source

Columns = Mapping[str, Sequence[str]]
"""The columns of a file, by their names in a study; only ``agent`` of a wide table may have several."""
NOT_AGENTS = (
    *("answer_", "categ", "choices", "doc", "filter", "judg", "label", "meta", "metric", "model_", "rating", "resps"),
    *("score", "source", "tstamp", "type", "winner"),
)
"""How the names of columns begin that are hardly agents, for hints only."""
TASK_TEXTS = ("prompt", "reference")

ONE_AGENT = "sample"
"""The agent of all samples of a table that names none."""


class PlainTable:
    """Tables of responses, one row per response or, if wide, one row per task."""

    description = "a .csv, .tsv, .json, .jsonl or .parquet table with --columns, or with --wide"

    def recognises(self, path: Path) -> bool:  # noqa: ARG002 - what its columns mean only the user can say
        """Never: its columns must be named."""
        return False

    def read(
        self,
        paths: Sequence[Path],
        problems: Problems,
        *,
        columns: Mapping[str, str | Sequence[str]] | None = None,
        wide: bool = False,
        repeats: Repeats | None = None,
        **_others: Any,
    ) -> Mapping[str, Any]:
        """The responses of all files."""
        for path in paths:
            if not path.is_file() or path.suffix.lower() not in SINGLE:
                got = "no such file" if not path.exists() else f"ends in {path.suffix or 'nothing'!r}"
                problems.add(f"{got}. A table must be a file that ends in {', '.join(SINGLE)}", path.name)
        if problems.total:
            return {}
        sources = [Source(path, path.name) for path in paths]
        if not wide and len(sources) > 1:
            return {"responses": _joined(sources, problems, columns, repeats)}
        source = sources[0]
        if len(sources) > 1:
            raise UserError(f"--wide reads one file, got {len(sources)}. Import them one by one")
        return {"responses": mapped(source, problems, columns, wide=wide, repeats=repeats)}


def _joined(
    sources: Iterable[Source],
    problems: Problems,
    columns: Mapping[str, str | Sequence[str]] | None,
    repeats: Repeats | None,
) -> Iterator[Line]:
    lines = (line for source in sources for line in mapped(source, problems, columns))
    return numbered(lines, repeats)


def mapped(
    source: Source,
    problems: Problems,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    *,
    wide: bool = False,
    repeats: Repeats | None = None,
) -> Iterator[Line]:
    """The rows of a table as responses; columns that are not named are kept under their own names."""
    chosen = _chosen(columns or {}, wide=wide)
    checked = False
    lines = _long(source, problems, chosen) if not wide else _wide(source, problems, chosen)
    for line in numbered(lines, repeats):
        checked = True
        yield line
    if not checked and not problems.total:
        problems.add("no rows", source.file)


def _chosen(columns: Mapping[str, str | Sequence[str]], *, wide: bool) -> Columns:
    """The mapping, each column of the file in a list."""
    found = {name: [given] if isinstance(given, str) else list(given) for name, given in columns.items()}
    for name, given in found.items():
        if name not in {*REQUIRED, SAMPLE} and not is_task_column(name):
            allowed = "task, agent, text, sample, prompt, reference or synopsis_NAME"
            raise UserError(f"--columns must name {allowed}, got {name!r}. Try task=id,agent=model,text=output")
        if len(given) > 1 and not (wide and name == "agent"):
            raise UserError(f"--columns has {len(given)} columns for {name}, {', '.join(given)}. Name one")
    if wide and "text" in found:
        raise UserError("--columns of a --wide table names no text: the columns of the agents have the texts")
    return found


def _long(source: Source, problems: Problems, columns: Columns) -> Iterator[Line]:
    for i, chunk in enumerate(source.chunks(problems)):
        if not i and (lacking := _lacking(columns, chunk.rows)):
            problems.add(lacking, source.file)
            return
        for number, row in zip(chunk.lines, chunk.rows, strict=True):
            yield Line(number, row | {name: _cell(row.get(given[0])) for name, given in columns.items()})


def _wide(source: Source, problems: Problems, columns: Columns) -> Iterator[Line]:
    """One response per row and agent; an empty cell is a missing response. Without a task column, rows are numbered."""
    agents = columns.get("agent", ())
    about = {name: given[0] for name, given in columns.items() if name != "agent"}
    count = 0
    for chunk in source.chunks(problems):
        if not count and (lacking := _lacking(columns, chunk.rows)):
            problems.add(lacking, source.file)
            return
        agents = agents or agent_columns(chunk.rows[0], about.values())
        if not agents:
            problems.add(f"no column of an agent; the columns are {_names(chunk.rows)}", source.file)
            return
        for number, row in zip(chunk.lines, chunk.rows, strict=True):
            count += 1
            task = {name: row[name] for name in row if is_task_column(name)} | {"task": row.get("task", str(count))}
            task |= {name: _cell(row.get(given)) for name, given in about.items()}
            for agent in agents:
                if not is_empty(text := row.get(agent)):
                    yield Line(number, {**task, "agent": agent, "text": as_text(text)})


def _cell(value: Any) -> Any:
    """Lists and objects as JSON text, since a study's columns are text; anything else unchanged."""
    return as_text(value) if isinstance(value, list | dict) else value


def _lacking(columns: Columns, rows: Sequence[Row]) -> str | None:
    """The message that columns are not in a table; None if all are."""
    there = set().union(*rows)
    absent = [given for names in columns.values() for given in names if given not in there]
    if not absent:
        return None
    return f"--columns names {', '.join(map(repr, absent))}, but the columns are {_names(rows)}"


def _names(rows: Iterable[Row]) -> str:
    return ", ".join(map(repr, dict.fromkeys(name for row in rows for name in row)))


def agent_columns(row: Row, others: Collection[str] = ()) -> list[str]:
    """The columns of a wide table that are agents: those that no other thing is named by."""
    about = {"task", *ALIASES["task"], *TASK_TEXTS, *(word for name in TASK_TEXTS for word in ALIASES[name])}
    known = about | set(others)
    return [name for name in row if name.lower() not in known and name not in known and not is_task_column(name)]


def numbered(lines: Iterator[Line], repeats: Repeats | None) -> Iterator[Line]:
    """One response per task and agent; without ``repeats`` all are passed on, and the check of the study finds them."""
    if repeats is None:
        yield from lines
        return
    seen: Counter[tuple[Any, Any]] = Counter()
    for line in lines:
        key = line.row.get("task"), line.row.get("agent")
        seen[key] += 1
        if repeats == "samples":
            yield Line(line.number, {"agent": ONE_AGENT, **line.row, SAMPLE: seen[key]})
        elif seen[key] == 1:
            yield line
        elif repeats != "first":
            column, name = ("agent", key[1]) if repeats == "agents" else ("task", key[0])
            yield Line(line.number, {**line.row, column: f"{name}#{seen[key]}"})


def how_to_read(row: Row) -> str | None:
    """What to add to the command for a table with these columns; None if they do not look like responses."""
    columns = list(row)
    found = {name: probable_column(name, columns) for name in (*REQUIRED, *TASK_TEXTS)}
    if found["agent"] and found["text"] and (task := found["task"] or found["prompt"]):
        named = found | {"task": task}
        words = ",".join(f"{name}={column}" for name, column in named.items() if column and column != name)
        return f"Try --columns {_quoted(words)}"
    agents = agent_columns(row)
    texts = [name for name in agents if isinstance(row[name], str) and not _is_number(row[name])]
    texts = [name for name in texts if not name.lower().startswith(NOT_AGENTS)]
    if len(texts) < 2 or found["agent"]:
        return None
    named = {name: found[name] for name in ("task", *TASK_TEXTS) if found[name] not in {None, name}}
    cells = [f"{name}={column}" for name, column in named.items()]
    cells += [f"agent={name}" for name in texts] if len(texts) < len(agents) else []
    return " ".join(
        ["If each agent has a column, try --wide", *([f"--columns {_quoted(','.join(cells))}"] if cells else [])]
    )


def _quoted(words: str) -> str:
    return f"'{words}'" if any(mark in words for mark in " ()&;|*?$") else words


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
