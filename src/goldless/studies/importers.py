"""Importers: the file formats a study can be read from, built-in and from packages.

A package adds an importer, one object as described by ``Importer``, by an entry point:

    [project.entry-points."goldless.importers"]
    toy = "my_package:toy"
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import narwhals.stable.v2 as nw

from goldless.errors import UserError, nearest
from goldless.plugins import Catalogue
from goldless.studies.checking import Problems
from goldless.studies.content import MADE
from goldless.studies.recorded import EVIDENCE
from goldless.studies.response_table import REQUIRED
from goldless.studies.tables import ALLOWED, FORMATS, Line, Source, is_table, table_name

TABLES = (*MADE, *EVIDENCE)
"""The known tables of a study."""


class Importer(Protocol):
    """A reader of another tool's files."""

    @property
    def description(self) -> str:
        """What it reads, in a few words, such as "logs of inspect"."""

    def recognises(self, path: Path) -> bool:
        """Whether the file or folder is in its format; must be cheap, by name and first bytes."""

    def read(self, paths: Sequence[Path], problems: Problems, **options: Any) -> Mapping[str, Any]:
        """Read the tables of the study, with the names and columns of goldless's own tables.

        A table is a frame (polars, pandas, pyarrow), the path of a table file, or rows: dictionaries, or ``Line`` if
        the source line is known. Rows may be generated lazily. They are checked like those of any study. Anything
        unreadable is added to ``problems`` with file and line, and reading continues.
        """


class StudyTables:
    """The built-in format: a folder of tables, or one table of responses with columns about their tasks."""

    description = "a folder of .jsonl, .csv or .parquet tables, or one such file with task, agent and text"

    def recognises(self, path: Path) -> bool:
        """Whether a table in the folder has a known name, or the file has the columns of responses."""
        if path.is_dir():
            return any(table_name(file) in TABLES for file in filter(is_table, path.iterdir()))
        if not path.is_file() or not is_table(path):
            return False
        first = next(Source(path, path.name).chunks(Problems()), None)
        return first is not None and set(REQUIRED) <= first.rows[0].keys()

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
        elif path.suffix.lower() not in FORMATS:
            problems.add(f"ends in {path.suffix or 'nothing'!r}; {ALLOWED}")
        else:
            return {"responses": path}
        return {}


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


OURS = "study"


def _shape(value: Any) -> str | None:
    if isinstance(value, type):
        return "an importer must be an object, got a class. Try an instance of it"
    lacking = [name for name in ("recognises", "read") if not callable(getattr(value, name, None))]
    lacking += ["description"] * (not isinstance(getattr(value, "description", None), str))
    return f"an importer must have recognises, read and description; this one lacks {lacking[0]}" if lacking else None


IMPORTERS: Catalogue[Importer] = Catalogue("goldless.importers", {OURS: StudyTables()}, _shape)


def importer_for(path: Path, name: str | None = None) -> tuple[str, Importer]:
    """The importer of that name, or the one that recognises the path, with its name.

    goldless's own format is tried before any plugin; it also takes what no importer recognises, so that its error says
    what is allowed.
    """
    if name is not None:
        return name, _named(name)
    ours = IMPORTERS.get(OURS)
    assert ours is not None
    if ours.recognises(path) or not path.exists():
        return OURS, ours
    others = {other: importer for other, importer in IMPORTERS.all().items() if other != OURS}
    found = {other: importer for other, importer in others.items() if _recognises(importer, path)}
    if len(found) > 1:
        raise UserError(f"{path} is recognised by several importers: {', '.join(found)}. Choose one with importer=")
    return next(iter(found.items()), (OURS, ours))


def _named(name: str) -> Importer:
    importer = IMPORTERS.get(name)
    if importer is not None:
        return importer
    for plugin in IMPORTERS.plugins():
        if plugin.name == name:
            raise UserError(f"the importer {name!r} from {plugin.package} cannot be used: {plugin.failure}")
    known = IMPORTERS.all()
    raise UserError(f"importer must be one of {', '.join(known)}, got {name!r}{nearest(name, known)}")


def _recognises(importer: Importer, path: Path) -> bool:
    try:
        return bool(importer.recognises(path))
    except Exception:  # noqa: BLE001 - somebody else's code; what it stumbles over is none of its files
        return False


def imported_tables(
    paths: Sequence[Path], name: str | None, problems: Problems, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The tables the importer returns, by name; any exception inside an importer becomes an error that names it."""
    chosen, importer = importer_for(paths[0], name)
    try:
        tables = dict(importer.read(paths, problems, **options))
    except (UserError, OSError):
        raise
    except Exception as error:
        raise _failed(chosen, error) from error
    return {table: _checked_rows(data, table, chosen) if is_rows(data) else data for table, data in tables.items()}


def is_rows(data: Any) -> bool:
    """Whether a table is given as rows; otherwise it is a frame or the path of a file."""
    is_frame = isinstance(nw.from_native(data, pass_through=True), nw.DataFrame | nw.LazyFrame)
    return not is_frame and not isinstance(data, Path)


def _checked_rows(rows: Any, table: str, importer: str) -> Iterator[Mapping[str, Any] | Line]:
    """The rows; an exception while they are generated becomes an error that names the importer."""
    kinds = "a frame, the path of a file, or rows"
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
        raise UserError(f"{importer}: the table {table!r} must be {kinds}, got {type(rows).__name__}")
    for row in _made_rows(rows, importer):
        if not isinstance(row, Line | Mapping):
            raise UserError(f"{importer}: a row of {table!r} must be a mapping, got {type(row).__name__}")
        yield row


def _made_rows(rows: Iterable[Any], importer: str) -> Iterator[Any]:
    try:
        yield from rows
    except (UserError, OSError):
        raise
    except Exception as error:
        raise _failed(importer, error) from error


def _failed(importer: str, error: Exception) -> UserError:
    return UserError(f"the importer {importer!r} failed: {type(error).__name__}: {error}")
