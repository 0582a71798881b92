"""Reading a study from a path, frames or records: a complete study, or one error with everything that is wrong."""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from goldless.errors import UserError
from goldless.files import MADE_BY, temporary_prefix
from goldless.records import Agent, Response, Task
from goldless.studies import frames
from goldless.studies.checking import Problems, all_at_once
from goldless.studies.frames import NO_EMPTY_RESPONSES, NO_LABELS, NO_RESPONSES, REQUIRED, Listed, Repeats
from goldless.studies.hub import PREFIX, hub_files
from goldless.studies.importers import imported_tables
from goldless.studies.importers.study_tables import mapped
from goldless.studies.recorded import Recorded, check_evidence, frame_of, names_used
from goldless.studies.study import MADE, Study, in_order
from goldless.studies.tables import ALLOWED, BOM, Table, check_tables, is_table

SAMPLE = "sample"
CHATS = "texts are chats: the last turn of the assistant is the response, the turns before it are the prompt"


def sample_study() -> Path:
    """Folder of the sample study: 14 tasks and 6 invented agents of visibly different quality, written by us."""
    return Path(__file__).parent / "sample"


def read_study(path: str | os.PathLike[str], *, importer: str | None = None, **options: Any) -> Study:
    """Read a study from a folder of tables, a file with ``task, agent, text[, prompt, reference]``, or another format.

    Other tools' files are read by the importer that recognises them, or by the one named, with its own options.
    Every row of every known table is checked. Raises a ``StudyError`` with all problems, each with its file and line.
    """
    return import_study([path], importer=importer, **options)


def import_study(paths: Sequence[str | os.PathLike[str]], *, importer: str | None = None, **options: Any) -> Study:
    """Read a study from one or several files or folders, together, with one importer; "-" is standard input.

    ``repeats``: what several responses of an agent to a task are: "samples", "agents" or "tasks", or "first": only the
    first is read. ``columns``: the columns of a plain table by their names in a study, such as ``{"task": "id"}``;
    ``wide``: it has one column per agent.
    """
    if not paths:
        raise UserError("paths must name at least one file or folder, got none")
    with ExitStack() as stack:
        files: list[Path] = []
        for path in paths:
            if path == "-":
                files.append(stack.enter_context(_standard_input()))
            else:
                files += hub_files(path) if isinstance(path, str) and path.startswith(PREFIX) else [Path(path)]
        first = files[0]
        for folder in (path for path in files if (path / MADE_BY).exists()):
            check_tables(folder)
        said = ", ".join(map(str, files)) if len(files) <= 3 else f"{first} and {len(files) - 1} more files"
        with all_at_once(said) as problems:
            found, origin, repeats = imported_tables(files, importer, problems, options)
            if found or not problems.total:
                tables = _read_tables(found, problems, repeats)
    place = None if paths[0] == "-" else first
    if tables.pop("chats"):
        origin = replace(origin, notes=(*origin.notes, CHATS))
    return Study(first.resolve().name if first.is_dir() else first.stem, place, **tables, origin=origin)


@contextmanager
def _standard_input() -> Iterator[Path]:
    """A file with everything from standard input, deleted after the block."""
    if sys.stdin.isatty():
        raise UserError("standard input must be a file or a pipe, got a terminal. Try: cat answers.csv | goldless …")
    data = sys.stdin.buffer.read()
    if not data.strip():
        raise UserError("standard input is empty")
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        path = Path(folder) / "stdin" / f"stdin{_suffix(data.removeprefix(BOM).lstrip())}"
        path.parent.mkdir()  # a log may name its agent by its folder
        path.write_bytes(data)
        yield path


def _suffix(data: bytes) -> str:
    if data.startswith(b"PAR1"):
        return ".parquet"
    first = data.partition(b"\n")[0].rstrip()
    if data.startswith(b"{") and first.endswith(b"}"):
        return ".jsonl"
    if data.startswith((b"[", b"{")):
        return ".json"
    header = next(csv.reader([first.decode(errors="replace")]), [])
    return ".tsv" if len(header) == 1 and "\t" in header[0] else ".csv"


def study_from_frame(
    frame: Any,
    *,
    tasks: Any = None,
    agents: Any = None,
    labels: Any = None,
    name: str = "frame",
    columns: Mapping[str, str | Sequence[str]] | None = None,
    wide: bool = False,
    repeats: Repeats | None = None,
) -> Study:
    """Make a study of a pandas, polars or pyarrow frame, or rows, with ``task, agent, text[, prompt, reference]``.

    ``tasks``, ``agents`` and ``labels`` are frames or rows with the columns of those tables. ``columns``, ``wide`` and
    ``repeats`` are as in ``import_study``. Problems give the row, counted from 1.
    """
    given = {"responses": frame, "tasks": tasks, "agents": agents, "labels": labels}
    with all_at_once(name) as problems:
        tables = {
            table: Table(data, problems, "" if table == "responses" else table, what="a study")
            for table, data in given.items()
            if data is not None
        }
        if columns or wide:
            tables["responses"] = Table(mapped(tables["responses"], columns, wide=wide), problems, "")
        made = _read_tables(tables, problems, repeats)
    made.pop("chats")
    return Study(name, None, **made)


def study_from_records(tasks: Iterable[Task], responses: Iterable[Response], *, name: str = "records") -> Study:
    """Make a study of these tasks and responses without reading a table; agents in order of appearance.

    A blank text is kept, because a perturbed copy may be blank. Raises if a response has no task or is duplicated.
    """
    listed = frames.task_frame(list(tasks))
    given = pl.DataFrame(
        [(r.task, r.agent, r.text) for r in responses], schema=dict.fromkeys(REQUIRED, pl.String), orient="row"
    )
    for task in listed.filter(pl.col("task").is_duplicated())["task"].head(1):
        raise UserError(f"task {task!r} is given twice. Give each task once")
    for task, agent, _ in given.join(listed, on="task", how="anti").head(1).iter_rows():
        raise UserError(f"the response of {agent!r} is to {task!r}, which is not one of the tasks")
    for task, agent, _ in given.filter(pl.struct("task", "agent").is_duplicated()).head(1).iter_rows():
        raise UserError(f"{agent!r} has two responses to task {task!r}. Give one")
    agents = given["agent"].unique(maintain_order=True)
    return Study(
        name,
        None,
        task_table=listed,
        agents=tuple(map(Agent, agents)),
        response_table=in_order(given, listed["task"], agents),
        label_table=NO_LABELS,
    )


def as_study(source: Any) -> Study:
    """The study itself, or the one read from a path, a frame or rows; ``sample``: the built-in sample study."""
    if isinstance(source, Study):
        return source
    if isinstance(source, str) and source == SAMPLE and not Path(SAMPLE).exists():
        source = sample_study()
    if isinstance(source, str | os.PathLike):
        return read_study(source)
    return study_from_frame(source)


def with_labels(study: Study, labels: Any) -> Study:
    """The study with the labels of a file or frame in place of its own. Reports all problems at once."""
    if isinstance(labels, str | os.PathLike):
        path = Path(labels)
        if not is_table(path):
            raise UserError(f"{path}: no such labels file; {ALLOWED}")
        labels = path
    tasks = Listed("task", study.task_table["task"], study.name)
    agents = Listed("agent", pl.Series("agent", study.agent_list, pl.String), study.name)
    with all_at_once("labels") as problems:
        file = labels.name if isinstance(labels, Path) else "labels"
        table = Table(labels, problems, file, what="labels")
        found = frames.read_labels(table, tasks, agents, study.table("responses"))
    return study.with_labels(found)


def _read_tables(given: Mapping[str, Path | Table], problems: Problems, repeats: Repeats | None) -> dict[str, Any]:
    """The frames of a study, read in the order in which each table can be checked against the earlier ones."""
    recorded: dict[str, Recorded] = {
        name: table if isinstance(table, Path) else frame_of(table).lazy()
        for name, table in given.items()
        if name not in MADE
    }

    def opened(name: str) -> Table:
        table = given[name]
        return Table(table, problems) if isinstance(table, Path) else table

    task_table, tasks = None, Listed("task", pl.Series("task", [], pl.String))
    if "tasks" in given:
        task_table, tasks = frames.read_tasks(opened("tasks"))
    about, agents = dict[str, Agent](), Listed("agent", pl.Series("agent", [], pl.String))
    if "agents" in given:
        about, agents = frames.read_agents(opened("agents"))
    responses, samples, chats, empty = frames.ResponseRows(NO_RESPONSES, {}, chats=False, empty=NO_EMPTY_RESPONSES)
    whole = False
    if "responses" in given:
        table = opened("responses")
        responses, samples, chats, empty = frames.read_responses(table, tasks, agents, repeats)
        whole = not table.broken
    labels = NO_LABELS
    if "labels" in given:
        labels = frames.read_labels(opened("labels"), tasks, agents, responses if whole else None)
    check_evidence(recorded, problems)
    if not len(tasks.names) and not problems.total:
        tasks.names, used = names_used(recorded)
        agents.names = agents.names if agents.file else pl.concat([agents.names, used]).unique(maintain_order=True)
    if not len(tasks.names) and not problems.total:
        problems.add("no table names a task. A study needs at least one")
    if task_table is None:
        about_tasks = [name for name in responses.columns if frames.is_task_column(name)]
        by_task = responses.group_by("task").agg(pl.col(name).drop_nulls().first() for name in about_tasks)
        known = pl.concat([pl.DataFrame(schema=frames.TASKS), by_task], how="diagonal")
        task_table = tasks.names.to_frame().join(known, on="task", how="left", maintain_order="left")
    # An agent that a table lists but that answered only in samples is not one of its own.
    sampled = set(samples.values()) - set(responses["agent"])
    agents.names = agents.names.filter(~agents.names.is_in(list(sampled)))
    return {
        "task_table": task_table,
        "agents": tuple(
            about.get(name) or replace(about.get(samples.get(name, ""), Agent(name)), agent=name, sample_of=of)
            for name, of in ((name, samples.get(name)) for name in agents.names)
        ),
        "response_table": in_order(responses, tasks.names, agents.names),
        "label_table": labels,
        "recorded_tables": recorded,
        "empty_responses": empty,
        "chats": chats,
    }
