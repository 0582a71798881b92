"""The formats that a study can be read from, built-in and from packages.

A package adds an importer, one object as described by ``Importer``, by an entry point:

    [project.entry-points."goldless.importers"]
    toy = "my_package:toy"
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from goldless.errors import UserError, check_known
from goldless.plugins import Catalogue, must_have
from goldless.studies.checking import Problems
from goldless.studies.frames import REPEATS, Repeats
from goldless.studies.importers.harnesses import AlpacaEval, EveryEvalEver, LmEval, Promptfoo
from goldless.studies.importers.inspect_log import InspectLogs
from goldless.studies.importers.log import Log, LogImporter, study_tables
from goldless.studies.importers.study_tables import PlainTable, StudyTables
from goldless.studies.study import Origin
from goldless.studies.tables import Table


class Importer(Protocol):
    """A reader of another tool's files."""

    @property
    def description(self) -> str:
        """A short description of what it reads, such as "logs of inspect"."""

    def recognises(self, path: Path) -> bool:
        """True if the file or folder is in its format; must be cheap, by name and first bytes."""

    def read(self, paths: Sequence[Path], problems: Problems, **options: Any) -> Mapping[str, Any] | Log:
        """Read a ``Log``, or the tables of the study with the names and columns of goldless's own tables.

        A log becomes tables by the rules of ``importers/log.py``: repeats, missing responses, different prompts. A
        table is a frame (polars, pandas, pyarrow), the path of a table file, or rows: dictionaries, or ``Line`` if
        the source line is known. Rows may be generated lazily. They are checked like those of any study. Anything
        unreadable is added to ``problems`` with file and line, and reading continues.
        """


OURS = "study"
TABLE = "table"


BUILT_IN: Mapping[str, Importer] = {
    OURS: StudyTables(),
    TABLE: PlainTable(),
    "inspect": InspectLogs(),
    "lm_eval": LmEval(),
    "promptfoo": Promptfoo(),
    "alpaca_eval": AlpacaEval(),
    "every_eval_ever": EveryEvalEver(),
}
_SHAPE = must_have("an importer", methods=("recognises", "read"), texts=("description",))
IMPORTERS: Catalogue[Importer] = Catalogue("goldless.importers", BUILT_IN, _SHAPE)


def importer_for(path: Path, name: str | None = None) -> tuple[str, Importer]:
    """The importer of that name, or the one that recognises the path, with its name.

    goldless's own format is tried before any plugin; it also takes what no importer recognises, so that its error says
    what is allowed.
    """
    if name is not None:
        named = IMPORTERS.get(name)
        if named is None:
            check_known([name], IMPORTERS.all(), "unknown import format", "Formats")
        assert named is not None
        return name, named
    ours = BUILT_IN[OURS]
    if ours.recognises(path) or not path.exists():
        return OURS, ours
    importers = IMPORTERS.all()
    names = []
    for other, importer in importers.items():
        with suppress(Exception):  # third-party code: any failure means "not recognised"
            if importer.recognises(path):
                names.append(other)
    if len(names) > 1:
        raise UserError(
            f"{path} is recognised by several importers: {', '.join(names)}. "
            "Choose one with --from or, in Python, importer="
        )
    chosen = names[0] if names else OURS
    return chosen, importers[chosen]


def imported_tables(
    paths: Sequence[Path], name: str | None, problems: Problems, options: Mapping[str, Any]
) -> tuple[dict[str, Path | Table], Origin, Repeats | None]:
    """The tables the importer returns, by name, and which repeats are still to be dealt with in them.

    Any exception inside an importer becomes an error that names it.
    """
    given = {option: value for option, value in options.items() if value is not None}
    repeats: Repeats | None = given.pop("repeats", None)
    if repeats not in {None, *REPEATS}:
        raise UserError(f"repeats must be one of {', '.join(REPEATS)}, got {repeats!r}")
    if name is None and (given.keys() & {"columns", "wide"}):
        name = TABLE
    each = {found: path for path in paths for found, _ in [importer_for(path, name)]}
    if len(each) > 1:
        said = ", ".join(f"{path.name} ({found})" for found, path in each.items())
        raise UserError(f"all files must be of one format, got {said}. Import each format by itself")
    (chosen,) = each
    if chosen == OURS and name is None and (repeats or len(paths) > 1) and all(path.is_file() for path in paths):
        chosen = TABLE
    _, importer = importer_for(paths[0], chosen)
    parameters = inspect.signature(importer.read).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    takes_any = takes_any and chosen not in BUILT_IN and not isinstance(importer, LogImporter)
    for option in given.keys() - parameters.keys() if not takes_any else ():
        raise UserError(f"{chosen} files are read without the option {option!r}")
    try:
        found = importer.read(paths, problems, **given)
        tables: Mapping[str, Any]
        if isinstance(found, Log):
            tables, repeats = study_tables(found, problems, repeats or "samples"), None
        else:
            tables = found
        read = {
            table: data
            if isinstance(data, Path)
            else Table(data, problems, f"{paths[0].name} ({table})", what=f"{chosen}: the table {table!r}")
            for table, data in tables.items()
        }
    except (UserError, OSError):
        raise
    except Exception as error:
        raise UserError(f"the importer {chosen!r} failed: {type(error).__name__}: {error}") from error
    return read, Origin(chosen, len(paths), tuple(getattr(found, "notes", ()))), repeats
