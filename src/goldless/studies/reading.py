"""Reading a study from a folder, a file or frames: a whole study, or an error that says all that is wrong."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import pyarrow as pa

from goldless.errors import UserError
from goldless.studies import frames
from goldless.studies.agent_table import AgentTable, read_agents
from goldless.studies.content import Recorded, StudyContent
from goldless.studies.label_table import LabelTable
from goldless.studies.names import Names
from goldless.studies.problems import Problems, all_at_once
from goldless.studies.recorded import EVIDENCE, check_evidence, names_from_evidence
from goldless.studies.response_table import ResponseTable
from goldless.studies.sample_study import sample_study
from goldless.studies.spool import Spool
from goldless.studies.study import Study
from goldless.studies.tables import ALLOWED, FORMATS, Source, is_table, table_name
from goldless.studies.task_table import TaskTable

TABLES = (*frames.MADE, *EVIDENCE)
SAMPLE = "sample"


def read_study(path: str | os.PathLike[str]) -> Study:
    """The study in a folder of tables, or in one file with ``task, agent, text[, prompt, reference]``.

    Every row of every known table is checked. Raises a ``StudyError`` with all problems, each with its file and line.
    """
    path = Path(path)
    with all_at_once(str(path)) as problems:
        sources: dict[str, Source] = {}
        recorded: dict[str, Recorded] = {}
        if path.is_dir():
            sources, recorded = _find_tables(path, problems)
        elif not path.exists():
            problems.add(f"no such file or folder; {ALLOWED}, a study is a folder of them or one of them")
        elif path.suffix.lower() not in FORMATS:
            problems.add(f"ends in {path.suffix or 'nothing'!r}; {ALLOWED}")
        else:
            sources = {"responses": Source(path, path.name)}
        if sources or recorded:
            content = _read_tables(sources, recorded, problems)
    return Study(path.resolve().name if path.is_dir() else path.stem, path, content)


def study_from_frame(
    frame: Any, *, tasks: Any = None, agents: Any = None, labels: Any = None, name: str = "frame"
) -> Study:
    """The study in a pandas, polars or pyarrow frame with ``task, agent, text[, prompt, reference]``.

    ``tasks``, ``agents`` and ``labels`` are frames with the columns of those tables. Problems give the row,
    counted from 1.
    """
    given = {"responses": frame, "tasks": tasks, "agents": agents, "labels": labels}
    sources = {
        table: Source(_arrow(data), "" if table == "responses" else table)
        for table, data in given.items()
        if data is not None
    }
    with all_at_once(name) as problems:
        content = _read_tables(sources, {}, problems)
    return Study(name, None, content)


def as_study(source: Any) -> Study:
    """The study itself, or the one read from a path or from a frame; ``sample``: the one that comes with goldless."""
    if isinstance(source, Study):
        return source
    if isinstance(source, str) and source == SAMPLE and not Path(SAMPLE).exists():
        source = sample_study()
    if isinstance(source, str | os.PathLike):
        return read_study(source)
    return study_from_frame(source)


def _arrow(frame: Any) -> Any:
    try:
        native = nw.from_native(frame)
        eager = native.collect() if isinstance(native, nw.LazyFrame) else native
        return eager.to_arrow()
    except (pa.ArrowException, UnicodeError) as error:  # some of them are TypeErrors
        raise UserError(f"the frame has a column that is not of one type: {error}") from error
    except TypeError as error:
        came = f"{type(frame).__module__}.{type(frame).__qualname__}"
        raise UserError(f"a study is a path or a pandas, polars or pyarrow frame; this is a {came}") from error


def _find_tables(folder: Path, problems: Problems) -> tuple[dict[str, Source], dict[str, Recorded]]:
    """Files of the known tables, and of recorded evidence and tables goldless does not know."""
    found: dict[str, Path] = {}
    for path in sorted(filter(is_table, folder.iterdir())):
        table = table_name(path)
        if table in found:
            problems.add(f"also in {found[table].name}; a table is one file", path.name)
        found.setdefault(table, path)
    missing = [table for table in TABLES if table not in found]
    for path in sorted(folder.iterdir()):
        table = path.name.split(".", 1)[0]
        if not path.is_file() or (path.stem in TABLES and is_table(path)):
            continue
        if table in missing and not is_table(path):
            problems.add(f"cannot be read; {ALLOWED}", path.name)
        elif is_table(path) and (near := difflib.get_close_matches(table, missing, n=1, cutoff=0.8)):
            problems.add(f"no table of a study is called {table!r}; did you mean {near[0]!r}?", path.name)
    if not found and not problems.total:
        problems.add(f"no tables in this folder; {ALLOWED}, with one of the names {', '.join(TABLES)}")
    sources = {table: Source(found[table], found[table].name) for table in frames.MADE if table in found}
    known = [table for table in EVIDENCE if table in found]
    others = [table for table in found if table not in TABLES]
    return sources, {table: found[table] for table in known + others}


def _read_tables(sources: Mapping[str, Source], recorded: Mapping[str, Recorded], problems: Problems) -> StudyContent:
    """Everything, in the order in which each table can be checked against those before it."""
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
        problems.add("nothing here names a task; a study needs at least one")
    if "tasks" not in sources:
        for record in response_table.task_records():
            task_table.keep(record)
    return StudyContent(
        tasks=tuple(tasks),
        task_columns=task_table.finish(),
        agents=agents.records(),
        response_columns=responses,
        label_columns=label_table.finish() if "labels" in sources else None,
        recorded=recorded,
    )
