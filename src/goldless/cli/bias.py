"""``goldless bias``: what reviewers and metrics favour besides quality."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

from goldless.cli.command import RESULT_FOLDER, StudyArgument, own, verb
from goldless.cli.console import NOTHING, end, incomplete, say
from goldless.cli.output import Output, tell_spending
from goldless.errors import UserError
from goldless.runs.option_forms import split
from goldless.runs.options import CRITIC, METRICS, MODELS, REVIEWERS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.bias_report import BiasReport


JUDGED = ("reviewers", "scale", "task_description", "families", "convention", "criterion", "margin")


@verb(
    *(METRICS, CRITIC, *JUDGED, STATISTICS, MODELS),
    first=("reviewers", "metrics", "favours", "recorded", "out_folder"),
    usual={"metrics": ()},
    helps={
        "reviewers": "Comma-separated recorded reviewers, or chat models to call, MODEL or NAME=MODEL (default: all "
        "recorded ones).",
        "families": "Model family of an agent or reviewer (default: as in the agents table, else its own name).",
    },
    out=RESULT_FOLDER,
)
def bias(
    study: StudyArgument,
    *,
    weights: Annotated[
        list[str] | None,
        own(
            "Weight of a reviewer in the panel's vote; others do not vote (default: all equal).",
            REVIEWERS,
            "NAME=WEIGHT",
        ),
    ] = None,
    favours: Annotated[
        list[str] | None,
        own("Two agents: how often is FIRST favoured where people tie or prefer SECOND?", REVIEWERS, "FIRST:SECOND"),
    ] = None,
    orders: Annotated[
        Literal["each", "together"],
        own("For --favours: count each order of a pair alone, or one vote on both.", REVIEWERS),
    ] = "each",
    options: Options,
    output: Output,
) -> None:
    """Measure what reviewers and metrics favour besides quality: position, length, markup, their own family, an agent.

    Only biases that the study has data for are shown; the others are listed with the reason.

    Examples:
      goldless bias sample --metric rouge-l,length
      goldless bias study/ --recorded --favours alpha:beta --out runs/first
    """
    from goldless.meta_evaluation.bias import find_bias
    from goldless.studies import as_study

    source = as_study(study)
    report = output.run(
        find_bias,
        source,
        options,
        favours=tuple(favours or ()),
        weights=_weights(split(weights or ())),
        orders=orders,
    )
    output.keep(source, "bias", report, report.to_markdown, spending=report.spending)
    output.show(
        report,
        csv=report.to_csv,
        markdown=report.to_markdown,
        signatures=report.signatures(),
        below=("Not measured:", *(f"  {line}" for line in report.unavailable_lines())) if report.unavailable else (),
    )
    _tell(report, output)


def _weights(given: tuple[str, ...]) -> dict[str, float] | None:
    """Weights by reviewer; None: all equal."""
    if not given or given == ("equal",):
        return None
    found, problems = {}, []
    for item in given:
        name, _, text = item.rpartition("=")
        try:
            weight = float(text)
        except ValueError:
            weight = math.nan
        if name.strip() and math.isfinite(weight):
            found[name.strip()] = weight
        else:
            problems.append(f"--weights must be NAME=WEIGHT, where a weight is a finite number, got {item!r}")
    if problems:
        raise UserError("\n".join(problems))
    return found


def _tell(report: BiasReport, output: Output) -> None:
    """Report the rest on standard error; exit with 3 where it is incomplete, with 1 where nothing could be measured."""
    tell_spending(report.spending)
    for note in report.notes:
        say(note, style="yellow")
    for one in report.coverage:
        if one.missing:
            halved = one.kind == "reviewer" and report.convention != "default"
            said = "counted one half" if halved else "left out"
            say(f"{one.judge}: {one.missing} of {one.asked} {one.of} missing, {said}", style="yellow")
    output.tell_folder()
    if not report.complete:
        incomplete(f"{report.open} left")
    if all(row.value is None for row in report.rows):
        end(NOTHING, "nothing could be measured")
