"""goldless's own format: a folder of tables, or one table of responses."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.studies.checking import Problems, Row
from goldless.studies.frames import REQUIRED
from goldless.studies.importers.plain_table import how_to_read
from goldless.studies.recorded import EVIDENCE
from goldless.studies.study import MADE
from goldless.studies.tables import ALLOWED, SINGLE, Source, is_table, table_name

TABLES = (*MADE, *EVIDENCE)
"""The known tables of a study."""


class StudyTables:
    """The built-in format: a folder of tables, or one table of responses with columns about their tasks."""

    description = "a folder of tables, or one .jsonl, .json, .csv, .tsv or .parquet file with task, agent and text"

    def recognises(self, path: Path) -> bool:
        """Whether a table in the folder has a known name, or the file has the columns of responses."""
        if path.is_dir():
            return any(table_name(file) in TABLES for file in filter(is_table, path.iterdir()))
        return path.is_file() and path.suffix.lower() in SINGLE and set(REQUIRED) <= first_row(path).keys()

    def read(self, paths: Sequence[Path], problems: Problems, **options: Any) -> Mapping[str, Any]:
        """The table files; a path without any is a problem that says what is allowed."""
        if options or len(paths) != 1:
            got = f"{len(paths)} paths" if len(paths) != 1 else f"the option {next(iter(options))!r}"
            raise UserError(
                f"a study in goldless's own format must be one folder or one file without options, got {got}"
            )
        path = paths[0]
        if path.is_dir():
            return _find_tables(path, problems)
        if not path.exists():
            problems.add(f"no such file or folder; {ALLOWED}, and a study is one of them or a folder of them")
        elif path.suffix.lower() not in SINGLE:
            problems.add(f"ends in {path.suffix or 'nothing'!r}; {ALLOWED}")
        elif how := _other_columns(path):
            problems.add(how)
        else:
            return {"responses": path}
        return {}


def first_row(path: Path) -> Row:
    """The first row of a table; empty if it has none or cannot be read."""
    first = next(Source(path, path.name).chunks(Problems()), None)
    return first.rows[0] if first is not None else {}


def _other_columns(path: Path) -> str | None:
    """What to do with a table without the columns of responses; None if it has them or nothing is known."""
    row = first_row(path)
    if set(REQUIRED) <= row.keys() or (how := how_to_read(row)) is None:
        return None
    lacking = ", ".join(repr(name) for name in REQUIRED if name not in row)
    return f"no column {lacking}; the columns are {', '.join(map(repr, row))}. {how}"


def _find_tables(folder: Path, problems: Problems) -> dict[str, Path]:
    """The table files of a study, unknown tables last."""
    found: dict[str, Path] = {}
    for path in sorted(filter(is_table, folder.iterdir())):
        table = table_name(path)
        if table in found:
            problems.add(f"table is already in {found[table].name}. Keep one file per table", path.name)
        found.setdefault(table, path)
    _report_misnamed(folder, [table for table in TABLES if table not in found], problems)
    if not found and not problems.total:
        problems.add(f"no tables in this folder; {ALLOWED} named {', '.join(TABLES)}")
    known = [table for table in TABLES if table in found]
    return {table: found[table] for table in (*known, *(table for table in found if table not in TABLES))}


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
