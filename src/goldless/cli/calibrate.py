"""``goldless calibrate``: agents' means on the people's scale from few labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goldless.cli.agree import Judges
from goldless.cli.command import RESULT_FOLDER, verb
from goldless.cli.output import Output
from goldless.cli.score import tell_all
from goldless.runs.option_forms import Form, option, values
from goldless.runs.options import CRITIC, LABELS, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.calibration_results import Calibration
    from goldless.studies import Study

NEXT_FILE = "next_labels.csv"


@dataclass(frozen=True, kw_only=True)
class Calibrating(Judges):
    """Options of ``calibrate``."""

    labels: Any = option(
        None,
        "File with ratings: task, agent, rater, score (default: the study's labels).",
        "FILE",
        group=LABELS,
        form=Form(Path),
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
def _tell(found: Calibration, output: Output, *, own: Calibrating, source: Study) -> None:
    from goldless.files import write_text
    from goldless.studies import with_labels

    notes = []
    if output.folder is not None:
        labelled = source if own.labels is None else with_labels(source, own.labels)
        output.keep(labelled, "calibrate", "calibration", found)
        if found.next_labels:  # with their chances, which --drawn reads
            write_text(output.folder / NEXT_FILE, found.tables()[-1].to_csv())
            if found.agents:
                notes = [f"once they are labelled, add --drawn {output.folder / NEXT_FILE} to the next calibration"]
    output.tell(found, notes=notes, findings=())
    if found.evaluation is not None:
        tell_all(found.evaluation, Output())
