"""``goldless crashtest``: whether a metric falls when content is lost, and does not rise with superficial changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import typer

from goldless.cli.command import OUTPUT, verb
from goldless.cli.console import METRIC_FAILED, NOTHING, end, incomplete, say
from goldless.cli.output import Output, tell_spending
from goldless.cli.perturb import PERTURBATION_NAMES, PERTURBATIONS, WRITER
from goldless.runs.option_forms import ONE_LIST, Form, option, several, split, values
from goldless.runs.options import CRITIC, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.rating_card import CrashTest
    from goldless.models.interface import ChatModel
    from goldless.studies import Study

PERTURB = "Perturbations"
PEERS = Form(
    str,
    parse=lambda words: int(words) if words.strip().isdecimal() else split([words]),
    accept=lambda given: given if isinstance(given, int) else several(given),
)
"""A number of agents, or their names."""
FAILING = {"fail": ("fail",), "not-shown": ("fail", "not shown"), "never": ()}
"""Ratings that end with an exit code of their own."""
LEGEND = (
    "↓: must fall; ≤: must not rise. SMD: standardised change, with its {level:g} % interval, which the rating "
    "follows. -v explains all columns."
)


@dataclass(frozen=True, kw_only=True)
class CrashTesting:
    """Options of ``crashtest``."""

    perturbations: Sequence[str] = option(
        (),
        f"Comma-separated: {PERTURBATIONS}.",
        "--perturbation NAMES",
        group=PERTURB,
        form=PERTURBATION_NAMES,
        shown="all that need no model",
    )
    writer: str | ChatModel | None = option(None, f"{WRITER}, for those that need one.")
    agents: Sequence[str] | None = option(
        None,
        "Comma-separated agents whose responses are perturbed (default: all).",
        "--candidates AGENTS",
        form=ONE_LIST,
    )
    references: int | Sequence[str] = option(
        2, "Number of peers a response is compared with, or which agents.", "N|AGENTS", form=PEERS
    )
    responses: int = option(300, "Maximum number of responses to perturb, drawn by the seed.")
    margin: float = option(0.2, "Effects shown to be smaller than this count as none.")
    fail_on: Literal["fail", "not-shown", "never"] = option(
        "fail",
        "Exit with code 5 if a metric fails; also if a result is not shown; or never.",
        group=OUTPUT,
        command_only=True,
    )


@verb(
    *(METRICS, CRITIC, "reviewers", STATISTICS, MODELS),
    without=("peers", "peer_sample", "budget_calls", "recorded"),
    first=("metrics", "scorer", "perturbations", "fail_on", "out_folder"),
    usual={"metrics": ("shared-info",)},
    out="Write the rating card, badges and changed texts to this folder.",
    questions={
        "--drill": "Measure whether metrics score honest responses above deceptive ones.",
        "--write": "Write a study with perturbed copies of its responses.",
    },
)
async def crashtest(study: Study, own: CrashTesting, options: Options) -> CrashTest:
    """Stress-test metrics: degraded responses should score lower, superficially altered ones no higher.

    Custom metrics can be tested too: --metric python:FILE.py:FUNCTION or --metric 'command:WORDS'.

    Examples:
      goldless crashtest answers.csv --metric rouge-l,length
      goldless crashtest answers.csv --metric gem-raw --perturbation deletion,padding
    """
    from goldless.meta_evaluation.crash_test import crash_test
    from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE

    return await crash_test(study, options, **values(own) | {"perturbations": own.perturbations or MODEL_FREE})


@crashtest.told
def _tell(found: CrashTest, output: Output, *, own: CrashTesting) -> None:
    from goldless.meta_evaluation.rating_card import save_crash_test

    if output.folder is not None:
        save_crash_test(found, output.folder)
    output.show(found, below=(found.reading if output.with_details else LEGEND.format(level=100 * found.level),))
    tell_spending(found.spending)
    if found.responses_there_are > found.responses:
        say(f"{found.responses} of {found.responses_there_are} responses were drawn (--responses)")
    for problem, count in found.problems.items():
        say(f"missing: {count} × {problem}", style="yellow")  # noqa: RUF001 - times
    output.tell_folder("card, badges and changed texts")
    failed = {metric: card.counts["fail"] for metric, card in found.metrics.items() if card.counts["fail"]}
    if failed:
        say("failed: " + ", ".join(f"{metric} ({count})" for metric, count in failed.items()), style="red")
    if found.open:
        incomplete(f"{found.asked - found.open} of {found.asked}")
    if found.unscored:
        end(NOTHING, f"scored nothing: {', '.join(found.unscored)}")
    if any(result.rating in FAILING[own.fail_on] for result in found.results):
        raise typer.Exit(METRIC_FAILED)
