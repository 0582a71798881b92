"""``goldless agree``, ``bias``, ``calibrate`` and ``crashtest``: whether a metric or a reviewer can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import typer

from goldless.cli.command import RESULT_FOLDER, same, verb
from goldless.cli.console import METRIC_FAILED, NOTHING, NOTHING_SCORED, end, incomplete, say
from goldless.cli.output import OUTPUT, Output, tell_spending
from goldless.runs import option_forms as forms
from goldless.runs.option_forms import LINES, REQUIRED, OptionForm, as_tuple, option, split, values
from goldless.runs.options import CRITIC, LABELS, METRICS, MODELS, REVIEWERS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.agreement import Agreement
    from goldless.meta_evaluation.bias import BiasReport
    from goldless.meta_evaluation.calibration import Calibration
    from goldless.meta_evaluation.crash_test import CrashTest
    from goldless.meta_evaluation.perturbations.perturbation import PerturbedStudy
    from goldless.models.interface import ChatModel
    from goldless.studies import Study


@dataclass(frozen=True, kw_only=True)
class Judges:
    scores: Any = option(
        None,
        "File with scores computed elsewhere: metric (optional), task, agent, score. Repeat it for several.",
        "FILE",
        group=METRICS,
        form=forms.SCORES,
    )
    scale: str | None = same(
        "scale", None, "Scale of the reviewers' judgements: pairwise, pairwise-tie, 5-level, 100-level."
    )


def _nothing_compared(found: Agreement) -> tuple[int, str] | None:
    if found.evaluation is not None and found.evaluation.nothing_scored:
        return NOTHING, NOTHING_SCORED
    judges = [judge for one in found.criteria for judge in one.judges]
    compared = [one for judge in judges for one in (judge.accuracy.share, *judge.correlations)]
    none = all(one.value is None for one in compared)
    return (NOTHING, "no response has both a label and a score") if none else None


@dataclass(frozen=True, kw_only=True)
class AgreeOptions(Judges):
    measurement: Literal["auto", "nominal", "ordinal", "interval"] = option(
        "auto", "Level of measurement of the labels, for Krippendorff's alpha.", group=LABELS
    )


@verb(
    *(METRICS, CRITIC, "reviewers", "own_family", LABELS, STATISTICS, MODELS),
    prominent=("metrics", "reviewers", "scores", "recorded", "folder"),
    defaults={"metrics": ()},
    helps={
        "reviewers": "Comma-separated recorded reviewers, or all: each alone, and their equal vote.",
        "criterion": "Label criterion to use (default: each in turn).",
    },
    result_name="agreement",
    exit_status=_nothing_compared,
)
async def agree(study: Study, verb_options: AgreeOptions, options: Options) -> Agreement:
    """Compare metrics, recorded reviewers or external scores with the study's human labels.

    Prints pairwise accuracy and rank correlations with intervals, how far people agree with each other, and which
    metric agrees more with people than which other.

    Examples:
      goldless agree sample --metric rouge-l,length
      goldless agree study/ --metric gem-raw --scores mine.csv --out runs/first
    """
    from goldless.meta_evaluation.agreement import agree as agree_with_people

    return await agree_with_people(study, options, **values(verb_options))


# --- calibrate -------------------------------------------------------------------------------------------------------

NEXT_FILE = "next_labels.csv"


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(Judges):
    labels: Any = option(
        None,
        "File with ratings: task, agent, rater, score (default: the study's labels).",
        "FILE",
        group=LABELS,
        form=OptionForm(Path),
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
        (), "File of an earlier --next: the tasks drawn, with their chances. Repeat it for several, in order.", "FILE"
    )


@verb(
    *(METRICS, CRITIC, "reviewers", "criterion", "baseline", STATISTICS, MODELS),
    excluded=("resamples",),
    prominent=("labels", "metrics", "reviewers", "scores", "next_count", "drawn", "folder"),
    defaults={"metrics": ()},
    helps={
        "metrics": "Comma-separated metrics to predict labels with; of a run folder those it has (default: all).",
        "reviewers": "Comma-separated recorded reviewers to predict labels with, or all.",
        "baseline": "Compare only this agent with each of the others.",
    },
    out=RESULT_FOLDER,
)
async def calibrate(study: Study, verb_options: CalibrateOptions, options: Options) -> Calibration:
    """Estimate agents' scores on the people's scale from labels on some tasks and metrics or reviewers on all.

    Prediction-powered estimates with intervals: valid whatever the metrics are worth, if the labelled tasks are a
    random draw. A task is labelled for all agents or for none.

    Examples:
      goldless calibrate study/ --next 20
      goldless calibrate study/ --labels labels.csv --metric rouge-l,length
      goldless calibrate runs/first --labels labels.csv --next 20 --out runs/calibrated
    """
    from goldless.meta_evaluation.calibration import calibrate as calibrate_to_people

    return await calibrate_to_people(study, options, **values(verb_options))


@calibrate.renderer
def _tell_calibration(found: Calibration, output: Output, *, verb_options: CalibrateOptions, study: Study) -> None:
    from goldless.files import write_text
    from goldless.studies import with_labels

    notes = [] if found.evaluation is None else [*found.evaluation.notes]
    if output.folder is not None:
        labelled = study if verb_options.labels is None else with_labels(study, verb_options.labels)
        output.keep(labelled, "calibrate", "calibration", found)
        if found.next_labels:  # with their chances, which --drawn reads
            write_text(output.folder / NEXT_FILE, found.tables()[-1].to_csv())
            if found.agents:
                notes.append(f"once they are labelled, add --drawn {output.folder / NEXT_FILE} to the next calibration")
    output.tell(found, notes=notes, findings=())
    if found.evaluation is not None and found.evaluation.nothing_scored:
        end(NOTHING, NOTHING_SCORED)


# --- bias ------------------------------------------------------------------------------------------------------------

JUDGED = ("reviewers", "scale", "task_description", "families", "convention", "criterion", "margin")


def _weights(words: Sequence[str]) -> dict[str, float] | None:
    """Weights by reviewer; None: all equal."""
    found = {}
    for item in split(words) if tuple(words) != ("equal",) else ():
        name, _, text = item.rpartition("=")
        try:
            found[name.strip()] = float(text)
        except ValueError:
            found[name.strip()] = math.nan
        if not name.strip() or not math.isfinite(found[name.strip()]):
            raise ValueError(f"NAME=WEIGHT, where a weight is a finite number, got {item!r}")
    return found or None


WEIGHTS = OptionForm(list[str], parse=_weights)


@dataclass(frozen=True, kw_only=True)
class BiasOptions:
    weights: Mapping[str, float] | None = option(
        None,
        "Weight of a reviewer in the panel's vote; others do not vote (default: all equal).",
        "NAME=WEIGHT",
        group=REVIEWERS,
        form=WEIGHTS,
    )
    favours: Sequence[str | tuple[str, str]] = option(
        (),
        "Measure how often FIRST is favoured where people see a tie or prefer SECOND.",
        "FIRST:SECOND",
        form=LINES,
    )
    orders: Literal["each", "together"] = option(
        "each",
        "Count each order of a pair alone, or one vote on both, for --favours.",
        "--count-orders",
        keyword="count_orders",
    )


@verb(
    *(METRICS, CRITIC, *JUDGED, STATISTICS, MODELS),
    prominent=("reviewers", "metrics", "favours", "recorded", "folder"),
    defaults={"metrics": ()},
    helps={
        "reviewers": "Comma-separated recorded reviewers, or chat models to call, MODEL or NAME=MODEL (default: all "
        "recorded ones).",
        "families": "Model family of an agent or reviewer (default: as in the agents table, else its own name).",
    },
    result_name="bias",
    exit_status=lambda found: (
        None if any(row.value is not None for row in found.rows) else (NOTHING, "nothing could be measured")
    ),
)
async def bias(study: Study, verb_options: BiasOptions, options: Options) -> BiasReport:
    """Measure what reviewers and metrics favour besides quality: position, length, markup, their own family, an agent.

    Only biases that the study has data for are shown; the others are listed with the reason.

    Examples:
      goldless bias sample --metric rouge-l,length
      goldless bias study/ --recorded --favours alpha:beta --out runs/first
    """
    from goldless.meta_evaluation.bias import find_bias

    return await find_bias(study, options, **values(verb_options))


# --- crashtest -------------------------------------------------------------------------------------------------------

PERTURB = "Perturbations"
PERTURBATIONS = (
    "deletion, completion, synopsis-only, shuffled-task, null, rephrase, elongation, case-flip, format, padding, "
    "pattern, repetition, verdict-injection, praise, collusion, prompt-copy, deceptive, style-of-all, near-copy, "
    "translation"
)
"""As the help lists them: variants, as in null[TEXT], are in docs/crash_test.md."""
STRATEGIES = "strategic-rewrite, related-shift, standard, brief, null, each also as NAME[peer-review]"
WRITER = "Chat model that writes texts, such as openai:MODEL, for perturbations that need one."
FAILING = {"fail": ("fail",), "not-shown": ("fail", "not shown"), "never": ()}
"""Ratings that end with an exit code of their own."""
LEGEND = (
    "↓: must fall; ≤: must not rise. SMD: standardised change, with its {level:g}% interval, which the rating "
    "follows. -v explains all columns."
)
OVERVIEW = (
    "↓: must fall; ≤: must not rise. Numbers: standardised change (SMD); the rating follows its {level:g}% interval, "
    "which -v shows."
)


def _split(given: Any) -> tuple[str, ...]:
    from goldless.meta_evaluation.perturbations.catalogue import split_names

    return tuple(split_names(given))


@dataclass(frozen=True, kw_only=True)
class Perturbations:
    perturbations: Sequence[str] = option(
        (),
        f"Comma-separated perturbations: {PERTURBATIONS}.",
        "--perturbation NAMES",
        group=PERTURB,
        form=OptionForm(list[str], parse=_split, accept=as_tuple),
        shown="all that need no model",
    )
    writer: str | ChatModel | None = option(None, WRITER, "MODEL")


@dataclass(frozen=True, kw_only=True)
class CrashTestOptions(Perturbations):
    agents: Sequence[str] | None = option(
        None,
        "Comma-separated agents whose responses are perturbed (default: all).",
        "--candidates AGENTS",
        form=forms.ONE_LIST,
    )
    references: int | Sequence[str] = option(
        2, "Peers that a response is compared with: how many, or their names.", "N|AGENTS", form=forms.PEERS
    )
    responses: int = option(300, "Maximum number of responses to perturb, drawn by the seed.", at_least=1)
    margin: float = option(0.2, "Effects shown to be smaller than this count as none.")
    fail_on: Literal["fail", "not-shown", "never"] = option(
        "fail",
        "Exit with code 5 if a metric fails, also if a result is not shown, or never.",
        group=OUTPUT,
        command_only=True,
    )


@verb(
    *(METRICS, CRITIC, "reviewers", STATISTICS, MODELS),
    excluded=("peers", "budget_calls", "recorded"),
    prominent=("metrics", "scorer", "perturbations", "fail_on", "folder"),
    defaults={"metrics": ("shared-info",)},
    out="Write the rating card and changed texts to this folder.",
    questions={
        "--write": "Write a study with perturbed copies of its responses.",
    },
)
async def crashtest(study: Study, verb_options: CrashTestOptions, options: Options) -> CrashTest:
    """Stress-test metrics: degraded responses should score lower, superficially altered ones no higher.

    Custom metrics can be tested too: --metric python:FILE.py:FUNCTION or --metric 'command:WORDS'.

    Examples:
      goldless crashtest answers.csv --metric rouge-l,length
      goldless crashtest answers.csv --metric gem-raw --perturbation deletion,padding
    """
    from goldless.meta_evaluation.crash_test import crash_test

    return await crash_test(
        study, options, **values(verb_options) | {"perturbations": verb_options.perturbations or None}
    )


@crashtest.renderer
def _tell(found: CrashTest, output: Output, *, verb_options: CrashTestOptions) -> None:
    from goldless.meta_evaluation.crash_test import save_crash_test

    if output.folder is not None:
        save_crash_test(found, output.folder)
    notes = [f"missing: {count} × {problem}" for problem, count in found.problems.items()]  # noqa: RUF001 - times
    if found.responses_there_are > found.responses:
        notes.insert(0, f"{found.responses} of {found.responses_there_are} responses were drawn (--responses)")
    failed = [f"{metric} ({card.counts['fail']})" for metric, card in found.metrics.items() if card.counts["fail"]]
    notes += [f"failed: {', '.join(failed)}"] if failed else []
    tables, legend = found.tables(), found.reading if output.with_details else LEGEND.format(level=100 * found.level)
    if len(tables) > 1 and output.shown_as == "rich" and not output.with_details:
        tables, legend = [found.overview()], OVERVIEW.format(level=100 * found.level)
    output.tell(found, holds="card and changed texts", notes=notes, tables=tables, below=(legend,))
    if found.unscored:
        end(NOTHING, f"scored nothing: {', '.join(found.unscored)}")
    if any(result.rating in FAILING[verb_options.fail_on] for result in found.results):
        raise typer.Exit(METRIC_FAILED)


# --- crashtest --write -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PerturbOptions(Perturbations):
    folder: Path = option(REQUIRED, "Write the new study to this folder.", "--write --out FOLDER", group=OUTPUT)
    strategies: Sequence[str] = option(
        (),
        f"Comma-separated agents played by a chat model: {STRATEGIES}.",
        "--strategy NAMES",
        group=PERTURB,
        form=forms.NAMES,
    )
    agents: Sequence[str] | None = option(
        None, "Comma-separated agents whose responses are perturbed (default: all).", "AGENTS", form=forms.NAMES
    )


@verb(
    *("seed", "budget_usd", "on", "journal"),
    prominent=("folder", "perturbations", "strategies", "agents", "writer"),
    helps={"seed": "Seed for shuffles and tags."},
)
async def perturb(study: Study, verb_options: PerturbOptions, options: Options) -> PerturbedStudy:
    """Write a study with perturbed copies of its responses as further agents.

    Example:
      goldless crashtest answers.csv --write perturbed --agents careful --perturbation deletion
    """
    from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE, find_perturbation, find_strategy
    from goldless.meta_evaluation.perturbations.perturbation import perturb_study

    named = verb_options.perturbations or (() if verb_options.strategies else MODEL_FREE)
    made = [*map(find_perturbation, named), *map(find_strategy, verb_options.strategies)]
    return await perturb_study(
        study, verb_options.folder, made, agents=verb_options.agents, writer=verb_options.writer, options=options
    )


@perturb.renderer
def _tell_written(found: PerturbedStudy, output: Output) -> None:
    """Show what was made, and what a reader of the table must know; exit with 3 where calls are open."""
    from goldless.meta_evaluation.perturbations.catalogue import find_perturbation

    report = found.table()
    output.show(found, markdown=lambda: "\n".join(report.markdown_lines()))
    tell_spending(found.spending)
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
