"""``goldless bias``: what reviewers and metrics favour besides quality."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from goldless.cli.console import say, tell_folder, tell_spending
from goldless.cli.exit_codes import INCOMPLETE, NOTHING
from goldless.cli.metric_options import (
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
from goldless.cli.tables import print_tables
from goldless.errors import UserError
from goldless.judging.judges import JUDGES
from goldless.meta_evaluation.bias import BiasReport, find_bias
from goldless.runs.options import Options
from goldless.runs.store import save_result
from goldless.studies import as_study

WHO = "Reviewers"


@metric_options(default=None)
def bias(
    study: StudyArgument,
    *,
    reviewers: Annotated[
        list[str] | None,
        typer.Option(
            "--reviewers",
            help="By commas or repeated: names whose judgements the study carries, or chat models to ask, SPEC or "
            "NAME=SPEC; by default all the study carries.",
            rich_help_panel=WHO,
        ),
    ] = None,
    scale: Annotated[
        str, typer.Option(help=f"What they were or are asked: {', '.join(JUDGES)}.", rich_help_panel=WHO)
    ] = "pairwise",
    task_description: Annotated[
        str,
        typer.Option(help="What is judged and what counts, for reviewers that are asked now.", rich_help_panel=WHO),
    ] = "",
    family: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FAMILY",
            help="Family of an agent or reviewer, before that of the agents table; by default its own name.",
            rich_help_panel=WHO,
        ),
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=WEIGHT",
            help="Weights of the panel's vote, by commas or repeated; they also choose who votes. By default all vote "
            "equally.",
            rich_help_panel=WHO,
        ),
    ] = None,
    favours: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIRST:SECOND",
            help="Two agents: how often is the first favoured where people see a tie or prefer the second? Repeat it "
            "for more.",
            rich_help_panel=WHO,
        ),
    ] = None,
    orders: Annotated[
        Literal["each", "together"],
        typer.Option(
            help="Of --favours: each order of a pair on its own, or one vote on both.", rich_help_panel=STATISTICS
        ),
    ] = "each",
    convention: Annotated[
        Literal["default", "paper"],
        typer.Option(
            help="default: missing judgements are left out; paper: they count one half.", rich_help_panel=STATISTICS
        ),
    ] = "default",
    criterion: Annotated[
        str | None, typer.Option(help="Of the labels, where they have several.", rich_help_panel=STATISTICS)
    ] = None,
    margin: MarginOption = None,
    options: Options,
    out_folder: ResultOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Look for what reviewers and metrics favour besides quality: place, length, markup, their own kind, an agent.

    Only what the study has data for is shown; the rest is listed with the reason.
    Example: goldless bias study/ --recorded --favours chatgpt:ChatGLM2-6B --metric length
    """
    source = as_study(study)
    report = run_on_study(
        find_bias,
        source,
        options,
        out_folder=out_folder,
        reviewers=names(reviewers),
        scale=scale,
        favours=tuple(favours or ()),
        families=_pairs(family or [], "--family", "FAMILY"),
        weights=_weights(names(weights)),
        orders=orders,
        convention=convention,
        criterion=criterion,
        margin=margin,
        task_description=task_description,
    )
    if out_folder is not None:
        markdown, data = report.to_markdown(), report.as_json()
        save_result(
            source, out_folder, verb="bias", name="bias", data=data, markdown=markdown, spending=report.spending
        )
    print_bias(report, "json" if json_only else table)
    tell_bias(report, out_folder)


def _pairs(given: list[str], option: str, what: str) -> dict[str, str]:
    found, problems = {}, []
    for item in given:
        name, equals, value = item.rpartition("=")
        if equals and name.strip() and value.strip():
            found[name.strip()] = value.strip()
        else:
            problems.append(f"{option} {item!r}: give NAME={what}")
    if problems:
        raise UserError("\n".join(problems))
    return found


def _weights(given: tuple[str, ...]) -> dict[str, float] | None:
    """Weights by reviewer; None: all equal."""
    if not given or given == ("equal",):
        return None
    found, problems = {}, []
    for name, text in _pairs(list(given), "--weights", "WEIGHT").items():
        try:
            weight = float(text)
        except ValueError:
            weight = math.nan
        if math.isfinite(weight):
            found[name] = weight
        else:
            problems.append(f"--weights {name}={text}: a weight is a finite number")
    if problems:
        raise UserError("\n".join(problems))
    return found


def print_bias(report: BiasReport, shown_as: Format) -> None:
    """Print the tables on standard output."""
    print_tables(
        report.tables(),
        shown_as,
        as_json=report.as_json,
        csv=report.to_csv,
        markdown=report.to_markdown,
        signatures=report.signatures(),
        below=("Not measured:", *(f"  {line}" for line in report.unavailable_lines())) if report.unavailable else (),
    )


def tell_bias(report: BiasReport, folder: Path | None = None) -> None:
    """Say the rest on standard error; exit with 3 where it is incomplete, with 1 where nothing could be measured."""
    tell_spending(report.spending)
    for note in report.notes:
        say(note, style="yellow")
    for one in report.coverage:
        if one.missing:
            halved = one.kind == "reviewer" and report.convention == "paper"
            said = "counted one half" if halved else "left out"
            say(f"{one.judge}: {one.missing} of {one.asked} {one.of} missing, {said}", style="yellow")
    tell_folder(folder, "result")
    if not report.complete:
        say(f"incomplete: {report.open} left; run the same command again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)
    if all(row.value is None for row in report.rows):
        say("nothing could be measured", style="red")
        raise typer.Exit(NOTHING)
