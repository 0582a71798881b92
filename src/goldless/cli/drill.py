"""``goldless drill``: whether metrics and judges rate honest responses above deceptive ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

from goldless.cli.command import StudyArgument, like, own, verb
from goldless.cli.console import incomplete
from goldless.cli.output import Output, tell_spending
from goldless.runs.options import CRITIC, METRICS, MODELS, STATISTICS, Options

DECEPTION = "Who deceives"


@verb(
    *(METRICS, CRITIC, "reviewers", STATISTICS, MODELS),
    without=("budget_calls",),
    first=("metrics", "scorer", "honest", "deceptive", "writer", "recorded"),
    usual={"metrics": ("peer-prediction", "gem-raw+control")},
)
def drill(
    study: StudyArgument,
    *,
    honest: Annotated[str | None, own("Group of honest agents, in the agents table.", DECEPTION, "GROUP")] = None,
    deceptive: Annotated[str | None, own("Group of deceptive agents.", DECEPTION, "GROUP")] = None,
    writer: Annotated[
        str | None,
        own(
            "Chat model that writes a deceptive twin of every response, where there are no groups.", DECEPTION, "MODEL"
        ),
    ] = None,
    scorer: Annotated[
        list[str] | None,
        like("scorer", "Scorer, or juror of peer-prediction. Repeat it to compare several, such as sizes of a model."),
    ] = None,
    options: Options,
    output: Output,
) -> None:
    """Measure how often metrics and judges score an honest response above a deceptive one to the same task.

    The deceptive agents are a group of the study, or twins that a chat model writes; they are peers like all others.
    Judges are metrics too: review[SCALE] with --reviewers, or judge[TABLE] of recorded comparisons.

    Examples:
      goldless drill study/ --honest honest --deceptive liars --metric peer-prediction,tvd-mi
      goldless drill answers.csv --writer openai:gpt-4o-mini --scorer hf:SMALL --scorer hf:LARGE
    """
    from goldless.meta_evaluation.deception_drill import deception_drill
    from goldless.reports.document import write

    scorers = tuple(scorer or ())
    if options.recorded and scorers:
        options, scorers = replace(options, scorer=scorers[0]), scorers if len(scorers) > 1 else ()
    found = output.run(
        deception_drill,
        study,
        options,
        averages_samples=True,
        honest=honest,
        deceptive=deceptive,
        writer=writer,
        scorers=scorers,
    )
    output.print_tables([found.table()], partial(write, found))
    tell_spending(found.spending)
    if found.open:
        incomplete(f"{found.open} calls are open")
