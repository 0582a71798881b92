"""``goldless select``: the best of several responses to each task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goldless.cli.command import verb
from goldless.cli.console import NOTHING, end
from goldless.cli.output import Output
from goldless.runs.option_forms import TEXT, option
from goldless.runs.options import CRITIC, METRICS, MODELS, Options

if TYPE_CHECKING:
    from goldless.models.interface import ChatModel
    from goldless.selection.selecting import Selection
    from goldless.studies import Study

SAMPLES = "More samples"


def _questions(given: Any) -> Any:
    """A study of a mapping of questions to lists of answers; anything else as it is."""
    from goldless.selection.selecting import samples_study

    return samples_study(given.items()) if isinstance(given, Mapping) else given


@dataclass(frozen=True, kw_only=True)
class Selecting:
    tolerance: str | float = option(
        "1sd",
        "A response that is better by no more than this does not matter: in the metric's unit, or in standard "
        "deviations of the responses' scores on the task, such as 0.5sd.",
        form=TEXT,
    )
    sampler: str | ChatModel | None = option(
        None, "Chat model that is asked for more samples while a task is undecided.", "MODEL", group=SAMPLES
    )
    most: int = option(24, "Most samples per task, with those in the file.")
    temperature: float = option(1.0, "Temperature of the samples.")
    max_tokens: int = option(1024, "Longest sample; a longer one is missing.")
    system: str = option("", "System message for the sampler.")


@verb(
    *(METRICS, CRITIC, "alpha", "at_least", "seed", MODELS),
    without=("jurors", "juror_families", "examples", "own_samples", "peers", "peer_sample", "budget_calls"),
    first=("metrics", "scorer", "sampler", "most", "recorded"),
    helps={
        "metrics": "Metric to choose by, such as gem-raw+control, gem-s[prompt]+control or tvd-mi (default: "
        "gem-raw+control; gem-raw where there is one task).",
        "alpha": "Probability that a choice that is called decided is wrong.",
        "at_least": "Common peers before a choice is called decided.",
    },
    averages_samples=True,
    opens=_questions,
)
async def select(study: Study, own: Selecting, options: Options) -> Selection:
    """Choose the most informative response to each task among all of its responses, whoever gave them.

    Each response is scored with all others as peers; the best one is chosen, with its margin over the runner-up and
    whether that is decided. With a sampler, tasks that are not decided get more samples. Use --format csv or json for
    the chosen texts.

    Examples:
      goldless select samples.jsonl --repeats samples
      goldless select samples.csv --metric 'gem-s[prompt]+control' --format csv
      goldless select tasks/ --sampler openai:gpt-4o-mini --most 20
    """
    from goldless.selection.selecting import Sampling, select_responses

    sampling = None
    if own.sampler is not None:
        sampling = Sampling(
            writer=own.sampler, most=own.most, temperature=own.temperature, max_tokens=own.max_tokens, system=own.system
        )
    return await select_responses(study, options, tolerance=own.tolerance, sampling=sampling)


@select.told
def _tell(found: Selection, output: Output) -> None:
    output.tell(found)
    if not found.texts():
        end(NOTHING, "nothing could be chosen: no response has a score")
