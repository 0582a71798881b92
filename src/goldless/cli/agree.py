"""``goldless agree``: how far metrics say what people say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from goldless.cli.console import say, tell_folder
from goldless.cli.exit_codes import NOTHING
from goldless.cli.metric_options import (
    ASKED,
    STATISTICS,
    Format,
    FormatOption,
    JsonOption,
    MarginOption,
    ResultOption,
    StudyArgument,
    metric_options,
    names,
    run_on_study,
)
from goldless.cli.score import tell_rest
from goldless.cli.tables import print_tables
from goldless.judging.scales import SCALES
from goldless.meta_evaluation.agreement import Agreement
from goldless.meta_evaluation.agreement import agree as agree_with_people
from goldless.runs.options import Options
from goldless.runs.store import save_result
from goldless.studies import as_study

Convention = Literal["default", "paper"]
Measured = Literal["auto", "nominal", "ordinal", "interval"]


@metric_options(default=None)
def agree(
    study: StudyArgument,
    *,
    options: Options,
    reviewers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Recorded reviewers of the study's judgements, by commas, or all: each alone, and their equal vote.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(help=f"Of the reviewers' judgements: {', '.join(SCALES)}.", rich_help_panel=ASKED),
    ] = None,
    own_family: Annotated[
        bool,
        typer.Option("--own-family", help="Count judgements on a reviewer's own family too.", rich_help_panel=ASKED),
    ] = False,
    scores: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Scores computed elsewhere: metric (optional), task, agent, score. Repeat it for several.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    criterion: Annotated[
        str | None, typer.Option(help="Of the labels; by default each in turn.", rich_help_panel=STATISTICS)
    ] = None,
    convention: Annotated[
        Convention,
        typer.Option(help="paper: missing counts one half, an undefined correlation 0.", rich_help_panel=STATISTICS),
    ] = "default",
    margin: MarginOption = None,
    alpha: Annotated[
        Measured, typer.Option(help="Measurement of Krippendorff's alpha.", rich_help_panel=STATISTICS)
    ] = "auto",
    out_folder: ResultOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Hold metrics, recorded reviewers or anybody's scores against the study's human labels.

    Prints pairwise accuracy and rank correlations with intervals, how far people agree with each other, and which
    metric agrees more than which. Example: goldless agree study/ --metric gem-raw,rouge-l --scores mine.csv
    """
    source = as_study(study)
    found = run_on_study(
        agree_with_people,
        source,
        options,
        out_folder=out_folder,
        reviewers=names(reviewers),
        scale=scale,
        scores=scores or None,
        convention=convention,
        criterion=criterion,
        margin=margin,
        measurement=alpha,
        own_family=own_family,
    )
    if out_folder is not None:
        spending = () if found.evaluation is None else found.evaluation.spending
        markdown, data = found.to_markdown(), found.as_json()
        save_result(source, out_folder, verb="agree", name="agreement", data=data, markdown=markdown, spending=spending)
    print_agreement(found, "json" if json_only else table)
    tell_agreement(found, out_folder)


def print_agreement(found: Agreement, shown_as: Format) -> None:
    """Print all tables on standard output."""
    print_tables(
        found.tables(),
        shown_as,
        as_json=found.as_json,
        csv=found.to_csv,
        markdown=found.to_markdown,
        signatures=found.signatures(),
    )


def tell_agreement(found: Agreement, folder: Path | None = None) -> None:
    """Say the rest on standard error; exit with 3 where metrics are incomplete, with 1 where nothing could be held."""
    for one in found.criteria:
        where = "" if one.criterion is None else f"{one.criterion}: "
        for note in [*one.notes, *([one.ceiling.note] if one.ceiling.note else [])]:
            say(f"{where}{note}", style="yellow")
    tell_folder(folder, "result")
    if found.evaluation is not None:
        tell_rest(found.evaluation, None)
    numbers = [
        number
        for one in found.criteria
        for judge in one.judges
        for number in (judge.accuracy.accuracy, *(c.value for c in judge.correlations))
    ]
    if all(number is None for number in numbers):
        say("no label and no score are for the same responses", style="red")
        raise typer.Exit(NOTHING)
