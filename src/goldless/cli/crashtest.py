"""``goldless crashtest``: whether a metric falls when content is lost, and does not rise with superficial changes.

``--drill``: whether it scores honest responses above deceptive ones; ``--write``: a study with perturbed responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import typer

from goldless.cli.command import same, verb
from goldless.cli.console import METRIC_FAILED, NOTHING, end, incomplete, say
from goldless.cli.output import OUTPUT, Output
from goldless.runs.option_forms import LINES, NAMES, ONE_LIST, REQUIRED, OptionForm, option, several, split, values
from goldless.runs.options import CALLING, CRITIC, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.crash_test import CrashTest
    from goldless.meta_evaluation.perturbed_study import DeceptionDrill, PerturbedStudy
    from goldless.models.interface import ChatModel, Scorer
    from goldless.studies import Study

PERTURB = "Perturbations"
PERTURBATIONS = (
    "deletion, completion, synopsis-only, shuffled-task, null, rephrase, elongation, case-flip, format, padding, "
    "pattern, repetition, verdict-injection, praise, collusion, prompt-copy, deceptive, style-of-all, near-copy, "
    "translation"
)
"""As the help lists them: variants, as in null[TEXT], are in docs/crash_test.md."""
STRATEGIES = "strategic-rewrite, related-shift, standard, brief, null, each also as NAME[peer-review]"
WRITER = "Chat model that writes texts, such as openai:MODEL, for perturbations that need one."
PEERS = OptionForm(
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


def _split(given: Any) -> tuple[str, ...]:
    from goldless.meta_evaluation.perturbations.catalogue import split_names

    return tuple(split_names(given))


@dataclass(frozen=True, kw_only=True)
class Perturbations:
    perturbations: Sequence[str] = option(
        (),
        f"Comma-separated: {PERTURBATIONS}.",
        "--perturbation NAMES",
        group=PERTURB,
        form=OptionForm(list[str], parse=_split, accept=several),
        shown="all that need no model",
    )
    writer: str | ChatModel | None = option(None, WRITER, "MODEL")


@dataclass(frozen=True, kw_only=True)
class CrashTesting(Perturbations):
    agents: Sequence[str] | None = option(
        None,
        "Comma-separated agents whose responses are perturbed (default: all).",
        "--candidates AGENTS",
        form=ONE_LIST,
    )
    references: int | Sequence[str] = option(
        2, "Number of peers a response is compared with, or which agents.", "N|AGENTS", form=PEERS
    )
    responses: int = option(300, "Maximum number of responses to perturb, drawn by the seed.", at_least=1)
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
    first=("metrics", "scorer", "perturbations", "fail_on", "folder"),
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
    from goldless.meta_evaluation.crash_test import save_crash_test

    if output.folder is not None:
        save_crash_test(found, output.folder)
    legend = found.reading if output.with_details else LEGEND.format(level=100 * found.level)
    notes = [f"missing: {count} × {problem}" for problem, count in found.problems.items()]  # noqa: RUF001 - times
    if found.responses_there_are > found.responses:
        notes.insert(0, f"{found.responses} of {found.responses_there_are} responses were drawn (--responses)")
    failed = {metric: card.counts["fail"] for metric, card in found.metrics.items() if card.counts["fail"]}
    if failed:
        notes.append("failed: " + ", ".join(f"{metric} ({count})" for metric, count in failed.items()))
    output.tell(found, holds="card, badges and changed texts", notes=notes, below=(legend,))
    if found.unscored:
        end(NOTHING, f"scored nothing: {', '.join(found.unscored)}")
    if any(result.rating in FAILING[own.fail_on] for result in found.results):
        raise typer.Exit(METRIC_FAILED)


# --- crashtest --drill -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Drilling:
    honest: str | None = option(None, "Group of honest agents, in the agents table.", "GROUP", group="Who deceives")
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
    from goldless.meta_evaluation.perturbed_study import deception_drill

    own_ones = values(own)
    if options.recorded and own.scorers:
        options = replace(options, scorer=own.scorers[0])
        own_ones["scorers"] = own.scorers if len(own.scorers) > 1 else ()
    return await deception_drill(study, options, **own_ones)


# --- crashtest --write -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Perturbing(Perturbations):
    folder: Path = option(REQUIRED, "Write the new study to this folder.", "--write --out FOLDER", group=OUTPUT)
    strategies: Sequence[str] = option(
        (),
        f"Comma-separated agents played by a chat model: {STRATEGIES}.",
        "--strategy NAMES",
        group=PERTURB,
        form=NAMES,
    )
    agents: Sequence[str] | None = option(
        None, "Comma-separated agents whose responses are perturbed (default: all).", "AGENTS", form=NAMES
    )


@verb(
    *("seed", "budget_usd", "price", "on", "journal", *CALLING),
    first=("folder", "perturbations", "strategies", "agents", "writer"),
    helps={"seed": "Seed for shuffles and tags."},
)
async def perturb(study: Study, own: Perturbing, options: Options) -> PerturbedStudy:
    """Write a study with perturbed copies of its responses as further agents.

    Example:
      goldless crashtest answers.csv --write perturbed --agents careful --perturbation deletion
    """
    from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE, find_perturbation, find_strategy
    from goldless.meta_evaluation.perturbed_study import perturb_study

    named = own.perturbations or (() if own.strategies else MODEL_FREE)
    made = [*map(find_perturbation, named), *map(find_strategy, own.strategies)]
    return await perturb_study(study, own.folder, made, agents=own.agents, writer=own.writer, options=options)


@perturb.told
def _tell_written(found: PerturbedStudy, output: Output) -> None:
    """Show what was made, and what a reader of the table must know; exit with 3 where calls are open."""
    from goldless.cli.output import tell_spending
    from goldless.meta_evaluation.perturbations.catalogue import find_perturbation

    report = found.table()
    output.show(found, markdown=lambda: "\n".join(report.markdown_lines()))
    tell_spending([found.spending] if found.spending is not None else [])
    for kind, count in found.failures.items():
        say(f"missing: {count} {kind}, for example: {found.examples[kind]}", style="yellow")
    if found.folder is None:
        incomplete(f"{found.open} texts are open; nothing was written")
    if unchanged := sum(row.unchanged for row in found.rows):
        say(f"left unchanged by their perturbation: {unchanged}; no metric can distinguish these", style="yellow")
    perturbations = [find_perturbation(row.name) for row in found.rows if row.must is not None]
    if shared := [each.name for each in perturbations if each.scope == "everybody"]:
        say(f"{', '.join(shared)}: meant for all responses at once; compared with unchanged peers here", style="yellow")
    say(f"study: {found.folder}")
    if perturbations and found.peers:
        folder, peers = quote(str(found.folder)), quote(",".join(found.peers))
        say(f"score it: goldless score {folder} --peers {peers} --compare-groups original {perturbations[0].kind}")
    elif perturbations:
        say(
            "every agent was perturbed, so copies would be compared with their own originals. Perturb some with "
            "--agents and compare them with the others with --peers, or use goldless crashtest",
            style="yellow",
        )
