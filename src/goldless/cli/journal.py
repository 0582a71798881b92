"""``goldless journal``: look after the file that keeps all replies, pending batches, and downloads."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.filesize import decimal

from goldless.cli.command import verb, verbs_app
from goldless.cli.console import NOTHING, confirmed, end, say
from goldless.cli.output import Output, plain_table
from goldless.errors import UserError, nearest
from goldless.runs.option_forms import POSITIVE, argument, option
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.models.journal import Journal

DAY_SECONDS = 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Batches:
    forget: str | None = option(None, "Forget this batch, so that its calls are sent, and paid for, again.", "BATCH")


@verb("journal")
def batches(own: Batches, options: Options, output: Output) -> None:
    """List pending batches: sent with --batch, replies not collected yet.

    The command that sent a batch collects its replies when it is run again. This list asks no provider, and forgetting
    a batch cancels nothing there.

    Examples:
      goldless journal batches
      goldless journal batches --forget batch_abc123
    """
    from goldless.models.journalled import batches_out, forget_batch

    with closing(_journal(options, new=True)) as journal:
        if (name := own.forget) is not None:
            known = {one: batch for batch in batches_out(journal) for one in (batch.id, batch.label) if one is not None}
            if name not in known:
                hint = nearest(name, known) or ". goldless journal batches lists them"
                raise UserError(f"no pending batch {name!r}{hint}")
            say(f"forgot {name}: the next run sends its {forget_batch(journal, known[name].label):,} calls again")
        out = [asdict(batch) for batch in batches_out(journal)]
    for_people = [
        one | {"id": one["id"] or f"{one['label']} (not known if it arrived)", "sent": _day(one["submitted_at"], 16)}
        for one in out
    ]
    headings = {"id": "batch", "model": "model", "calls": "calls", "sent": "sent (UTC)"}
    at_most = ("at most, USD", "usd", "price unknown")
    output.print_rows("Pending batches", for_people, {"batches": out}, **headings, reserved_usd=at_most)
    if not out:
        say("no batch is pending")


@verb()
def files(*, output: Output) -> None:
    """Show where the journal and the downloaded models are, and how much space they take.

    GOLDLESS_HOME moves both to one folder; otherwise they follow the conventions of the operating system.

    Example:
      goldless journal files
    """
    kept = list(_kept())
    rows = [{**one, "size": decimal(one["bytes"])} for one in kept]
    headings = {"part": "what", "path": "where", "size": "size", "contents": "contents", "if_cleared": "if cleared"}
    output.print_rows("Files of goldless on this machine", rows, {"kept": kept}, **headings)


@dataclass(frozen=True, kw_only=True)
class Clearing:
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
    found = [one for one in _kept() if one["bytes"] and own.part in {one["part"], "all"}]
    for one in found:
        say(f"{one['part']}: {one['path']} ({decimal(one['bytes'])}; {one['contents']}). {one['if_cleared']}")
    if not found or not (own.yes or confirmed("clearing")):
        say("nothing was deleted" if found else "nothing to clear")
        return
    for place in (Path(one["path"]) for one in found):
        try:
            if place.is_dir():
                shutil.rmtree(place)
            for path in _journal_files(place):
                path.unlink()
        except OSError as error:
            raise UserError(f"{place}: cannot be deleted ({error.strerror})") from error
        say(f"deleted: {place}")


@verb("journal")
def check(*, options: Options, output: Output) -> None:
    """Check every reply and the file itself; nothing is changed. Exit code 1 if anything is damaged.

    A damaged reply is removed, and its call made again, by the next run that needs it. If the file itself is damaged,
    restore it from a backup, or save what can be read with the .recover command of sqlite3.

    Example:
      goldless journal check
    """
    from goldless.models.journal import check_journal

    path = _path(options)
    found = check_journal(path)
    counts = {"replies": ("sound replies", "count"), "damaged": ("damaged", "count")}
    table = plain_table(f"Journal {path}", [asdict(found)], **counts)
    output.print_tables([table], lambda: {"journal": str(path), **asdict(found)}, below=found.problems)
    if found.problems:
        saved = f"sqlite3 {path} .recover | sqlite3 saved"
        end(NOTHING, f"the file {path} is damaged. Restore it from a backup, or save what can be read: {saved}")
    if found.damaged:
        end(NOTHING, f"{path} has damaged replies. Their calls are made again by the next run that needs them")


@dataclass(frozen=True, kw_only=True)
class JournalShowing:
    run: Path | None = option(None, "Also show what this run folder's results cost.", "FOLDER")


@verb("journal")
def show(own: JournalShowing, options: Options, output: Output) -> None:
    """Show the size of the journal, and calls, tokens and cost by model.

    Examples:
      goldless journal show
      goldless journal show --run runs/first
    """
    from goldless.models.journal import model_totals
    from goldless.runs.store import noted_spending

    with closing(_journal(options)) as journal:
        models = [asdict(one) for one in model_totals(journal)]
    path = _path(options)
    size = _size(path)
    numbers: dict[str, Any] = {
        "calls": ("calls", "count"),
        "tokens": ("tokens", "count"),
        "cost_usd": ("USD", "usd", "unknown"),
    }
    rows = [one | {"first": _day(one["first"]), "last": _day(one["last"])} for one in models]
    title = f"Journal {path} ({decimal(size)})"
    numbers |= {"estimated": ("estimated", "count")}
    tables = [plain_table(title, rows, model="model", **numbers, first="first reply", last="last reply")]
    spent = () if own.run is None else noted_spending(own.run)
    if own.run is not None:
        named = {"verb": "verb", "model": "model", "calls": "calls", "reused": "from the journal"}
        paid = ("USD paid by the last process", "usd", "unknown")
        of_result = ("USD of the result", "usd", "unknown")
        tables.append(plain_table(f"Run {own.run}", spent, **named, cost_usd=paid, result_usd=of_result))
    output.print_tables(tables, lambda: {"journal": str(path), "bytes": size, "models": models, "run": spent})


@verb("journal")
def compact(*, options: Options) -> None:
    """Give the space of deleted replies back to the disk.

    Example:
      goldless journal compact
    """
    path = _path(options)
    before = _size(path)
    with closing(_journal(options)) as journal:
        journal.rows("vacuum")
        journal.rows("pragma wal_checkpoint(truncate)")
    say(f"{path}: {decimal(before)} before, {decimal(_size(path))} now")


@dataclass(frozen=True, kw_only=True)
class Forgetting:
    model: str | None = option(None, "Delete replies of this model, as goldless journal show names it.")
    older_than: float | None = option(
        None, "Delete replies stored more than this many days ago.", "DAYS", form=POSITIVE
    )
    dry_run: bool = option(False, "Only count what would be deleted.")
    yes: bool = option(False, "Delete without asking.", "--yes -y")


@verb("journal")
def forget(own: Forgetting, options: Options) -> None:
    """Delete replies by model, by age, or by both. Their calls are made, and paid for, again when they are needed.

    Examples:
      goldless journal forget --older-than 365 --dry-run
      goldless journal forget --model openai:gpt-4o-mini --yes
    """
    from goldless.models.journal import forget as forget_replies

    if own.model is None and own.older_than is None:
        raise UserError("nothing says what to forget. Give --model NAME, --older-than DAYS, or both")
    before = None if own.older_than is None else time.time() - own.older_than * DAY_SECONDS
    with closing(_journal(options)) as journal:
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
    others: list[Path] = argument("JOURNAL...", "Journals to read from; they stay as they are.")


@verb("journal")
def merge(own: Merging, options: Options) -> None:
    """Add the sound replies of other journals to this one; damaged ones are counted and left out.

    Examples:
      goldless journal merge colleague.sqlite
      goldless journal merge old.sqlite --journal project.sqlite
    """
    from goldless.models.journal import merge as merge_journal

    with closing(_journal(options, new=True)) as journal:
        for other in own.others:
            merged = merge_journal(journal, other)
            say(f"{other}: {merged.added:,} replies added, {merged.known:,} were there already")
            if merged.mended:
                say(f"{merged.mended:,} replies that were damaged here were replaced")
            if merged.damaged:
                say(f"{merged.damaged:,} damaged replies there were left out")


app = verbs_app(
    "Inspect and clean up the model replies kept on this machine.",
    *(batches, files, clear, check, show, compact, forget, merge),
)


def _path(options: Options) -> Path:
    from goldless.models.cache import default_journal

    return options.journal or default_journal()


def _journal(options: Options, *, new: bool = False) -> Journal:
    """The journal; ``new``: also one that is not there yet."""
    from goldless.models.journal import Journal

    path = _path(options)
    if not new and not path.is_file():
        raise UserError(f"{path}: no such journal. Runs that call models write it; --journal names another file")
    return Journal(path)


def _kept() -> Iterator[dict[str, Any]]:
    """The places where goldless keeps files, and what is lost if they are cleared."""
    from goldless.models.cache import compiled_folder, default_journal, models_folder
    from goldless.models.journal import Journal

    journal, contents = default_journal(), "none yet"
    if journal.is_file():
        try:
            with closing(Journal(journal)) as opened:
                [(count, usd)] = opened.rows("select count(*), sum(cost_usd) from calls")
            contents = f"{count:,} replies" + (f" that cost {usd:.2f} USD" if usd else "")
        except UserError as error:
            contents = f"cannot be read ({error})"
    replies = {"part": "journal", "path": str(journal), "bytes": _size(journal), "contents": contents}
    yield replies | {"if_cleared": "Runs call their models again, and pay again; run folders keep their results."}
    for folder in (models_folder(), compiled_folder()):
        files = [path for path in folder.rglob("*") if path.is_file()]
        if files or folder == models_folder():
            size, contents = sum(path.stat().st_size for path in files), f"{len(files)} file{'s' * (len(files) != 1)}"
            models = {"part": "models", "path": str(folder), "bytes": size, "contents": contents}
            yield models | {"if_cleared": "They are fetched or made again when needed."}


def _journal_files(journal: Path) -> list[Path]:
    """The journal and what SQLite keeps beside it."""
    return [path for path in (Path(f"{journal}{end}") for end in ("", "-wal", "-shm")) if path.is_file()]


def _size(journal: Path) -> int:
    return sum(path.stat().st_size for path in _journal_files(journal))


def _day(seconds: Any, length: int = 10) -> str:
    """The day, with ``length`` 16 the minute; a question mark where a damaged journal does not say."""
    try:
        return str(datetime.fromtimestamp(seconds, UTC))[:length]
    except (TypeError, ValueError, OverflowError, OSError):
        return "?"
