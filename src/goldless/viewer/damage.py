"""A run folder whose files are damaged: a page that says which, in place of an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import polars as pl

from goldless.errors import StudyError, UserError
from goldless.evidence import TABLES as EVIDENCE
from goldless.evidence import Schema
from goldless.files import POLARS_FAILED
from goldless.reports.run_folder import RunFolder
from goldless.studies.recorded import check_inside
from goldless.studies.tables import UNREADABLE
from goldless.viewer.evidence_tables import TABLES, EvidenceTables
from goldless.viewer.library import Library

Made = TypeVar("Made")
SHOWN = 5
_TEXTS: Schema = {
    **dict.fromkeys(("task", "agent", "text", "prompt", "reference", "metric", "peer"), pl.String),
    "score": pl.Float64,
}
_NEEDED: Mapping[str, Sequence[str]] = {
    "responses": ("agent", "text"),
    "pair_scores": ("metric", "agent", "peer", "score"),
}
"""Columns of tables that are no evidence."""


class DamagedRunError(UserError):
    """Files of a run that cannot be read."""


def page_of(make: Callable[..., Made], library: Library, links: object, run: str, *where: Any) -> Made:
    """Call ``make``; raise DamagedRunError, with the files, if it failed because files are damaged."""
    try:
        return make(library, links, run, *where)
    except UserError:
        raise
    except (Exception, *POLARS_FAILED) as error:
        found = damaged_files(library.run(run))
        if isinstance(error, KeyError):
            found += _lacking(library.run(run), error.args[0])
        if not found and not isinstance(error, (*POLARS_FAILED, *UNREADABLE)):
            raise
        listed = "; ".join(found[:SHOWN]) or str(error).splitlines()[0]
        more = f" and {len(found) - SHOWN} more" * (len(found) > SHOWN)
        raise DamagedRunError(
            f"files of the run {run} cannot be read: {listed}{more}. Run the command that wrote it again"
        ) from error


def damaged_files(run: RunFolder) -> list[str]:
    """What is wrong with the files of a run, one line each."""
    found = [*run.unreadable]
    for name in TABLES:
        schema = EVIDENCE.get(name, _TEXTS)
        files = run.files(name)
        if files:
            whole = files[0].parent if files[0].parent.name == name else files[0]
            try:
                check_inside({name: whole}, run.name, schemas={name: schema})
            except StudyError as error:
                found += map(str, error.problems)
    return found


def _lacking(run: RunFolder, column: object) -> list[str]:
    """The tables without a column that they must have."""
    tables = EvidenceTables(run)
    must = {name: _NEEDED.get(name, EVIDENCE.get(name, ())) for name in TABLES if run.files(name)}
    lacking = [name for name, columns in must.items() if column in columns and column not in tables.columns(name)]
    return [f"{name}: the column {column} is missing" for name in lacking]
