"""``goldless gre show``, ``compare``, ``correlate`` and ``figure``: what boards say. No model is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from goldless.cli.console import say
from goldless.cli.gre.arguments import BoardName
from goldless.cli.metric_options import FormatOption, JsonOption, SeedOption
from goldless.cli.tables import print_tables
from goldless.errors import UserError
from goldless.gre_bench.board_comparison import compare_boards
from goldless.gre_bench.boards import read_board
from goldless.gre_bench.other_benchmarks import correlate as correlate_board
from goldless.gre_bench.other_benchmarks import read_benchmark_scores
from goldless.gre_bench.size_effect import size_effect
from goldless.gre_bench.size_figure import size_figure


def show(
    board: BoardName, *, seed: SeedOption = 0, table: FormatOption = "rich", json_only: JsonOption = False
) -> None:
    """Print a board with all its metrics, and how much larger models of a family score higher.

    Example: goldless gre show published:70b
    """
    found = read_board(board)
    effect = size_effect(found, seed=seed)
    tables = [found.table(), *([effect.table()] if any(row.slope is not None for row in effect.metrics) else [])]
    print_tables(
        tables,
        "json" if json_only else table,
        as_json=lambda: {**found.as_json(), "size_effect": effect.as_json()},
    )


def compare(
    first: BoardName,
    second: BoardName,
    *,
    seed: SeedOption = 0,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Compare two editions, or two scorers of one: how alike they rank the agents, and who rose or fell.

    Example: goldless gre compare 2023/ 2024/, or goldless gre compare published:70b published:8b
    """
    found = compare_boards(read_board(first), read_board(second), seed=seed)
    metrics = [agreement.metric for agreement in found.agreements]
    tables = [found.table(), *(found.change_table(metric) for metric in metrics)]
    print_tables(tables, "json" if json_only else table, as_json=found.as_json)


def correlate(
    board: BoardName,
    *,
    benchmarks: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="A .csv with agent and one column a benchmark, or published for those of the GEM paper.",
        ),
    ],
    seed: SeedOption = 0,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Correlate a board with other benchmarks, over the agents that both have: Pearson, Spearman and Kendall's tau-b.

    Example: goldless gre correlate published:70b --benchmarks published
    """
    mine = read_board(board)
    found = correlate_board(mine, read_benchmark_scores(benchmarks), seed=seed)
    found = replace(found, notes=(*(f"{note}." for note in mine.notes), *found.notes))
    print_tables([found.table()], "json" if json_only else table, as_json=found.as_json)


def figure(
    board: BoardName,
    *,
    out_file: Annotated[Path, typer.Option("--out", metavar="FILE.svg", help="Where to draw it.")],
    dark: Annotated[bool, typer.Option("--dark", help="Always dark; by default as the reader's screen is.")] = False,
) -> None:
    """Draw score against number of parameters as SVG, a panel a metric, with intervals and the human baseline.

    Example: goldless gre figure iclr2024 --out figure.svg
    """
    if out_file.suffix.lower() != ".svg":
        raise UserError(f"{out_file}: the figure is drawn as SVG; give a name that ends in .svg")
    drawn = size_figure(read_board(board), dark=dark)
    try:
        if out_file.is_file() and not out_file.read_bytes().startswith(b"<svg"):
            raise UserError(f"{out_file}: is there and no drawing of goldless; give another name, or remove it")
        out_file.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{out_file}: cannot be written ({error.strerror})") from error
    say(f"figure: {out_file}")
