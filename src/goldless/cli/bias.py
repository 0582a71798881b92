"""``goldless bias``: what reviewers and metrics favour besides quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from goldless.cli.command import verb
from goldless.cli.console import NOTHING, end
from goldless.cli.output import Output
from goldless.errors import UserError
from goldless.runs.option_forms import LINES, Form, option, split, values
from goldless.runs.options import CRITIC, METRICS, MODELS, REVIEWERS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.bias_report import BiasReport
    from goldless.studies import Study

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


WEIGHTS = Form(list[str], parse=_weights)


@dataclass(frozen=True, kw_only=True)
class Favouring:
    """Options of ``bias``."""

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
def _tell(found: BiasReport, output: Output) -> None:
    counted = {"reviewer": "left out" if found.convention == "default" else "counted one half"}
    notes = [
        f"{one.judge}: {one.missing} of {one.asked} {one.of} missing, {counted.get(one.kind, 'left out')}"
        for one in found.coverage
        if one.missing
    ]
    output.tell(found, notes=notes)
    if all(row.value is None for row in found.rows):
        end(NOTHING, "nothing could be measured")
