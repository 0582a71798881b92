"""Tables on standard output, in the format that was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import typer
from rich.measure import Measurement
from rich.table import Table

from goldless.cli.console import out
from goldless.cli.metric_options import Format
from goldless.reports.latex import NEEDS, latex_comment
from goldless.reports.report_table import ReportTable


def print_tables(
    tables: Sequence[ReportTable],
    shown_as: Format,
    *,
    as_json: Callable[[], object],
    csv: Callable[[], str] | None = None,
    markdown: Callable[[], str] | None = None,
    rich: Callable[[], None] | None = None,
    signatures: Sequence[str] = (),
    below: Sequence[str] = (),
) -> None:
    """Print tables in one format.

    ``as_json``: the plain data behind them. ``csv``, ``markdown``, ``rich``: what stands in a format instead of the
    tables one after the other. ``signatures``: of what lies under the tables; without them each table's own is printed
    below it. ``below``: what the terminal shows last.
    """
    if shown_as == "json":
        typer.echo(json.dumps(as_json(), ensure_ascii=False, indent=2, allow_nan=False))
    elif shown_as == "csv":
        typer.echo("\n".join(table.to_csv() for table in tables) if csv is None else csv(), nl=False)
    elif shown_as == "markdown":
        typer.echo("\n".join(table.to_markdown() for table in tables) if markdown is None else markdown())
    elif shown_as == "latex":
        typer.echo("\n".join(_latex(tables, signatures)), nl=False)
    elif rich is not None:
        rich()
    else:
        _print_rich(tables, signatures, below)


def _latex(tables: Sequence[ReportTable], signatures: Sequence[str]) -> Iterator[str]:
    """What they need and how they were made, then the tables."""
    others = [line for line in signatures if line not in {table.signature for table in tables}]
    yield "".join(f"{line}\n" for line in (NEEDS, *map(latex_comment, others)))
    for table in tables:
        yield table.to_latex()


def print_whole(table: Table) -> None:
    """Print a table as wide as it must be: lines that a narrow terminal breaks are better than cells cut off."""
    # measured as if the terminal were as wide as one could wish: what it has is no bound here
    least = Measurement.get(out, out.options.update(width=10_000), table).minimum
    if least > out.width:
        table.width = least
    out.print(table, crop=False, no_wrap=True, overflow="ignore")


def _print_rich(tables: Sequence[ReportTable], signatures: Sequence[str], below: Sequence[str]) -> None:
    for i, table in enumerate(tables, 1):
        print_whole(table.to_rich())
        # what several tables share stands below the last of them
        notes = [line for line in table.notes if all(line not in later.notes for later in tables[i:])]
        stands_later = any(table.signature == later.signature for later in tables[i:])
        own = [] if signatures or stands_later or not table.signature else table.signature.split(" || ")
        for line in notes:
            out.print(line, markup=False, soft_wrap=True)
        for line in own:
            out.print(line, markup=False, soft_wrap=True, style="dim")
        if (notes or own) and tables[i:]:
            out.print()
    for line in below:
        out.print(line, markup=False, style="dim")
    for line in signatures:
        out.print(line, markup=False, soft_wrap=True, style="dim")
