"""``goldless journal batches``: calls that were sent as batches and are not collected yet."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from goldless.cli.command import verb
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.errors import UserError, nearest
from goldless.runs.option_forms import option
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.models.journalled import BatchBook, BatchOut
    from goldless.reports.report_table import Column


@dataclass(frozen=True, kw_only=True)
class Forgetting:
    """Options of ``batches``."""

    forget: str | None = option(None, "Forget this batch, so that its calls are sent, and paid for, again.", "BATCH")


@verb("journal")
def batches(own: Forgetting, options: Options, output: Output) -> None:
    """List the batches that are out: sent with --batch, replies not collected yet.

    The command that sent a batch collects its replies when it is run again. This list asks no provider, and forgetting
    a batch cancels nothing there.

    Examples:
      goldless journal batches
      goldless journal batches --forget batch_abc123
    """
    from contextlib import closing

    from goldless.models.cache import default_journal
    from goldless.models.journal import Journal
    from goldless.models.journalled import BatchBook
    from goldless.reports.report_table import ReportTable

    with closing(Journal(options.journal or default_journal())) as journal:
        book = BatchBook(journal)
        if own.forget is not None:
            _forget(book, own.forget)
        out = book.out()
    rows = tuple(_row(batch) for batch in out)
    output.print_tables(
        [ReportTable("Batches that are out", _columns(), rows)], lambda: {"batches": [asdict(batch) for batch in out]}
    )
    if not out:
        say("no batch is out")


def _forget(book: BatchBook, name: str) -> None:
    known = {one: batch for batch in book.out() for one in (batch.id, batch.label) if one is not None}
    if name not in known:
        raise UserError(f"no batch {name!r} is out{nearest(name, known) or '. goldless journal batches lists them'}")
    calls = book.release(known[name].label)
    say(f"forgot {name}: the next run sends its {calls:,} calls again")


def _columns() -> tuple[Column, ...]:
    from goldless.reports.report_table import Column

    titles = {"batch": "batch", "model": "model", "calls": "calls", "cost": "at most", "sent": "sent (UTC)"}
    return tuple(Column(name, title) for name, title in titles.items())


def _row(batch: BatchOut) -> dict[str, object]:
    return {
        "batch": batch.id or f"{batch.label} (not known whether it arrived)",
        "model": batch.model,
        "calls": batch.calls,
        "cost": "price unknown" if batch.reserved_usd is None else f"{batch.reserved_usd:.2f} USD",
        "sent": datetime.fromtimestamp(batch.submitted_at, UTC).strftime("%Y-%m-%d %H:%M"),
    }
