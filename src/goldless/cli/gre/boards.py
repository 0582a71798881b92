"""``goldless gre show``, ``compare``, ``correlate`` and ``figure``: what boards say. No model is called."""

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
        help="Folder of an edition or run, a CSV file with agent and metrics, published:70b or published:8b.",
    ),
]


@verb("seed")
def show(board: BoardName, *, options: Options, output: Output) -> None:
    """Print a board with all its metrics, and how much higher larger models of a family score.

    Example:
      goldless gre show published:70b
    """
    from goldless.gre_bench.agent_statistics import Inference, size_effect
    from goldless.gre_bench.boards import read_board

    found = read_board(board)
    effect = size_effect(found, Inference(seed=options.seed))
    tables = [found.table(), *([effect.table()] if any(row.slope is not None for row in effect.metrics) else [])]
    output.print_tables(tables, lambda: {**found.as_json(), "size_effect": effect.as_json()})


@verb("seed")
def compare(first: BoardName, second: BoardName, *, options: Options, output: Output) -> None:
    """Compare two editions, or two scorers of one: how similarly they rank the agents, and which rose or fell.

    Editions that share anchors are linked: the second one's scores are also printed on the scale of the first.

    Examples:
      goldless gre compare 2023/ 2024/
      goldless gre compare published:70b published:8b
    """
    from goldless.gre_bench.agent_statistics import Inference
    from goldless.gre_bench.board_comparison import compare_boards
    from goldless.gre_bench.boards import read_board
    from goldless.gre_bench.linking import link_boards

    found = compare_boards(read_board(first), read_board(second), Inference(seed=options.seed))
    links, lacking = link_boards(first, second, seed=options.seed)
    found = replace(found, notes=(*found.notes, *lacking))
    metrics = [agreement.metric for agreement in found.agreements]
    tables = [found.table(), *(found.change_table(metric) for metric in metrics), *(link.table() for link in links)]
    output.print_tables(tables, lambda: {**found.as_json(), "links": [link.as_json() for link in links]})


@verb("seed")
def correlate(
    board: BoardName,
    *,
    benchmarks: Annotated[
        str,
        own(
            "A .csv file with agent and a column per benchmark, or published for those of the GEM paper.", flags="FILE"
        ),
    ],
    options: Options,
    output: Output,
) -> None:
    """Correlate a board with other benchmarks, over the agents that both have: Pearson, Spearman and Kendall's tau-b.

    Example:
      goldless gre correlate published:70b --benchmarks published
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
    out_file: Annotated[Path, own("Write the figure to this file.", flags="--out FILE.svg")],
    dark: Annotated[bool, own("Always dark (default: follows the reader's screen).", flags="--dark")] = False,
) -> None:
    """Draw scores by number of parameters as SVG, a panel per metric, with intervals and the human baseline.

    Example:
      goldless gre figure published:70b --out figure.svg
    """
    from goldless.gre_bench.boards import read_board
    from goldless.gre_bench.size_figure import size_figure

    if out_file.suffix.lower() != ".svg":
        raise UserError(f"--out must end in .svg, got {out_file}")
    drawn = size_figure(read_board(board), dark=dark)
    try:
        if out_file.is_file() and not out_file.read_bytes().startswith(b"<svg"):
            raise UserError(f"{out_file} exists and was not drawn by goldless. Choose another name, or remove it")
        out_file.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{out_file}: cannot be written ({error.strerror})") from error
    say(f"figure: {out_file}")
