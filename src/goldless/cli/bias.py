"""``goldless bias``: what reviewers and metrics favour besides quality."""

from __future__ import annotations

import json
import math
from typing import Annotated, Literal

import typer

from goldless.cli.console import out, say
from goldless.cli.metric_options import (
    STATISTICS,
    FormatOption,
    JsonOption,
    StudyArgument,
    metric_options,
    names,
    run_on_study,
)
from goldless.errors import UserError
from goldless.judging.judges import JUDGES
from goldless.meta_evaluation.bias import BiasReport, find_bias
from goldless.runs.options import Options

INCOMPLETE = 3
NOTHING_MEASURED = 1
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
    options: Options,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Look for what reviewers and metrics favour besides quality: place, length, markup, their own kind, an agent.

    Only what the study has data for is shown; the rest is listed with the reason.
    Example: goldless bias study/ --recorded --favours chatgpt:ChatGLM2-6B --metric length
    """
    report = run_on_study(
        find_bias,
        study,
        options,
        reviewers=names(reviewers),
        scale=scale,
        favours=tuple(favours or ()),
        families=_pairs(family or [], "--family", "FAMILY"),
        weights=_weights(names(weights)),
        orders=orders,
        convention=convention,
        criterion=criterion,
        task_description=task_description,
    )
    print_bias(report, "json" if json_only else table)
    tell_bias(report)


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


def print_bias(report: BiasReport, table: str) -> None:
    """Print the tables on standard output."""
    if table == "json":
        typer.echo(json.dumps(report.as_json(), ensure_ascii=False, indent=2, allow_nan=False))
    elif table == "csv":
        typer.echo(report.to_csv(), nl=False)
    elif table == "markdown":
        typer.echo(report.to_markdown())
    else:
        out.print(report.to_rich())
        for line in report.signatures():
            out.print(line, markup=False, soft_wrap=True, style="dim")


def tell_bias(report: BiasReport) -> None:
    """Say the rest on standard error; exit with 3 where it is incomplete, with 1 where nothing could be measured."""
    for row in report.spending:
        cost = "price unknown" if row.cost_usd is None else f"{row.cost_usd:.4f} USD"
        tokens = row.usage.input_tokens + row.usage.output_tokens
        say(f"{row.model}: {row.calls} calls now ({tokens:,} tokens, {cost}), {row.reused} from the journal")
    for note in report.notes:
        say(note, style="yellow")
    for one in report.coverage:
        if one.missing:
            halved = one.kind == "reviewer" and report.convention == "paper"
            said = "counted one half" if halved else "left out"
            say(f"{one.judge}: {one.missing} of {one.asked} {one.of} missing, {said}", style="yellow")
    if not report.complete:
        say(f"incomplete: {report.open} left; run the same command again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)
    if all(row.value is None for row in report.rows):
        say("nothing could be measured", style="red")
        raise typer.Exit(NOTHING_MEASURED)
