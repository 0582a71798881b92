"""``goldless journal``: look after the file that keeps all replies, pending batches, and downloads."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
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
    from goldless.reports.report_table import ReportTable

DAY_SECONDS = 24 * 3600


@dataclass(frozen=True, kw_only=True)
class JournalShowOptions:
    check: bool = option(False, "Check every reply and the file itself; nothing is changed. Exit code 1: damaged.")


@verb("journal")
def show(verb_options: JournalShowOptions, options: Options, output: Output) -> None:
    """Show calls, tokens and cost by model, pending batches, and where the journal and downloaded models are.

    Pending batches were sent with --batch, and their replies are not collected yet: the command that sent a batch
    collects them when it is run again. A damaged reply is removed, and its call made again, by the next run that needs
    it. GOLDLESS_HOME moves journal and models to one folder.

    Examples:
      goldless journal show
      goldless journal show --check
    """
    from goldless.models.journal import check_journal, model_totals
    from goldless.models.journalled import batches_out

    path = _path(options)
    check = check_journal(path) if verb_options.check else None
    models: list[dict[str, Any]] = []
    batches: list[dict[str, Any]] = []
    readable = check is None or not check.problems
    if readable and (options.models.journal is not None or path.is_file()):
        with closing(_journal(options)) as journal:
            models = [asdict(total) for total in model_totals(journal)]
            batches = [asdict(batch) for batch in batches_out(journal)]
    files = list(_kept(path))
    tables = [_models_table(path, models), _batches_table(batches), _files_table(files)]
    if check is not None:
        counts: dict[str, Any] = {"replies": ("sound replies", "count"), "damaged": ("damaged", "count")}
        tables.append(plain_table(f"Check of {path}", [asdict(check)], **counts))
    data = {
        "journal": str(path),
        "bytes": _size(path),
        "models": models,
        "batches": batches,
        "files": files,
        "check": check and asdict(check),
    }
    problems = () if check is None else check.problems
    output.print_tables([table for table in tables if table.rows], lambda: data, below=problems)
    if problems:
        saved = f"sqlite3 {path} .recover | sqlite3 saved"
        end(NOTHING, f"the file {path} is damaged. Restore it from a backup, or save what can be read: {saved}")
    if check is not None and check.damaged:
        end(NOTHING, f"{path} has damaged replies. Their calls are made again by the next run that needs them")


def _models_table(path: Path, models: Sequence[Mapping[str, Any]]) -> ReportTable:
    rows = [{**total, "first": _day(total["first"]), "last": _day(total["last"])} for total in models]
    numbers: dict[str, Any] = {
        "calls": ("calls", "count"),
        "tokens": ("tokens", "count"),
        "cost_usd": ("USD", "usd", "unknown"),
        "estimated": ("estimated", "count"),
    }
    title = f"Journal {path} ({decimal(_size(path))})"
    return plain_table(title, rows, model="model", **numbers, first="first reply", last="last reply")


def _batches_table(batches: Sequence[Mapping[str, Any]]) -> ReportTable:
    rows = [
        {
            **batch,
            "id": batch["id"] or f"{batch['label']} (not known if it arrived)",
            "sent": _day(batch["submitted_at"], 16),
        }
        for batch in batches
    ]
    at_most = ("at most, USD", "usd", "price unknown")
    headings = {"id": "batch", "model": "model", "calls": "calls", "sent": "sent (UTC)"}
    return plain_table("Pending batches", rows, **headings, reserved_usd=at_most)


def _files_table(files: Sequence[Mapping[str, Any]]) -> ReportTable:
    rows = [{**part, "size": decimal(part["bytes"])} for part in files]
    headings = {"part": "what", "path": "where", "size": "size", "contents": "contents", "if_cleared": "if cleared"}
    return plain_table("Files of goldless on this machine", rows, **headings)


@dataclass(frozen=True, kw_only=True)
class JournalClearOptions:
    part: Literal["journal", "models", "all"] | None = argument(
        "[PART]", "journal (replies of models), models (downloads) or all.", None
    )
    model: str | None = option(None, "Delete only replies of this model, as goldless journal show names it.")
    older_than: float | None = option(
        None, "Delete only replies stored more than this many days ago.", "DAYS", form=POSITIVE
    )
    batch: str | None = option(
        None, "Forget this pending batch, so that its calls are sent, and paid for, again.", "NAME"
    )
    dry_run: bool = option(False, "Only say what would be deleted.")
    yes: bool = option(False, "Delete without asking.", "--yes -y")


@verb("journal")
def clear(verb_options: JournalClearOptions, options: Options) -> None:
    """Delete the journal, the downloaded models or some replies, after asking, and give their space back to the disk.

    Calls of deleted replies are made, and paid for, again when they are needed. Forgetting a batch cancels nothing at
    the provider.

    Examples:
      goldless journal clear models
      goldless journal clear --older-than 365 --dry-run
      goldless journal clear --batch batch_abc123
    """
    selects_replies = verb_options.model is not None or verb_options.older_than is not None
    if verb_options.batch is not None and (selects_replies or verb_options.part is not None):
        raise UserError("--batch forgets one batch. Leave out the other options, or give two commands")
    if selects_replies and verb_options.part not in {None, "journal"}:
        raise UserError(
            f"--model and --older-than select replies of the journal, got {verb_options.part}. "
            f"Leave out {verb_options.part}"
        )
    if verb_options.batch is not None:
        _forget_batch(verb_options, options, verb_options.batch)
    elif selects_replies:
        _clear_replies(verb_options, options)
    elif verb_options.part is not None:
        _clear_files(verb_options, options)
    else:
        raise UserError("nothing says what to clear. Give journal, models or all, or --model, --older-than or --batch")


def _clear_files(verb_options: JournalClearOptions, options: Options) -> None:
    parts = [part for part in _kept(_path(options)) if part["bytes"] and verb_options.part in {part["part"], "all"}]
    for part in parts:
        say(f"{part['part']}: {part['path']} ({decimal(part['bytes'])}; {part['contents']}). {part['if_cleared']}")
    if not parts:
        say("nothing to clear")
        return
    if verb_options.dry_run or not (verb_options.yes or confirmed("clearing")):
        say("nothing was deleted")
        return
    for path in (Path(part["path"]) for part in parts):
        try:
            if path.is_dir():
                shutil.rmtree(path)
            for file in _journal_files(path):
                file.unlink()
        except OSError as error:
            raise UserError(f"{path}: cannot be deleted ({error.strerror})") from error
        say(f"deleted: {path}")


def _clear_replies(verb_options: JournalClearOptions, options: Options) -> None:
    from goldless.models.journal import forget

    before = None if verb_options.older_than is None else time.time() - verb_options.older_than * DAY_SECONDS
    path = _path(options)
    with closing(_journal(options)) as journal:
        count, usd = forget(journal, model=verb_options.model, before=before, dry_run=True)
        cost = f" that cost {usd:.2f} USD" if usd else ""
        say(f"{count:,} replies{cost} {'would' if verb_options.dry_run else 'will'} be deleted")
        if verb_options.dry_run or not count:
            return
        if not verb_options.yes and not confirmed("clearing"):
            say("nothing was deleted")
            return
        size = _size(path)
        forget(journal, model=verb_options.model, before=before, dry_run=False)
        journal.rows("vacuum")
        journal.rows("pragma wal_checkpoint(truncate)")
    say(f"deleted. {path}: {decimal(size)} before, {decimal(_size(path))} now")


def _forget_batch(verb_options: JournalClearOptions, options: Options, name: str) -> None:
    from goldless.models.journalled import batches_out, forget_batch

    with closing(_journal(options, new=True)) as journal:
        batches = {name: batch for batch in batches_out(journal) for name in (batch.id, batch.label) if name}
        if name not in batches:
            hint = nearest(name, batches) or ". goldless journal show lists them"
            raise UserError(f"no pending batch {name!r}{hint}")
        if verb_options.dry_run:
            say(f"{name} would be forgotten: its {batches[name].calls:,} calls would be sent again")
            return
        say(f"forgot {name}: the next run sends its {forget_batch(journal, batches[name].label):,} calls again")


@dataclass(frozen=True, kw_only=True)
class JournalMergeOptions:
    others: list[Path] = argument("JOURNAL...", "Journals to read from; they stay as they are.")


@verb("journal")
def merge(verb_options: JournalMergeOptions, options: Options) -> None:
    """Add the sound replies of other journals to this one; damaged ones are counted and left out.

    Examples:
      goldless journal merge colleague.sqlite
      goldless journal merge old.sqlite --journal project.sqlite
    """
    from goldless.models.journal import merge as merge_journal

    with closing(_journal(options, new=True)) as journal:
        for other in verb_options.others:
            merged = merge_journal(journal, other)
            say(f"{other}: {merged.added:,} replies added, {merged.known:,} were there already")
            if merged.mended:
                say(f"{merged.mended:,} replies that were damaged here were replaced")
            if merged.damaged:
                say(f"{merged.damaged:,} damaged replies there were left out")


app = verbs_app("Inspect and clean up the model replies kept on this machine.", show, clear, merge)


def _path(options: Options) -> Path:
    from goldless.models.cache import default_journal

    return options.models.journal or default_journal()


def _journal(options: Options, *, new: bool = False) -> Journal:
    """The journal; ``new``: also one that is not there yet."""
    from goldless.models.journal import Journal

    path = _path(options)
    if not new and not path.is_file():
        raise UserError(f"{path}: no such journal. Runs that call models write it; --journal names another file")
    return Journal(path)


def _kept(journal: Path) -> Iterator[dict[str, Any]]:
    """The journal and the folders where goldless keeps files, and what is lost if they are cleared."""
    from goldless.models.cache import compiled_folder, models_folder
    from goldless.models.journal import Journal

    contents = "none yet"
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
