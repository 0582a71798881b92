"""``goldless agree``: how far metrics and reviewers agree with people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from goldless.cli.command import same, verb
from goldless.cli.console import NOTHING, end
from goldless.cli.output import Output
from goldless.cli.score import tell_all
from goldless.runs.option_forms import SCORES, option, values
from goldless.runs.options import CRITIC, LABELS, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.agreement_results import Agreement
    from goldless.studies import Study


@dataclass(frozen=True, kw_only=True)
class Judges:
    """Options of verbs that compare metrics, reviewers and scores computed elsewhere with people."""

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


@dataclass(frozen=True, kw_only=True)
class Agreeing(Judges):
    """Options of ``agree``."""

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
def _tell(found: Agreement, output: Output) -> None:
    output.tell(found)
    if found.evaluation is not None:
        tell_all(found.evaluation, Output())
    judges = [judge for one in found.criteria for judge in one.judges]
    values_of = (
        number for judge in judges for number in (*(c.value for c in judge.correlations), judge.accuracy.accuracy)
    )
    if all(number is None for number in values_of):
        end(NOTHING, "no response has both a label and a score")
