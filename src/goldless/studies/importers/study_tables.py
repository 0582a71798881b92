"""Tables: goldless's own format, a folder of tables or one table of responses; and plain tables with other columns."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from goldless import evidence
from goldless.errors import UserError
from goldless.studies.chats import turns
from goldless.studies.checking import (
    ALIASES,
    Problems,
    as_text,
    fitting_columns,
    is_empty,
    probable_column,
    read_cell,
)
from goldless.studies.frames import REQUIRED, SAMPLE, is_task_column
from goldless.studies.study import MADE
from goldless.studies.tables import ALLOWED, ALLOWED_ALONE, SINGLE, Line, Table, first_row, is_table, table_name

TABLES = (*MADE, *(name for name, table in evidence.TABLES.items() if table.required))
"""The known tables of a study."""
TASK_TEXTS = ("prompt", "reference")
SHEETS = (".xlsx", ".xls", ".ods")
NOT_AGENTS = (
    *("answer_id", "answer_key", "categ", "choices", "doc", "filter", "judg", "label", "meta", "metric", "model_"),
    *("rating", "resps", "score", "source", "tstamp", "type", "winner"),
)
"""Beginnings of names of columns that are hardly agents, for hints only."""


class Noted(dict[str, Any]):
    """Tables by name, with what the user should know about the reading."""

    notes: tuple[str, ...] = ()


# --- goldless's own format -------------------------------------------------------------------------------------------


class StudyTables:
    """The built-in format: a folder of tables, or one table of responses with columns about their tasks."""

    description = "a folder of tables, or one .jsonl, .json, .csv, .tsv or .parquet file with task, agent and text"

    def recognises(self, path: Path) -> bool:
        if path.is_dir():
            return any(table_name(file) in TABLES for file in filter(is_table, path.iterdir()))
        return path.is_file() and path.suffix.lower() in SINGLE and first_row(path).keys() >= REQUIRED.keys()

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Mapping[str, Any]:
        """The table files; a path without any is a problem that says what is allowed."""
        if len(paths) != 1:
            raise UserError(f"a study in goldless's own format must be one folder or one file, got {len(paths)} paths")
        path = paths[0]
        if path.is_dir():
            return _find_tables(path, problems)
        if not path.exists():
            problems.add(f"no such file or folder; {ALLOWED_ALONE}, and a study is one of them or a folder of them")
        elif path.suffix.lower() not in SINGLE:
            sheet = ". Save the sheet as CSV" if path.suffix.lower() in SHEETS else ""
            problems.add(f"ends in {path.suffix or 'nothing'!r}; {ALLOWED_ALONE}{sheet}")
        else:
            return _one_table(path, problems)
        return {}


def _one_table(path: Path, problems: Problems) -> Noted:
    """The responses in a file; where the columns have other common names, they are taken with a note."""
    row = first_row(path)
    if row.keys() >= REQUIRED.keys() or not row:
        return Noted(responses=path)
    if columns := guessed_columns(list(row)):
        found = Noted(responses=mapped(Table(path, problems), columns))
        said = ",".join(f"{name}={column}" for name, column in columns.items() if name != column)
        no_prompt = "" if "prompt" in columns else ", and none as the prompt"
        found.notes = (f"{path.name}: columns are read as {said}{no_prompt}; name others with --columns",)
        return found
    problems.add(how_to_read(row))
    return Noted()


def _find_tables(folder: Path, problems: Problems) -> Mapping[str, Any]:
    """The table files of a study, unknown tables last."""
    found: dict[str, Path] = {}
    for path in sorted(filter(is_table, folder.iterdir())):
        table = table_name(path)
        if table in found:
            problems.add(f"table is already in {found[table].name}. Keep one file per table", path.name)
        found.setdefault(table, path)
    _report_misnamed(folder, [table for table in TABLES if table not in found], problems)
    if not found and not problems.total:
        problems.add(
            "no tables in this folder. Put the responses into responses.csv, with the columns task, agent and text; "
            f"beside it there may be {', '.join(table for table in TABLES if table != 'responses')}; {ALLOWED}"
        )
    others = [] if "responses" in found or problems.total else [table for table in found if table not in TABLES]
    like_responses = [table for table in others if first_row(found[table]).keys() >= REQUIRED.keys()]
    if len(found) == len(others) == 1 and not like_responses:
        only = found[others[0]]
        if guessed_columns(list(first_row(only))):
            return _one_table(only, problems)
    tables = Noted((table, found[table]) for table in (*TABLES, *found) if table in found)
    if len(like_responses) == 1:
        file = tables.pop(like_responses[0])
        tables["responses"] = file
        tables.notes = (f"{file.name} is read as the table of responses",)
    elif like_responses:
        names = [found[table].name for table in like_responses]
        problems.add(
            f"no table named responses, but {', '.join(names)} have task, agent and text. Name one of them responses, "
            f"or give the files instead of the folder: {' '.join(str(folder / name) for name in names[:3])}"
        )
    return tables


def _report_misnamed(folder: Path, missing: Sequence[str], problems: Problems) -> None:
    """Report files that look like a missing table, by extension or spelling."""
    for path in sorted(folder.iterdir()):
        table = path.name.split(".", 1)[0]
        if not path.is_file() or (path.stem in TABLES and is_table(path)):
            continue
        if table in missing and not is_table(path):
            problems.add(f"cannot be read; {ALLOWED}", path.name)
        elif is_table(path) and (near := difflib.get_close_matches(table, missing, n=1, cutoff=0.8)):
            problems.add(f"{table!r} is not a table name. Did you mean {near[0]!r}?", path.name)


# --- plain tables ----------------------------------------------------------------------------------------------------


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
        **_options: Any,
    ) -> Mapping[str, Any]:
        for path in paths:
            if not path.is_file() or path.suffix.lower() not in SINGLE:
                got = "no such file" if not path.exists() else f"ends in {path.suffix or 'nothing'!r}"
                problems.add(f"{got}; {ALLOWED_ALONE}", path.name)
        if problems.total:
            return {}
        if wide and len(paths) > 1:
            raise UserError(f"--wide reads one file, got {len(paths)}. Import them one by one")
        lines = (line for path in paths for line in mapped(Table(path, problems), columns, wide=wide))
        return {"responses": lines}


def mapped(
    table: Table, columns: Mapping[str, str | Sequence[str]] | None = None, *, wide: bool = False
) -> Iterator[Line]:
    """The rows of a table as responses; columns that are not named are kept under their own names.

    Of a wide table each agent's cell is a response, unless it is empty. Without a task column, rows are numbered.
    """
    about, agents = _chosen(columns or {}, wide=wide)
    if not table.rows:
        if not table.broken:
            table.add("no rows")
        return
    columns_there = table.frame.columns
    there = ", ".join(map(repr, columns_there))
    absent = [given for given in (*about.values(), *agents) if given not in columns_there]
    if absent:
        table.add(f"--columns names {', '.join(map(repr, absent))}, but the columns are {there}")
        return
    agents = agents or (agent_columns(columns_there, about.values()) if wide else [])
    if wide and not agents:
        table.add(f"no column of an agent; the columns are {there}")
    for count, (number, row) in enumerate(table.numbered_rows(), 1):
        named = {**row} | {name: _cell(name, row.get(given)) for name, given in about.items()}
        if not wide:
            yield Line(number, named)
            continue
        task = {name: cell for name, cell in named.items() if name in about or is_task_column(name)}
        task["task"] = named.get("task", str(count))
        for agent in agents:
            if not is_empty(text := row.get(agent)):
                yield Line(number, {**task, "agent": agent, "text": text if isinstance(text, list) else as_text(text)})


def _chosen(columns: Mapping[str, str | Sequence[str]], *, wide: bool) -> tuple[dict[str, str], list[str]]:
    """The columns of a file by their names in a study, and those of the agents of a wide table."""
    found = {name: [given] if isinstance(given, str) else list(given) for name, given in columns.items()}
    for name, given in found.items():
        if name not in {*REQUIRED, SAMPLE} and not is_task_column(name):
            allowed = "task, agent, text, sample, prompt, reference or synopsis_NAME"
            raise UserError(f"--columns must name {allowed}, got {name!r}. Try task=id,agent=model,text=output")
        if len(given) > 1 and not (wide and name == "agent"):
            raise UserError(f"--columns has {len(given)} columns for {name}, {', '.join(given)}. Name one")
    if wide and "text" in found:
        raise UserError("--columns of a --wide table names no text: the columns of the agents have the texts")
    agents = found.pop("agent", []) if wide else []
    return {name: given[0] for name, given in found.items()}, agents


def _cell(name: str, value: Any) -> Any:
    """A chat in place of a prompt as text, other lists and objects as JSON; a text that is a list is read as a chat."""
    if not isinstance(value, list | dict) or name == "text":
        return value
    chat = turns(value)
    return as_text(value) if chat is None else "\n\n".join(f"{role}: {said}" for role, said in chat)


def agent_columns(columns: Iterable[str], others: Collection[str] = ()) -> list[str]:
    """The columns of a wide table that are agents: those that no other thing is named by."""
    about = {"task", *ALIASES["task"], *TASK_TEXTS, *(word for name in TASK_TEXTS for word in ALIASES[name])}
    known = about | set(others)
    return [name for name in columns if name.lower() not in known and name not in known and not is_task_column(name)]


def guessed_columns(columns: Sequence[str]) -> dict[str, str] | None:
    """The columns of responses under other common names; None if one is missing or could be several.

    Without a task, its prompt names it.
    """
    fitting = {name: fitting_columns(name, columns) for name in (*REQUIRED, *TASK_TEXTS)}
    fitting["task"] = fitting["task"] or fitting["prompt"]
    found = {name: there[0] for name, there in fitting.items() if len(there) == 1}
    return found if found.keys() >= REQUIRED.keys() else None


def how_to_read(row: Mapping[str, Any]) -> str:
    """The columns that a table with this row lacks, and the options to add to the command."""
    columns = list(row)
    found = {name: probable_column(name, columns) for name in (*REQUIRED, *TASK_TEXTS)}
    responses = found | {"task": found["task"] or found["prompt"]}
    agents = agent_columns(columns)
    texts = [name for name in agents if isinstance(row[name], str) and not name.lower().startswith(NOT_AGENTS)]
    texts = [name for name in texts if read_cell(row[name], "number")[0] is None]
    others = [name for name in texts if name != found["text"]]
    if not found["agent"] and len(others) == 1:
        responses["agent"] = others[0]
    lacking = [name for name in REQUIRED if not responses[name]]
    if not lacking:
        advice = f"Try --columns {_named(responses)}"
    elif found["agent"] or len(texts) < 2:
        needed = {name: responses[name] or "COLUMN" for name in REQUIRED}
        advice = f"Name the columns that have them in place of COLUMN: --columns {_named(needed)}"
    else:
        told = _named({name: found[name] for name in ("task", *TASK_TEXTS)}, texts if len(texts) < len(agents) else ())
        advice = f"If each agent has a column, try --wide{told and f' --columns {told}'}"
    absent = ", ".join(map(repr, lacking or (name for name in REQUIRED if name not in row)))
    return f"no column {absent}; the columns are {', '.join(map(repr, columns))}. {advice}"


def _named(columns: Mapping[str, str | None], agents: Iterable[str] = ()) -> str:
    """The value of ``--columns``, quoted for a shell where it has to be."""
    cells = [f"{name}={column}" for name, column in columns.items() if column not in {None, name}]
    words = ",".join([*cells, *(f"agent={name}" for name in agents)])
    return f"'{words}'" if any(mark in words for mark in " ()&;|*?$") else words
