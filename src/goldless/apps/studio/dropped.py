"""Files that were dropped on the studio: kept in its folder, read as a study, and checked."""

from __future__ import annotations

import functools
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from goldless.apps.studio.viewer.library import PageNotFoundError
from goldless.apps.studio.viewer.server import RefusedError
from goldless.audit.texts import study_warnings
from goldless.errors import GoldlessError, StudyError, UserError
from goldless.studies import Study, import_study
from goldless.studies.recorded import check_inside
from goldless.studies.summary import import_summary

MOST_BYTES = 200_000_000
LONGEST_NAME = 120
_ID = re.compile(r"[0-9a-f]{16}")
COLUMNS = ("task", "agent", "text", "prompt")
"""Columns of a plain table that can be named on the page."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read: the columns of a plain table, where they have other names."""

    columns: tuple[tuple[str, str], ...] = ()
    wide: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Reading:
        """As a form says it."""
        named = ((name, str(given.get(f"column-{name}", "")).strip()) for name in COLUMNS)
        return cls(tuple((name, column) for name, column in named if column), bool(given.get("wide")))

    @property
    def options(self) -> dict[str, Any]:
        """For ``import_study``."""
        columns = {name: [column] for name, column in self.columns}
        return ({"columns": columns} if columns else {}) | ({"wide": True} if self.wide else {})

    @property
    def words(self) -> list[str]:
        """For the command line."""
        named = [word for name, column in self.columns for word in ("--columns", f"{name}={column}")]
        return [*named, *["--wide"] * self.wide]


@dataclass(frozen=True, slots=True)
class Checked:
    """What reading the files found."""

    study: Study | None
    """None: they cannot be read."""
    summary: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Dropped:
    """The folder of dropped files, a folder each time something is dropped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, request: web.Request) -> str:
        """Write the files of a form; the name under which they are kept."""
        name = secrets.token_hex(8)
        try:
            await self._write(request, name)
        except BaseException as error:
            shutil.rmtree(self._folder / name, ignore_errors=True)
            if isinstance(error, HttpProcessingError):  # the form is damaged, or a name breaks its lines
                raise UserError("the form cannot be read. A file's name must not have control characters") from error
            if isinstance(error, FileExistsError):
                raise UserError("two files have the same name. Drop one of them under another name") from error
            raise
        return name

    async def _write(self, request: web.Request, name: str) -> None:
        if not request.content_type.startswith("multipart/"):
            raise UserError("the files must be sent as a form")
        size = 0
        kept = []
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader) or part.name != "file" or not part.filename:
                continue
            path = self._folder / name / checked_name(part.filename)
            path.parent.mkdir(parents=True, exist_ok=True)
            kept.append(path)
            with path.open("xb") as file:
                while chunk := await part.read_chunk(1 << 16):
                    size += len(chunk)
                    if size > MOST_BYTES:
                        raise RefusedError(
                            413,
                            f"The files have more than {MOST_BYTES / 1e6:.0f} MB. Score them where they are: "
                            "goldless score FILE --out RUN",
                        )
                    file.write(chunk)
        if not kept:
            raise UserError("no file was sent. Choose one, or drop it on the page")

    def files(self, name: str) -> list[Path]:
        """The files that are kept under a name."""
        folder = self._folder / name
        if not _ID.fullmatch(name) or not folder.is_dir():
            raise PageNotFoundError("these files are not here (any more). Drop them again")
        return sorted(path.resolve() for path in folder.iterdir())

    def check(self, name: str, reading: Reading) -> Checked:
        """What the files are as a study."""
        return _check(tuple(self.files(name)), reading)


def checked_name(given: str) -> str:
    """The name of a file, if it is one in every file system; otherwise an error."""
    if Path(given).name != given or "\\" in given or given.startswith(".") or not given.isprintable():
        raise UserError(f"a file's name must not have a path, a leading dot or control characters, got {given[:200]!r}")
    if len(given.encode(errors="replace")) > LONGEST_NAME:
        raise UserError(f"a file's name must have at most {LONGEST_NAME} bytes, got {given[:200]!r}")
    return given


@functools.lru_cache(maxsize=4)
def _check(files: tuple[Path, ...], reading: Reading) -> Checked:
    try:
        study = import_study(files, **reading.options)
        check_inside(study.recorded_tables, study.name)
    except StudyError as error:
        return Checked(None, {}, problems=tuple(map(str, error.problems)))
    except GoldlessError as error:
        return Checked(None, {}, problems=(str(error),))
    return Checked(study, import_summary(study), tuple(study_warnings(study)))
