"""Metrics, reviewers and people: ``goldless agree``, ``calibrate`` and ``bias``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from goldless.cli.command import RESULT_FOLDER, same, verb
from goldless.cli.console import NOTHING, end
from goldless.cli.output import Output
from goldless.cli.score import tell_all
from goldless.errors import UserError
from goldless.runs.option_forms import LINES, SCORES, OptionForm, option, split, values
from goldless.runs.options import CRITIC, LABELS, METRICS, MODELS, REVIEWERS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.agreement import Agreement
    from goldless.meta_evaluation.bias import BiasReport
    from goldless.meta_evaluation.calibration import Calibration
    from goldless.studies import Study


@dataclass(frozen=True, kw_only=True)
class Judges:
    scores: Any = option(
        None,
        "File with scores computed elsewhere: metric (optional), task, agent, score. Repeat it for several.",
        "FILE",
        group=METRICS,
        form=SCORES,
    )
    scale: str | None = same(
        "scale", None, "Scale of the reviewers' judgements: pairwise, pairwise-tie, 5-level, 100-level."
    )


def _nothing_compared(found: Agreement) -> tuple[int, str] | None:
    judges = [judge for one in found.criteria for judge in one.judges]
    compared = [one.value for judge in judges for one in judge.correlations] + [one.accuracy.accuracy for one in judges]
    none = all(number is None for number in compared)
    return (NOTHING, "no response has both a label and a score") if none else None


@dataclass(frozen=True, kw_only=True)
class Agreeing(Judges):
    measurement: Literal["auto", "nominal", "ordinal", "interval"] = option(
        "auto", "Level of measurement of the labels, for Krippendorff's alpha.", group=LABELS, old="--alpha"
    )


@verb(
    *(METRICS, CRITIC, "reviewers", "own_family", LABELS, STATISTICS, MODELS),
    first=("metrics", "reviewers", "scores", "recorded", "folder"),
    usual={"metrics": ()},
    helps={
        "reviewers": "Comma-separated recorded reviewers, or all: each alone, and their equal vote.",
        "criterion": "Label criterion to use (default: each in turn).",
    },
    kept_as="agreement",
    ends=_nothing_compared,
)
async def agree(study: Study, own: Agreeing, options: Options) -> Agreement:
    """Compare metrics, recorded reviewers or external scores with the study's human labels.

    Prints pairwise accuracy and rank correlations with intervals, how far people agree with each other, and which
    metric agrees more with people than which other.

    Examples:
      goldless agree sample --metric rouge-l,length
      goldless agree study/ --metric gem-raw --scores mine.csv --out runs/first
    """
    from goldless.meta_evaluation.agreement import agree as agree_with_people

    named = options.some("reviewers", "convention", "criterion", "margin", "own_family")
    return await agree_with_people(study, options, **values(own), **named)


@agree.told
def _tell_agreement(found: Agreement, output: Output) -> None:
    output.tell(found)
    if found.evaluation is not None:
        tell_all(found.evaluation, Output())


# --- calibrate -------------------------------------------------------------------------------------------------------

NEXT_FILE = "next_labels.csv"


@dataclass(frozen=True, kw_only=True)
class Calibrating(Judges):
    labels: Any = option(
        None,
        "File with ratings: task, agent, rater, score (default: the study's labels).",
        "FILE",
        group=LABELS,
        form=OptionForm(Path),
    )
    average: bool = option(
        False,
        "Use the mean of the standardised metrics and reviewers as one; better than several with few labels.",
        "--average/--no-average",
        group=METRICS,
    )
    next_count: int = option(
        0, "Draw N tasks to label next, by what would change a decision.", "--next", group=LABELS, shown="none"
    )
    drawn: Sequence[Path | str] = option(
        (), "Tasks of an earlier --next with their chances. Repeat it for several draws, in order.", "FILE"
    )


@verb(
    *(METRICS, CRITIC, "reviewers", "criterion", "baseline", STATISTICS, MODELS),
    without=("resamples",),
    first=("labels", "metrics", "reviewers", "scores", "next_count", "drawn", "folder"),
    usual={"metrics": ()},
    helps={
        "metrics": "Comma-separated metrics to predict labels with; of a run folder those it has (default: all).",
        "reviewers": "Comma-separated recorded reviewers to predict labels with, or all.",
        "baseline": "Compare only this agent with each of the others.",
    },
    out=RESULT_FOLDER,
)
async def calibrate(study: Study, own: Calibrating, options: Options) -> Calibration:
    """Estimate agents' scores on the people's scale from labels on some tasks and metrics or reviewers on all.

    Prediction-powered estimates with intervals: valid whatever the metrics are worth, if the labelled tasks are a
    random draw. A task is labelled for all agents or for none.

    Examples:
      goldless calibrate study/ --next 20
      goldless calibrate study/ --labels labels.csv --metric rouge-l,length
      goldless calibrate runs/first --labels labels.csv --next 20 --out runs/calibrated
    """
    from goldless.meta_evaluation.calibration import calibrate as calibrate_to_people

    return await calibrate_to_people(study, options, **values(own), **options.some("reviewers", "criterion"))


@calibrate.told
def _tell_calibration(found: Calibration, output: Output, *, own: Calibrating, study: Study) -> None:
    from goldless.files import write_text
    from goldless.studies import with_labels

    notes = []
    if output.folder is not None:
        labelled = study if own.labels is None else with_labels(study, own.labels)
        output.keep(labelled, "calibrate", "calibration", found)
        if found.next_labels:  # with their chances, which --drawn reads
            write_text(output.folder / NEXT_FILE, found.tables()[-1].to_csv())
            if found.agents:
                notes = [f"once they are labelled, add --drawn {output.folder / NEXT_FILE} to the next calibration"]
    output.tell(found, notes=notes, findings=())
    if found.evaluation is not None:
        tell_all(found.evaluation, Output())


# --- bias ------------------------------------------------------------------------------------------------------------

JUDGED = ("reviewers", "scale", "task_description", "families", "convention", "criterion", "margin")


def _weights(words: Sequence[str]) -> dict[str, float] | None:
    """Weights by reviewer; None: all equal."""
    given = split(words)
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


WEIGHTS = OptionForm(list[str], parse=_weights)


@dataclass(frozen=True, kw_only=True)
class Favouring:
    weights: Mapping[str, float] | None = option(
        None,
        "Weight of a reviewer in the panel's vote; others do not vote (default: all equal).",
        "NAME=WEIGHT",
        group=REVIEWERS,
        form=WEIGHTS,
    )
    favours: Sequence[str | tuple[str, str]] = option(
        (), "Two agents: how often is FIRST favoured where people tie or prefer SECOND?", "FIRST:SECOND", form=LINES
    )
    orders: Literal["each", "together"] = option(
        "each",
        "For --favours: count each order of a pair alone, or one vote on both.",
        "--count-orders",
        keyword="count_orders",
        old="--orders",
    )


@verb(
    *(METRICS, CRITIC, *JUDGED, STATISTICS, MODELS),
    first=("reviewers", "metrics", "favours", "recorded", "folder"),
    usual={"metrics": ()},
    helps={
        "reviewers": "Comma-separated recorded reviewers, or chat models to call, MODEL or NAME=MODEL (default: all "
        "recorded ones).",
        "families": "Model family of an agent or reviewer (default: as in the agents table, else its own name).",
    },
    kept_as="bias",
)
async def bias(study: Study, own: Favouring, options: Options) -> BiasReport:
    """Measure what reviewers and metrics favour besides quality: position, length, markup, their own family, an agent.

    Only biases that the study has data for are shown; the others are listed with the reason.

    Examples:
      goldless bias sample --metric rouge-l,length
      goldless bias study/ --recorded --favours alpha:beta --out runs/first
    """
    from goldless.meta_evaluation.bias import find_bias

    return await find_bias(study, options, **values(own))


@bias.told
def _tell_bias(found: BiasReport, output: Output) -> None:
    counted = {"reviewer": "left out" if found.convention == "default" else "counted one half"}
    notes = [
        f"{one.judge}: {one.missing} of {one.asked} {one.of} missing, {counted.get(one.kind, 'left out')}"
        for one in found.coverage
        if one.missing
    ]
    output.tell(found, notes=notes)
    if all(row.value is None for row in found.rows):
        end(NOTHING, "nothing could be measured")
