"""``goldless crashtest --drill``: whether metrics and judges rate honest responses above deceptive ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from goldless.cli.command import same, verb
from goldless.runs.option_forms import LINES, option, values
from goldless.runs.options import CRITIC, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.deception_drill import DeceptionDrill
    from goldless.models.interface import ChatModel, Scorer
    from goldless.studies import Study

DECEPTION = "Who deceives"


@dataclass(frozen=True, kw_only=True)
class Drilling:
    """Options of ``drill``."""

    honest: str | None = option(None, "Group of honest agents, in the agents table.", "GROUP", group=DECEPTION)
    deceptive: str | None = option(None, "Group of deceptive agents.", "GROUP")
    writer: str | ChatModel | None = option(
        None, "Chat model that writes a deceptive twin of every response, where there are no groups.", "MODEL"
    )
    scorers: Sequence[str | Scorer] = same(
        "scorer",
        (),
        "Scorer, or juror of peer-prediction. Repeat it to compare several, such as sizes of a model.",
        form=LINES,
    )


@verb(
    *(METRICS, CRITIC, "reviewers", STATISTICS, MODELS),
    without=("scorer", "budget_calls"),
    first=("metrics", "scorers", "honest", "deceptive", "writer", "recorded"),
    usual={"metrics": ("peer-prediction", "gem-raw+control")},
    averages_samples=True,
)
async def drill(study: Study, own: Drilling, options: Options) -> DeceptionDrill:
    """Measure how often metrics and judges score an honest response above a deceptive one to the same task.

    The deceptive agents are a group of the study, or twins that a chat model writes; they are peers like all others.
    Judges are metrics too: review[SCALE] with --reviewers, or judge[TABLE] of recorded comparisons.

    Examples:
      goldless crashtest --drill study/ --honest honest --deceptive liars --metric tvd-mi
      goldless crashtest --drill answers.csv --writer openai:gpt-4o-mini --scorer hf:A --scorer hf:B
    """
    from goldless.meta_evaluation.deception_drill import deception_drill

    own_ones = values(own)
    if options.recorded and own.scorers:
        options = replace(options, scorer=own.scorers[0])
        own_ones["scorers"] = own.scorers if len(own.scorers) > 1 else ()
    return await deception_drill(study, options, **own_ones)
