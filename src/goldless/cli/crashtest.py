"""``goldless crashtest``: whether a metric falls when content is lost, and does not rise with superficial changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goldless.cli.command import OUTPUT, StudyArgument, own, verb
from goldless.cli.console import METRIC_FAILED, NOTHING, end, incomplete, say
from goldless.cli.output import Output, tell_spending
from goldless.cli.perturb import PERTURBATIONS, WRITER
from goldless.runs.option_forms import split
from goldless.runs.options import CRITIC, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.rating_card import CrashTest

PERTURB = "Perturbations"
FAILING = {"fail": ("fail",), "not-shown": ("fail", "not shown"), "never": ()}
"""Ratings that end with an exit code of their own."""
LEGEND = (
    "↓: must fall; ≤: must not rise. SMD: standardised change, with its {level:g} % interval, which the rating "
    "follows. -v explains all columns."
)


@verb(
    *(METRICS, CRITIC, "reviewers", STATISTICS, MODELS),
    without=("peers", "peer_sample", "budget_calls", "recorded"),
    first=("metrics", "scorer", "perturbation", "fail_on", "out_folder"),
    usual={"metrics": ("shared-info",)},
    out="Write the rating card, badges and changed texts to this folder.",
)
def crashtest(
    study: StudyArgument,
    *,
    perturbation: Annotated[
        list[str] | None,
        own(f"Comma-separated: {PERTURBATIONS}.", PERTURB, "NAMES", default="all that need no model"),
    ] = None,
    writer: Annotated[str | None, own(f"{WRITER}, for those that need one.", PERTURB)] = None,
    candidates: Annotated[
        str | None, own("Comma-separated agents whose responses are perturbed (default: all).", PERTURB, "AGENTS")
    ] = None,
    references: Annotated[
        str, own("Number of peers a response is compared with, or which agents.", PERTURB, "N|AGENTS")
    ] = "2",
    responses: Annotated[int, own("Maximum number of responses to perturb, drawn by the seed.", PERTURB)] = 300,
    margin: Annotated[float, own("Effects shown to be smaller than this count as none.", PERTURB)] = 0.2,
    fail_on: Annotated[
        Literal["fail", "not-shown", "never"],
        own("Exit with code 5 if a metric fails; also if a result is not shown; or never.", OUTPUT),
    ] = "fail",
    options: Options,
    output: Output,
) -> None:
    """Stress-test metrics: degraded responses should score lower, superficially altered ones no higher.

    Custom metrics can be tested too: --metric python:FILE.py:FUNCTION or --metric 'command:WORDS'.

    Examples:
      goldless crashtest answers.csv --metric rouge-l,length
      goldless crashtest answers.csv --metric gem-raw --perturbation deletion,padding
    """
    from goldless.meta_evaluation.crash_test import CrashOptions, crash_test
    from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE, split_names
    from goldless.meta_evaluation.rating_card import save_crash_test

    crash = CrashOptions(
        perturbations=split_names(perturbation) if perturbation else MODEL_FREE,
        agents=None if candidates is None else split([candidates]),
        references=int(references) if references.strip().isdecimal() else split([references]),
        responses=responses,
        writer=writer,
        margin=margin,
    )
    test = output.run(crash_test, study, options, crash=crash)
    if output.folder is not None:
        save_crash_test(test, output.folder)
    long = test.reading if output.with_details else LEGEND.format(level=100 * test.level)
    output.show(test, csv=test.to_csv, markdown=test.to_markdown, below=(long,))
    _tell(test, output)
    if test.open:
        incomplete(f"{test.asked - test.open} of {test.asked}")
    if test.unscored:
        end(NOTHING, f"scored nothing: {', '.join(test.unscored)}")
    if any(result.rating in FAILING[fail_on] for result in test.results):
        raise typer.Exit(METRIC_FAILED)


def _tell(test: CrashTest, output: Output) -> None:
    tell_spending(test.spending)
    if test.responses_there_are > test.responses:
        say(f"{test.responses} of {test.responses_there_are} responses were drawn (--responses)")
    for problem, count in test.problems.items():
        say(f"missing: {count} × {problem}", style="yellow")  # noqa: RUF001 - times
    output.tell_folder("card, badges and changed texts")
    failed = {metric: card.counts["fail"] for metric, card in test.metrics.items() if card.counts["fail"]}
    if failed:
        say("failed: " + ", ".join(f"{metric} ({count})" for metric, count in failed.items()), style="red")
