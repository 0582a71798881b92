"""``goldless agree``: how far metrics and reviewers agree with people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from goldless.cli.command import RESULT_FOLDER, StudyArgument, like, own, verb
from goldless.cli.console import NOTHING, end, say
from goldless.cli.output import Output
from goldless.cli.score import tell_all
from goldless.runs.options import CRITIC, LABELS, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.agreement_results import Agreement

Measured = Literal["auto", "nominal", "ordinal", "interval"]


@verb(
    *(METRICS, CRITIC, "reviewers", "own_family", LABELS, STATISTICS, MODELS),
    first=("metrics", "reviewers", "scores", "recorded", "out_folder"),
    usual={"metrics": ()},
    helps={
        "reviewers": "Comma-separated recorded reviewers, or all: each alone, and their equal vote.",
        "criterion": "Label criterion to use (default: each in turn).",
    },
    out=RESULT_FOLDER,
)
def agree(
    study: StudyArgument,
    *,
    scores: Annotated[
        list[Path] | None,
        own(
            "File with scores computed elsewhere: metric (optional), task, agent, score. Repeat it for several.",
            METRICS,
            "FILE",
        ),
    ] = None,
    scale: Annotated[
        str | None,
        like("scale", "Scale of the reviewers' judgements: pairwise, pairwise-tie, 5-level, 100-level."),
    ] = None,
    alpha: Annotated[Measured, own("Level of measurement for Krippendorff's alpha.", LABELS)] = "auto",
    options: Options,
    output: Output,
) -> None:
    """Compare metrics, recorded reviewers or external scores with the study's human labels.

    Prints pairwise accuracy and rank correlations with intervals, how far people agree with each other, and which
    metric agrees more with people than which other.

    Examples:
      goldless agree sample --metric rouge-l,length
      goldless agree study/ --metric gem-raw --scores mine.csv --out runs/first
    """
    from goldless.meta_evaluation.agreement import agree as agree_with_people
    from goldless.studies import as_study

    source = as_study(study)
    found = output.run(
        agree_with_people,
        source,
        options,
        scale=scale,
        scores=scores or None,
        measurement=alpha,
        **options.some("reviewers", "convention", "criterion", "margin", "own_family"),
    )
    spending = () if found.evaluation is None else found.evaluation.spending
    output.keep(source, "agree", found, found.to_markdown, name="agreement", spending=spending)
    output.show(found, csv=found.to_csv, markdown=found.to_markdown, signatures=found.signatures())
    _tell(found, output)


def _tell(found: Agreement, output: Output) -> None:
    """Report the rest on standard error; exit with 3 where metrics are incomplete, with 1 without a comparison."""
    for one in found.criteria:
        where = "" if one.criterion is None else f"{one.criterion}: "
        for note in [*one.notes, *([one.ceiling.note] if one.ceiling.note else [])]:
            say(f"{where}{note}", style="yellow")
    output.tell_folder()
    if found.evaluation is not None:
        tell_all(found.evaluation, Output())
    numbers = [
        number
        for one in found.criteria
        for judge in one.judges
        for number in (judge.accuracy.accuracy, *(c.value for c in judge.correlations))
    ]
    if all(number is None for number in numbers):
        end(NOTHING, "no response has both a label and a score")
