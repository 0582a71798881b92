"""``goldless gre demo``: a whole edition on this machine, of invented papers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import typer

from goldless.cli.console import ProgressBars, say
from goldless.cli.gre.collect import tell_collected
from goldless.cli.gre.score import print_scores, tell_scores
from goldless.cli.metric_options import FormatOption, JournalOption, JsonOption
from goldless.errors import UserError
from goldless.gre_bench.boards import read_board
from goldless.gre_bench.demonstration import add_invented_rewrites, begin_demonstration, write_scripts
from goldless.gre_bench.edition_scores import DEMONSTRATION
from goldless.gre_bench.making import Asking, collect_edition, review_edition, score_edition
from goldless.gre_bench.size_figure import size_figure


def demo(
    *,
    folder: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the edition.")] = Path("gre-demo"),
    journal: JournalOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Make an edition of twelve invented papers on the embedded model: no account, key, GPU or network.

    A demonstration, not a result. It takes some minutes; most of them the embedded model's own reviews.
    """
    say(DEMONSTRATION, style="bold yellow")
    edition = begin_demonstration(folder)
    if not edition.config.demonstration:
        raise UserError(f"{folder}: is an edition of yours; name another folder with --out")
    with ProgressBars() as bars:
        edition, left_out = collect_edition(edition, {}, progress=bars, say=say)
        tell_collected(edition, left_out)
        write_scripts(edition)
        asking = Asking(journal=journal, progress=bars, say=say)
        say("Reviews of three invented models, which are written down, and of the embedded model, which writes now …")
        edition, _ = anyio.run(partial(review_edition, edition, {}, asking=asking))
        add_invented_rewrites(edition)
        say("Preprocessing and scoring by the embedded model …")
        edition, scores = anyio.run(partial(score_edition, edition, {}, asking=asking))
    print_scores(scores, "json" if json_only else table)
    drawn = edition.folder / "figure.svg"
    drawn.write_text(size_figure(read_board(edition.folder)), encoding="utf-8")
    say(f"figure: {drawn}")
    tell_scores(edition, scores)
