"""``goldless gre``: GRE-bench, from collecting papers to a year's leaderboard."""

from __future__ import annotations

import typer

from goldless.cli.gre.boards import compare, correlate, figure, show
from goldless.cli.gre.editions import collect, demo, review, run, score

app = typer.Typer(
    help="GRE-bench: which model writes the most informative reviews, on papers it cannot have seen.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
for each in (demo, run, collect, review, score, show, compare, correlate, figure):
    app.command()(each)
