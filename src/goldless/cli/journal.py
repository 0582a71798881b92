"""``goldless journal``: look after the file that keeps all replies."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from goldless.cli.batches import batches
from goldless.cli.cache import clear, files, journal_files, size_in_words, size_of
from goldless.cli.command import Command, verb, verbs_app
from goldless.cli.console import NOTHING, confirmed, end, say
from goldless.cli.output import Output
from goldless.errors import UserError
from goldless.runs.option_forms import FILES, argument, option
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.models.journal import Journal

app = verbs_app("Look after the replies of models that are kept on this machine.")
for other in (batches, files, clear):
    app.command(cls=Command)(other)
DAY_SECONDS = 24 * 3600


@app.command(cls=Command)
@verb("journal")
def check(*, options: Options, output: Output) -> None:
    """Check every reply and the file itself; nothing is changed. Exit code 1 if anything is damaged.

    A damaged reply is removed, and its call made again, by the next run that needs it. If the file itself is damaged,
    restore it from a backup, or save what can be read with the .recover command of sqlite3.

    Example:
      goldless journal check
    """
    from goldless.models.journal_upkeep import check_journal
    from goldless.reports.report_table import Column, ReportTable

    path = _path(options)
    found = check_journal(path)
    columns = (Column("replies", "sound replies", "count"), Column("damaged", "damaged", "count"))
    table = ReportTable(f"Journal {path}", columns, (asdict(found),), notes=found.problems)
    output.print_tables([table], lambda: {"journal": str(path), **asdict(found)})
    if found.problems:
        saved = f"sqlite3 {path} .recover | sqlite3 saved"
        end(NOTHING, f"the file {path} is damaged. Restore it from a backup, or save what can be read: {saved}")
    if found.damaged:
        end(NOTHING, f"{path} has damaged replies. Their calls are made again by the next run that needs them")


@dataclass(frozen=True, kw_only=True)
class JournalShowing:
    """Options of ``show``."""

    run: Path | None = option(None, "Also show what this run folder's results cost.", "FOLDER")


@app.command(cls=Command)
@verb("journal")
def show(own: JournalShowing, options: Options, output: Output) -> None:
    """Show the size of the journal, and calls, tokens and cost by model.

    Examples:
      goldless journal show
      goldless journal show --run runs/first
    """
    from goldless.models.journal_upkeep import model_totals
    from goldless.reports.report_table import Column, ReportTable
    from goldless.runs.store import noted_spending

    path = _path(options)
    with closing(_existing(path)) as journal:
        totals = model_totals(journal)
    columns = (
        Column("model", "model"),
        Column("calls", "calls", "count"),
        Column("tokens", "tokens", "count"),
        Column("cost_usd", "USD", "usd", "unknown"),
        Column("estimated", "estimated", "count"),
        Column("since", "first reply"),
        Column("until", "last reply"),
    )
    rows = tuple({**asdict(one), "since": _day(one.first), "until": _day(one.last)} for one in totals)
    size = size_of(journal_files(path))
    tables = [ReportTable(f"Journal {path} ({size_in_words(size)})", columns, rows)]
    spent = () if own.run is None else noted_spending(own.run)
    if own.run is not None:
        of_run = (
            Column("verb", "verb"),
            Column("model", "model"),
            Column("calls", "calls"),
            Column("reused", "from the journal"),
            Column("cost_usd", "USD paid by the last process", "usd", "unknown"),
            Column("result_usd", "USD of the result", "usd", "unknown"),
        )
        tables.append(ReportTable(f"Run {own.run}", of_run, spent))
    output.print_tables(
        tables, lambda: {"journal": str(path), "bytes": size, "models": [asdict(one) for one in totals], "run": spent}
    )


@app.command(cls=Command)
@verb("journal")
def compact(*, options: Options) -> None:
    """Give the space of deleted replies back to the disk.

    Example:
      goldless journal compact
    """
    path = _path(options)
    before = size_of(journal_files(path))
    with closing(_existing(path)) as journal:
        journal.rows("vacuum")
        journal.rows("pragma wal_checkpoint(truncate)")
    say(f"{path}: {size_in_words(before)} before, {size_in_words(size_of(journal_files(path)))} now")


@dataclass(frozen=True, kw_only=True)
class Forgetting:
    """Options of ``forget``."""

    model: str | None = option(None, "Delete replies of this model, as goldless journal show names it.")
    older_than: float | None = option(
        None, "Delete replies stored more than this many days ago.", "DAYS", typer={"min": 0}
    )
    dry_run: bool = option(False, "Only count what would be deleted.")
    yes: bool = option(False, "Delete without asking.", "--yes -y")


@app.command(cls=Command)
@verb("journal")
def forget(own: Forgetting, options: Options) -> None:
    """Delete replies by model, by age, or by both. Their calls are made, and paid for, again when they are needed.

    Examples:
      goldless journal forget --older-than 365 --dry-run
      goldless journal forget --model openai:gpt-4o-mini --yes
    """
    from goldless.models.journal_upkeep import forget as forget_replies

    if own.model is None and own.older_than is None:
        raise UserError("nothing says what to forget. Give --model NAME, --older-than DAYS, or both")
    before = None if own.older_than is None else time.time() - own.older_than * DAY_SECONDS
    with closing(_existing(_path(options))) as journal:
        count, usd = forget_replies(journal, model=own.model, before=before, dry_run=True)
        cost = f" that cost {usd:.2f} USD" if usd else ""
        say(f"{count:,} replies{cost} {'would' if own.dry_run else 'will'} be deleted")
        if own.dry_run or not count:
            return
        if not own.yes and not confirmed("forgetting"):
            say("nothing was deleted")
            return
        forget_replies(journal, model=own.model, before=before, dry_run=False)
    say("deleted. goldless journal compact gives their space back to the disk")


@dataclass(frozen=True, kw_only=True)
class Merging:
    """Options of ``merge``."""

    others: list[Path] = argument("JOURNAL...", "Journals to read from; they stay as they are.", form=FILES)


@app.command(cls=Command)
@verb("journal")
def merge(own: Merging, options: Options) -> None:
    """Add the replies of other journals to this one. Of a damaged one nothing is added.

    Examples:
      goldless journal merge colleague.sqlite
      goldless journal merge old.sqlite --journal project.sqlite
    """
    from goldless.models.journal import Journal
    from goldless.models.journal_upkeep import merge as merge_journal

    with closing(Journal(_path(options))) as journal:
        for other in own.others:
            added, known = merge_journal(journal, other)
            say(f"{other}: {added:,} replies added, {known:,} were there already")


def _path(options: Options) -> Path:
    from goldless.models.cache import default_journal

    return options.journal or default_journal()


def _existing(path: Path) -> Journal:
    """The journal; only merging makes a new one."""
    from goldless.models.journal import Journal

    if not path.is_file():
        raise UserError(f"{path}: no such journal. Runs that call models write it; --journal names another file")
    return Journal(path)


def _day(seconds: float | None) -> str:
    """The day, or a question mark where a damaged journal does not say."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return "?"
