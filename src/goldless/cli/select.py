"""``goldless select``: the best of several responses to each task."""

from __future__ import annotations

from typing import Annotated

from goldless.cli.command import StudyArgument, own, verb
from goldless.cli.console import NOTHING, end, incomplete
from goldless.cli.output import Output, tell_spending
from goldless.runs.options import CRITIC, METRICS, MODELS, Options

SAMPLES = "More samples"


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
)
def select(
    study: StudyArgument,
    *,
    tolerance: Annotated[
        str,
        own(
            "A response that is better by no more than this does not matter: in the metric's unit, or in standard "
            "deviations of the responses' scores on the task, such as 0.5sd."
        ),
    ] = "1sd",
    sampler: Annotated[
        str | None,
        own("Chat model that is asked for more samples while a task is undecided.", SAMPLES, "--sampler MODEL"),
    ] = None,
    most: Annotated[int, own("Most samples per task, with those in the file.", SAMPLES, "--most N")] = 24,
    temperature: Annotated[float, own("Temperature of the samples.", SAMPLES)] = 1.0,
    max_tokens: Annotated[int, own("Longest sample; a longer one is missing.", SAMPLES, "--max-tokens N")] = 1024,
    system: Annotated[str, own("System message for the sampler.", SAMPLES, "--system TEXT")] = "",
    options: Options,
    output: Output,
) -> None:
    """Choose the most informative response to each task among all of its responses, whoever gave them.

    Each response is scored with all others as peers; the best one is chosen, with its margin over the runner-up and
    whether that is decided. With a sampler, tasks that are not decided get more samples. Use --format csv or json for
    the chosen texts.

    Examples:
      goldless select samples.jsonl --repeats samples
      goldless select samples.csv --metric 'gem-s[prompt]+control' --format csv
      goldless select tasks/ --sampler openai:gpt-4o-mini --most 20
    """
    from goldless.reports.document import write
    from goldless.selection.samples import Sampling
    from goldless.selection.selecting import select_responses

    sampling = None
    if sampler is not None:
        sampling = Sampling(writer=sampler, most=most, temperature=temperature, max_tokens=max_tokens, system=system)
    found = output.run(select_responses, study, options, averages_samples=True, tolerance=tolerance, sampling=sampling)
    output.print_tables([found.table()], lambda: write(found))
    tell_spending(found.spending)
    if found.open:
        incomplete(f"{found.open} calls are open")
    if not found.texts():
        end(NOTHING, "nothing could be chosen: no response has a score")
