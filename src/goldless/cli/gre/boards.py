"""``goldless gre show``, ``compare``, ``correlate`` and ``figure``: what boards say. No model is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from goldless.cli.command import own, verb
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.errors import UserError
from goldless.runs.options import Options

BoardName = Annotated[
    str,
    typer.Argument(
        metavar="BOARD",
        help="Folder of an edition or a run, a CSV file with agent and metrics, published:70b or published:8b.",
    ),
]


@verb("seed")
def show(board: BoardName, *, options: Options, output: Output) -> None:
    """Print a board with all its metrics, and how much larger models of a family score higher.

    Example: goldless gre show published:70b
    """
    from goldless.gre_bench.agent_statistics import Inference, size_effect
    from goldless.gre_bench.boards import read_board

    found = read_board(board)
    effect = size_effect(found, Inference(seed=options.seed))
    tables = [found.table(), *([effect.table()] if any(row.slope is not None for row in effect.metrics) else [])]
    output.print_tables(tables, lambda: {**found.as_json(), "size_effect": effect.as_json()})


@verb("seed")
def compare(first: BoardName, second: BoardName, *, options: Options, output: Output) -> None:
    """Compare two editions, or two scorers of one: how alike they rank the agents, and who rose or fell.

    Example: goldless gre compare 2023/ 2024/, or goldless gre compare published:70b published:8b
    """
    from goldless.gre_bench.agent_statistics import Inference
    from goldless.gre_bench.board_comparison import compare_boards
    from goldless.gre_bench.boards import read_board

    found = compare_boards(read_board(first), read_board(second), Inference(seed=options.seed))
    metrics = [agreement.metric for agreement in found.agreements]
    output.print_tables([found.table(), *(found.change_table(metric) for metric in metrics)], found.as_json)


@verb("seed")
def correlate(
    board: BoardName,
    *,
    benchmarks: Annotated[
        str,
        own("A .csv with agent and one column a benchmark, or published for those of the GEM paper.", flags="FILE"),
    ],
    options: Options,
    output: Output,
) -> None:
    """Correlate a board with other benchmarks, over the agents that both have: Pearson, Spearman and Kendall's tau-b.

    Example: goldless gre correlate published:70b --benchmarks published
    """
    from goldless.gre_bench.agent_statistics import Inference
    from goldless.gre_bench.board_comparison import correlate as correlate_board
    from goldless.gre_bench.board_comparison import read_benchmark_scores
    from goldless.gre_bench.boards import read_board

    mine = read_board(board)
    found = correlate_board(mine, read_benchmark_scores(benchmarks), Inference(seed=options.seed))
    found = replace(found, notes=(*(f"{note}." for note in mine.notes), *found.notes))
    output.print_tables([found.table()], found.as_json)


@verb()
def figure(
    board: BoardName,
    *,
    out_file: Annotated[Path, own("Where to draw it.", flags="--out FILE.svg")],
    dark: Annotated[bool, own("Always dark; by default as the reader's screen is.", flags="--dark")] = False,
) -> None:
    """Draw score against number of parameters as SVG, a panel a metric, with intervals and the human baseline.

    Example: goldless gre figure iclr2024 --out figure.svg
    """
    from goldless.gre_bench.boards import read_board
    from goldless.gre_bench.size_figure import size_figure

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
