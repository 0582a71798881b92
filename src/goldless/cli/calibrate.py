"""``goldless calibrate``: agents' means on the people's scale from few labels."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goldless.cli.command import RESULT_FOLDER, like, own, verb
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.cli.score import tell_all
from goldless.runs.options import CRITIC, LABELS, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.calibration_results import Calibration

NEXT_FILE = "next_labels.csv"


@verb(
    *(METRICS, CRITIC, "reviewers", "criterion", "baseline", STATISTICS, MODELS),
    without=("resamples",),
    first=("labels", "metrics", "reviewers", "scores", "next_count", "drawn", "out_folder"),
    usual={"metrics": ()},
    helps={
        "metrics": "Comma-separated metrics to predict labels with; of a run folder those it has (default: all).",
        "reviewers": "Comma-separated recorded reviewers to predict labels with, or all.",
        "baseline": "Compare only this agent with each of the others.",
    },
    out=RESULT_FOLDER,
)
def calibrate(
    study: Annotated[
        str,
        typer.Argument(
            metavar="RUN_OR_STUDY", help="A run folder, a study folder, a file with task, agent and text, or sample."
        ),
    ],
    *,
    labels: Annotated[
        Path | None,
        own("File with ratings: task, agent, rater, score (default: the study's labels).", LABELS, "FILE"),
    ] = None,
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
    average: Annotated[
        bool,
        own(
            "Use the mean of the standardised metrics and reviewers as one; better than several with few labels.",
            METRICS,
        ),
    ] = False,
    next_count: Annotated[
        int,
        own("Draw N tasks to label next, by what would change a decision.", LABELS, "--next N", default="none"),
    ] = 0,
    drawn: Annotated[
        list[Path] | None,
        own("Tasks of an earlier --next with their chances. Repeat it for several draws, in order.", LABELS, "FILE"),
    ] = None,
    options: Options,
    output: Output,
) -> None:
    """Estimate agents' scores on the people's scale from labels on some tasks and metrics or reviewers on all.

    Prediction-powered estimates with intervals: valid whatever the metrics are worth, if the labelled tasks are a
    random draw. A task is labelled for all agents or for none.

    Examples:
      goldless calibrate study/ --next 20
      goldless calibrate study/ --labels labels.csv --metric rouge-l,length
      goldless calibrate runs/first --labels labels.csv --next 20 --out runs/calibrated
    """
    from goldless.meta_evaluation.calibration import calibrate as calibrate_to_people
    from goldless.reports.document import write
    from goldless.studies import as_study, with_labels

    source = as_study(study) if labels is None else with_labels(as_study(study), labels)
    found = output.run(
        calibrate_to_people,
        source,
        options,
        scale=scale,
        scores=scores or None,
        drawn=drawn or (),
        next_count=next_count,
        average=average,
        **options.some("reviewers", "criterion"),
    )
    spending = () if found.evaluation is None else found.evaluation.spending
    output.keep(source, "calibrate", found, found.to_markdown, name="calibration", spending=spending)
    _keep_next(found, output)
    output.print_tables(found.tables(), partial(write, found), markdown=found.to_markdown)
    for note in found.notes:
        say(note)
    output.tell_folder()
    if found.evaluation is not None:
        tell_all(found.evaluation, Output())


def _keep_next(found: Calibration, output: Output) -> None:
    """Write the drawn tasks with their chances, which --drawn reads."""
    if output.folder is None or not found.next_labels:
        return
    from goldless.files import write_text

    table = found.tables()[-1]
    write_text(output.folder / NEXT_FILE, table.to_csv())
    if found.agents:
        say(f"once they are labelled, add --drawn {output.folder / NEXT_FILE} to the next calibration")
