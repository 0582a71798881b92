"""Reading a study from a path, frames or records: a complete study, or one error with everything that is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pyarrow as pa

from goldless.errors import UserError
from goldless.records import Agent, Response, Task
from goldless.studies.checking import Names, Problems, all_at_once
from goldless.studies.content import MADE, Recorded, StudyContent
from goldless.studies.hub import PREFIX, hub_files
from goldless.studies.importers import imported_tables, is_rows
from goldless.studies.importers.log import Repeats
from goldless.studies.importers.plain_table import mapped
from goldless.studies.label_table import LabelTable
from goldless.studies.recorded import frame_of, names_from_evidence
from goldless.studies.response_table import ResponseColumns, ResponseTable, pair_keys
from goldless.studies.soundness import check_evidence
from goldless.studies.spool import Spool
from goldless.studies.standard_input import standard_input
from goldless.studies.study import Origin, Study
from goldless.studies.tables import ALLOWED, Source, is_table
from goldless.studies.task_table import AgentTable, TaskTable, read_agents, record_of

SAMPLE = "sample"


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
        files = [file for path in paths for file in _files(path, stack)]
        first = files[0]
        with all_at_once(_said(files)) as problems:
            read = imported_tables(files, importer, problems, options)
            if read.tables or not problems.total:
                content = _checked(read.tables, first.name, problems)
    place = None if paths[0] == "-" else first
    origin = Origin(read.importer, len(files), tuple(read.notes))
    return Study(first.resolve().name if first.is_dir() else first.stem, place, content, origin=origin)


def _files(path: str | os.PathLike[str], stack: ExitStack) -> list[Path]:
    """The files of a path: itself, what comes from standard input, or what a dataset on the Hub has."""
    if path == "-":
        return [stack.enter_context(standard_input())]
    return hub_files(path) if isinstance(path, str) and path.startswith(PREFIX) else [Path(path)]


def _said(files: Sequence[Path]) -> str:
    names = list(map(str, files))
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more files"


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
    sources = {
        table: Source(_data(data), "" if table == "responses" else table)
        for table, data in given.items()
        if data is not None
    }
    with all_at_once(name) as problems:
        if columns or wide or repeats:
            lines = mapped(sources["responses"], problems, columns, wide=wide, repeats=repeats)
            sources["responses"] = Source(lines, "")
        content = _read_tables(sources, {}, problems)
    return Study(name, None, content)


def study_from_records(tasks: Iterable[Task], responses: Iterable[Response], *, name: str = "records") -> Study:
    """Make a study of these tasks and responses without reading a table; agents in order of appearance.

    A blank text is kept, because a perturbed copy may be blank. Raises if a response has no task or is duplicated.
    """
    spool = Spool()
    table, task_numbers = TaskTable(spool), Names()
    for task in tasks:
        if task.task in task_numbers:
            raise UserError(f"task {task.task!r} is given twice. Give each task once")
        task_numbers[task.task] = len(task_numbers)
        table.keep(record_of(task))
    given, agents = list(responses), Names()
    if stranger := next((r for r in given if r.task not in task_numbers), None):
        raise UserError(f"the response of {stranger.agent!r} is to {stranger.task!r}, which is not one of the tasks")
    key = pair_keys([task_numbers[r.task] for r in given], [agents[r.agent] for r in given])
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    if len(again):
        twice = given[order[again[0]]]
        raise UserError(f"{twice.agent!r} has two responses to task {twice.task!r}. Give one")
    data = [response.text.encode() for response in given]
    length = np.array([len(text) for text in data], np.int64)
    offset = np.array([spool.append(text) for text in data], np.int64)
    columns = ResponseColumns(spool, key[order], offset[order], length[order])
    content = StudyContent(tuple(task_numbers), table.finish(), tuple(map(Agent, agents)), columns, None, {})
    return Study(name, None, content)


class StudyFiles(str):  # noqa: SLOT000 - it has attributes
    """Files of a study as a command line names them, and how to read them; the text is the path of the first."""

    paths: tuple[str, ...]
    options: dict[str, Any]
    tell: Callable[[Study], None]

    def __new__(cls, paths: Sequence[str], options: Mapping[str, Any], tell: Callable[[Study], None]) -> Self:
        """The files; ``options``: of ``import_study``; ``tell``: is given the study once it is read."""
        made = super().__new__(cls, paths[0])
        made.paths, made.options, made.tell = tuple(paths), dict(options), tell
        return made

    def read(self) -> Study:
        """The study."""
        sample = self.paths == (SAMPLE,) and not Path(SAMPLE).exists()
        study = import_study([sample_study()] if sample else self.paths, **self.options)
        self.tell(study)
        return study


def as_study(source: Any) -> Study:
    """The study itself, or the one read from a path, a frame or rows; ``sample``: the built-in sample study."""
    if isinstance(source, Study):
        return source
    if isinstance(source, StudyFiles):
        return source.read()
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
        source = Source(path, path.name)
    else:
        source = Source(_data(labels), "labels")
    tasks, agents = Names(study.name), Names(study.name)
    tasks.update({task: number for number, task in enumerate(study.tasks)})
    agents.update({agent.agent: number for number, agent in enumerate(study.agents)})
    responses = study.content.response_columns
    with all_at_once("labels") as problems:
        table = LabelTable(tasks, agents)
        table.read(source, problems, responses if len(responses.key) else None)
    return study.with_labels(table.finish())


def _data(given: Any) -> Any:
    """An Arrow table of a frame, or rows as they are."""
    rows = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    if rows and all(isinstance(row, Mapping) for row in given):
        return given
    return _arrow(given)


def _arrow(frame: Any) -> Any:
    try:
        native = nw.from_native(frame)
        eager = native.collect() if isinstance(native, nw.LazyFrame) else native
        return eager.to_arrow()
    except (pa.ArrowException, UnicodeError) as error:  # some of them are TypeErrors
        raise UserError(f"the frame has a column with mixed types: {error}") from error
    except TypeError as error:
        got = f"{type(frame).__module__}.{type(frame).__qualname__}"
        raise UserError(
            f"a study must be a path, a pandas, polars or pyarrow frame, or a list of dictionaries, got a {got}"
        ) from error


def _checked(tables: Mapping[str, Any], name: str, problems: Problems) -> StudyContent:
    """The content of an importer's tables; those that are not files are named after what was read."""
    sources: dict[str, Source] = {}
    recorded: dict[str, Recorded] = {}
    for table, data in tables.items():
        file = data.name if isinstance(data, Path) else f"{name} ({table})"
        if table in MADE:
            kept = data if isinstance(data, Path) or is_rows(data) else _arrow(data)
            sources[table] = Source(kept, file)
        else:
            recorded[table] = _recorded(data, file, problems)
    return _read_tables(sources, recorded, problems)


def _recorded(data: Any, file: str, problems: Problems) -> Recorded:
    """The table as it is read later: a file in place, a frame as given, rows all at once."""
    if isinstance(data, Path | pl.LazyFrame):
        return data
    if isinstance(data, pl.DataFrame):
        return data.lazy()
    return frame_of(Source(data if is_rows(data) else _arrow(data), file).chunks(problems)).lazy()


def _read_tables(sources: Mapping[str, Source], recorded: Mapping[str, Recorded], problems: Problems) -> StudyContent:
    """Read everything, in the order in which each table can be checked against the earlier ones."""
    spool = Spool()
    task_table = TaskTable(spool)
    tasks = task_table.read(sources["tasks"], problems) if "tasks" in sources else Names()
    agents = read_agents(sources["agents"], problems) if "agents" in sources else AgentTable()
    response_table = ResponseTable(spool, tasks, agents.names)
    whole = "responses" in sources and response_table.read(sources["responses"], problems)
    responses = response_table.finish()
    label_table = LabelTable(tasks, agents.names)
    if "labels" in sources:
        label_table.read(sources["labels"], problems, responses if whole else None)
    check_evidence(recorded, problems)
    if not tasks and not problems.total:
        names_from_evidence(recorded, tasks, agents.names)
    if not tasks and not problems.total:
        problems.add("no table names a task. A study needs at least one")
    if "tasks" not in sources:
        for record in response_table.task_records():
            task_table.keep(record)
    content = StudyContent(
        tasks=tuple(tasks),
        task_columns=task_table.finish(),
        agents=agents.records(response_table.samples),
        response_columns=responses,
        label_columns=label_table.finish() if "labels" in sources else None,
        recorded=recorded,
    )
    return _without_names_of_samples(content, set(response_table.samples.values()))


def _without_names_of_samples(content: StudyContent, sampled: set[str]) -> StudyContent:
    """The content without agents that a table lists but that answered only in samples."""
    answered = set(np.unique(content.response_columns.key & 0xFFFFFFFF).tolist())
    kept = [a.agent for number, a in enumerate(content.agents) if a.agent not in sampled or number in answered]
    return content if len(kept) == len(content.agents) else Study("", None, content).subset(agents=kept).content
