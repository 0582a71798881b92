"""``goldless gre score``: the leaderboards of an edition."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import anyio
import typer

from goldless.cli.console import ProgressBars, say
from goldless.cli.gre.arguments import EditionFolder, asking, given
from goldless.cli.metric_options import (
    ASKED,
    OUTPUT,
    STATISTICS,
    BudgetOption,
    Format,
    FormatOption,
    JournalOption,
    JsonOption,
    MetricOption,
    PriceOption,
    RewriterOption,
    WriterOption,
    names,
)
from goldless.cli.score import tell_rest
from goldless.cli.tables import print_tables
from goldless.gre_bench.edition import Edition, open_edition
from goldless.gre_bench.edition_scores import EditionScores
from goldless.gre_bench.making import score_edition
from goldless.runs.options import metric_names
from goldless.runs.store import as_json


def score(
    edition: EditionFolder,
    *,
    metric: MetricOption = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            help="Model that gives log-probabilities: embedded, gguf:PATH, hf:NAME, http://…/v1#MODEL.  "
            "[dim]\\[default: embedded][/dim]",
            show_default=False,
            rich_help_panel=ASKED,
        ),
    ] = None,
    rewriter: RewriterOption = None,
    synopsis_writer: WriterOption = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of resampling and tests.  [dim]\\[default: 0][/dim]",
            show_default=False,
            rich_help_panel=STATISTICS,
        ),
    ] = None,
    resamples: Annotated[
        int | None,
        typer.Option(
            help="Resamples of papers.  [dim]\\[default: 10000][/dim]", show_default=False, rich_help_panel=STATISTICS
        ),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(
            help="Level of the intervals.  [dim]\\[default: 0.9][/dim]", show_default=False, rich_help_panel=STATISTICS
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Write the results into this folder of the edition instead of run: another scorer's, say, to be "
            "compared with goldless consistency.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    budget: BudgetOption = None,
    price: PriceOption = None,
    journal: JournalOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Score the reviews of an edition by GEM, GEM-S (abstract) and GEM-S (ASSW), beside the human baseline.

    Reviews are preprocessed first (prompt C.1) and the authors' own claims summed up (C.4), where that is not there.

    Example: goldless gre score iclr2024 --scorer hf:NAME --rewriter openai:gpt-4o --synopsis-writer openai:gpt-4o
    """
    settings = given(
        metrics=list(metric_names(metric)) if metric else None,
        scorer=scorer,
        rewriter=list(names(rewriter)) or None,
        synopsis_writer=synopsis_writer,
        seed=seed,
        resamples=resamples,
        level=level,
    )
    opened = open_edition(edition)
    with ProgressBars() as bars:
        asked = asking(budget, price, journal, bars)
        made, scores = anyio.run(partial(score_edition, opened, settings, run=run, asking=asked))
    print_scores(scores, "json" if json_only else table)
    tell_scores(made, scores, run)


def print_scores(scores: EditionScores, shown_as: Format) -> None:
    """Print the metrics side by side, the differences to human, the contamination clock, and clean leaderboards."""
    print_tables(
        scores.tables(),
        shown_as,
        as_json=lambda: {**scores.as_json(), "scores": as_json(scores.evaluation)},
    )


def tell_scores(edition: Edition, scores: EditionScores, run: str | None = None) -> None:
    """Say on standard error what a reader of the tables must know."""
    if scores.left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in scores.left_out.items())
        say(f"papers left out when collecting: {reasons}")
    tell_rest(scores.evaluation, edition.run_folder(run))
