"""``goldless journal files`` and ``clear``: what goldless keeps on this machine, and where."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from goldless.cli.command import verb
from goldless.cli.console import confirmed, say
from goldless.cli.output import Output
from goldless.errors import UserError
from goldless.runs.option_forms import argument, option


@dataclass(frozen=True, slots=True)
class Kept:
    """One place where goldless keeps files."""

    part: Literal["journal", "models"]
    path: str
    bytes: int
    contents: str
    if_cleared: str
    """What is lost."""


@verb()
def files(*, output: Output) -> None:
    """Show the journal and the downloaded models: where they are, and what they take.

    GOLDLESS_HOME moves both to one folder; otherwise they follow the conventions of the operating system.

    Example:
      goldless journal files
    """
    from goldless.reports.report_table import Column, ReportTable

    kept = tuple(asdict(one) for one in _kept())
    columns = (
        Column("part", "what"),
        Column("path", "where", absent="—"),
        Column("size", "size"),
        Column("contents", "contents"),
        Column("if_cleared", "if cleared"),
    )
    rows = tuple({**one, "size": size_in_words(one["bytes"])} for one in kept)
    output.print_tables([ReportTable("Files of goldless on this machine", columns, rows)], lambda: {"kept": kept})


@dataclass(frozen=True, kw_only=True)
class Clearing:
    """Options of ``clear``."""

    part: Literal["journal", "models", "all"] = argument(
        "PART", "journal (replies of models), models (downloads) or all."
    )
    yes: bool = option(False, "Delete without asking.", "--yes -y")


@verb()
def clear(own: Clearing) -> None:
    """Delete the journal or the downloaded models, after asking.

    A cleared journal means that models are called, and paid for, again.

    Examples:
      goldless journal clear models
      goldless journal clear journal --yes
    """
    found = [one for one in _kept() if one.bytes and own.part in {one.part, "all"}]
    if not found:
        say("nothing to clear")
        return
    for one in found:
        say(f"{one.part}: {one.path} ({size_in_words(one.bytes)}; {one.contents}). {one.if_cleared}")
    if not own.yes and not confirmed("clearing"):
        say("nothing was deleted")
        return
    for one in found:
        try:
            if one.part == "models":
                shutil.rmtree(one.path)
            else:
                for path in journal_files(Path(one.path)):
                    path.unlink()
        except OSError as error:
            raise UserError(f"{one.path}: cannot be deleted ({error.strerror})") from error
        say(f"deleted: {one.path}")


def _kept() -> Iterable[Kept]:
    from goldless.models.cache import compiled_folder, default_journal, models_folder

    journal = default_journal()
    lost = "Runs call their models again, and pay again; run folders keep their results."
    yield Kept("journal", str(journal), size_of(journal_files(journal)), _replies(journal), lost)
    for folder in (models_folder(), compiled_folder()):
        files = [path for path in folder.rglob("*") if path.is_file()]
        if files or folder == models_folder():
            contents = f"{len(files)} file{'s' * (len(files) != 1)}"
            yield Kept("models", str(folder), size_of(files), contents, "They are fetched or made again when needed.")


def _replies(journal: Path) -> str:
    """How many replies a journal has, and what they cost."""
    if not journal.is_file():
        return "none yet"
    try:
        with closing(sqlite3.connect(f"{journal.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            count, usd = connection.execute("select count(*), sum(cost_usd) from calls").fetchone()
    except sqlite3.Error as error:
        return f"cannot be read ({error})"
    return f"{count:,} replies" + (f" that cost {usd:.2f} USD" if usd else "")


def journal_files(journal: Path) -> list[Path]:
    """The journal and what SQLite keeps beside it."""
    return [path for path in (journal, *(Path(f"{journal}{end}") for end in ("-wal", "-shm"))) if path.is_file()]


def size_of(files: Iterable[Path]) -> int:
    """The bytes of files together."""
    return sum(path.stat().st_size for path in files)


def size_in_words(size: int) -> str:
    """A number of bytes in words."""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
