"""``goldless compare``, ``gate``, ``plan``, ``replay``, ``export``: before a run, after it, between two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from goldless.cli.command import RESULT_FOLDER, same, verb
from goldless.cli.console import BLOCKED, DIFFERENT, INCONCLUSIVE, echo, say
from goldless.cli.output import OUTPUT, Output, plain_table
from goldless.runs.option_forms import (
    FILES,
    LINES,
    METRIC_NAMES,
    ONE_LIST,
    REQUIRED,
    TEXT,
    OptionForm,
    argument,
    option,
    values,
)
from goldless.runs.options import CRITIC, DETECTION, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.comparison.comparing import PairedComparison
    from goldless.comparison.gating import Gate
    from goldless.meta_evaluation.consistency import Consistency
    from goldless.meta_evaluation.cost import CostReport
    from goldless.runs.estimate import Plan
    from goldless.runs.replay import Replay
    from goldless.studies import Study

RUNS: Any = argument("RUN [RUN_B]", "A run folder, or two: before and after the change.", form=FILES)


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    runs: Sequence[Path | str] = RUNS
    agents: Sequence[str] = option(
        (), "Two agents to compare, before and after; one name is the same agent in both runs.", "A,B", form=ONE_LIST
    )
    metrics: Sequence[str] = option(
        (), "Comma-separated metrics of the runs (default: all that both have).", "--metric -m NAMES", form=METRIC_NAMES
    )


@verb(
    STATISTICS,
    prominent=("agents", "metrics"),
    questions={"--rankings": "Compare the ranking of the agents in runs with different scorers."},
)
def compare(verb_options: CompareOptions, options: Options) -> PairedComparison:
    """Compare two agents on common tasks: the difference, its interval, which tasks pull which way, what would decide.

    Scores must be of the same metric and model; differences are second minus first. Calls no model.

    Examples:
      goldless compare runs/pr --agents v1,v2
      goldless compare runs/main runs/pr --agents support-bot
    """
    from goldless.comparison.comparing import compare_runs

    return compare_runs(
        verb_options.runs, **values(verb_options, "runs"), **options.subset("seed", "resamples", "level")
    )


@dataclass(frozen=True, kw_only=True)
class Rankings:
    runs: Sequence[Path | str] = argument("RUN RUN…", "Two or more run folders of one study.", form=FILES)
    metrics: Sequence[str] = option(
        (), "Comma-separated metrics of the runs (default: all that two have).", "--metric -m NAMES", form=METRIC_NAMES
    )


@verb(STATISTICS, prominent=("metrics", "folder"), out=RESULT_FOLDER)
def consistency(verb_options: Rankings, options: Options) -> Consistency:
    """Compare agents' scores in two or more runs: Pearson, Spearman and Kendall's tau-b, with intervals.

    Whatever differs between the runs is compared, such as the scorer. Calls no model.

    Example:
      goldless compare --rankings runs/8b runs/70b
    """
    from goldless.meta_evaluation.consistency import compare_scorers
    from goldless.meta_evaluation.judges import read_run_scores

    scored = read_run_scores(verb_options.runs, metrics=verb_options.metrics)
    return compare_scorers(scored, **options.subset("seed", "resamples", "level"))


@consistency.renderer
def _tell_rankings(found: Consistency, output: Output, *, verb_options: Rankings) -> None:
    output.keep(_study_of(verb_options.runs[0]), "consistency", "consistency", found)
    signatures = [f"{name}: {signature}" for name, signature in found.signatures.items()]
    output.tell(found, signatures=signatures, notes=(note for row in found.rows if (note := row.over_agents.note)))


def _study_of(run: Path | str) -> Study | None:
    """The study of a run folder; None: the folder has no texts."""
    from goldless.studies import read_study

    return read_study(run) if any(Path(run).glob("responses.*")) else None


# --- gate ------------------------------------------------------------------------------------------------------------

CODES = {"SHIP": 0, "BLOCK": BLOCKED, "INCONCLUSIVE": INCONCLUSIVE}


def _writable(path: Path) -> Path:
    """A file to write, refused before anything is paid for it."""
    from goldless.runs.store import try_writing

    try_writing(path.resolve().parent, "Choose another file")
    return path


NEW_FILE = OptionForm(Path, parse=_writable)


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    runs: Sequence[Path | str] = RUNS
    margin: str | float = option(
        REQUIRED,
        "Allow the candidate to be this much worse: in the metric's unit, or in standard deviations of the baseline's "
        "scores, such as 0.2sd.",
        "NUMBER[sd]",
        form=TEXT,
        may_lack=True,
    )
    baseline: str | None = same("baseline", None, "Agent that the candidate is to replace.")
    candidate: str | None = option(
        None, "Agent that may replace it (default: the only other one).", "AGENT", group=None
    )
    metric: str | None = option(None, "Metric that decides.", "--metric -m NAME", shown="the run's only one")
    alpha: float = option(0.05, "Error rate to aim at, for a wrong SHIP and for a wrong BLOCK.")
    aa: int | None = option(
        None, "Ask the run's judge N of its questions a second time, and keep the answers.", group="A/A certificate"
    )
    repeats: Sequence[Path | str] = option(
        (),
        "Run folder with the same questions asked a second time; once per run.",
        "--second-run RUN",
        keyword="second_runs",
    )
    uncertified: bool = option(False, "Decide although the judge was never asked twice.")
    markdown: Path | None = option(
        None, "Write a summary for a pull request.", "FILE", group=OUTPUT, form=NEW_FILE, command_only=True
    )
    junit: Path | None = option(None, "Write the verdict as JUnit XML.", "FILE", form=NEW_FILE, command_only=True)


@verb(
    *("reviewers", "critic", "seed", "resamples", "level", "verdicts", "budget_usd", "price", "on", "journal"),
    prominent=("baseline", "candidate", "metric", "margin", "alpha"),
    helps={
        "reviewers": "Name the run's reviewers, NAME=MODEL, as in the review, for --aa.",
        "critic": "Name the run's critic, for --aa.",
    },
)
async def gate(verb_options: GateOptions, options: Options) -> Gate:
    """Decide whether a candidate may replace the baseline: SHIP, BLOCK or INCONCLUSIVE.

    SHIP: a loss of more than the margin is excluded. BLOCK: it is shown. Otherwise INCONCLUSIVE, with what it would
    take. A score by a judge decides only where the judge repeats itself: see --aa. Exit codes: 0 SHIP, 6 BLOCK,
    7 INCONCLUSIVE.

    Examples:
      goldless gate runs/pr --baseline v1 --candidate v2 --margin 0.2sd
      goldless gate runs/main runs/pr --margin 0.2sd --markdown gate.md --junit gate.xml
    """
    from goldless.comparison.gating import gate_runs

    return await gate_runs(verb_options.runs, options, **values(verb_options, "runs"))


@gate.renderer
def _tell_gate(found: Gate, output: Output, *, verb_options: GateOptions) -> None:
    from goldless.comparison.gating import as_junit, as_markdown

    for path, write in ((verb_options.markdown, as_markdown), (verb_options.junit, as_junit)):
        if path is not None:
            path.write_text(write(found), encoding="utf-8")
    output.tell(found, markdown=lambda: as_markdown(found))
    raise typer.Exit(CODES[found.verdict])


# --- plan ------------------------------------------------------------------------------------------------------------

READING = (
    "calls: distinct calls (a repeated one is taken from the journal); known: already in the journal; tokens: as a "
    "server charges them; computed: with shared beginnings counted once; cost and time: of calls not yet known; "
    "?: unknown."
)


@verb(
    *(METRICS, CRITIC, "reviewers", "seed", DETECTION, "alpha", "at_least", MODELS),
    excluded=("on_too_long", "budget_usd"),
    prominent=("metrics", "scorer", "rewriters", "critic", "recorded"),
    averages_samples=True,
    questions={"--cost": "Show what runs cost, per task, in all, and on more tasks."},
)
async def plan(study: Study, *, options: Options) -> Plan:
    """Estimate calls, tokens, cost and time of a score, for each metric alone and for all together. Calls no model.

    Examples:
      goldless plan answers.csv
      goldless plan answers.csv --metric gem-raw,tvd-mi --critic openai:gpt-4o-mini
      goldless plan answers.csv --detect 0.3
    """
    from goldless.runs.estimate import plan_study

    return await plan_study(study, options)


@plan.renderer
def _tell_plan(found: Plan, output: Output) -> None:
    together = found.together if len({row.metric for row in found.rows}) > 1 else ()
    free = all(row.cost_usd == 0 for row in found.rows)
    calls = plain_table(
        f"Plan for {found.study}",
        map(asdict, (*found.rows, *together)),
        metric=("metric", "text", "all together"),
        part="calls the",
        model=("model", "text", None, 4, True),
        calls=("calls", "count"),
        known=("known", "count", "?"),
        tokens=("tokens", "count"),
        computed_tokens=("computed", "count"),
        cost_usd=("USD", "usd", "?", 4, False, free),
        seconds=("time", "seconds", "?"),
    )
    tables = [replace(calls, apart=len(together))]
    if found.power is not None:
        timeless = all(row.seconds is None for row in found.power.rows)
        deciding = plain_table(
            f"Tasks to detect {found.power.detect:g} standard deviations",
            map(asdict, found.power.rows),
            question="to decide",
            tests=("comparisons", "count"),
            tasks=("tasks", "count", "too many"),
            usd=("USD", "usd", "?", 4, False, free),
            seconds=("time", "seconds", "?", 4, False, timeless),
            tasks_until=("within", "count", "-"),
        )
        tables.append(deciding)
    models = {row.part: row.model for row in found.together}
    nobody = () if found.together else ("No model is called: everything is computed from the study.",)
    below = (*nobody, READING, *(f"{part}: {model}" for part, model in models.items()), *found.notes)
    output.print_tables(tables, lambda: asdict(found), below=below)


@dataclass(frozen=True, kw_only=True)
class CostOptions:
    runs: Sequence[Path | str] = argument("RUN…", "Run folders of scores and reviews.", form=FILES)
    tasks: int = option(10_000, "Also give the cost on N tasks like these.", "--tasks N", at_least=1)


@verb(prominent=("tasks", "folder"), out=RESULT_FOLDER)
def cost(verb_options: CostOptions) -> CostReport:
    """Show what runs cost: calls, tokens and USD of each model, in all, per task, and on more tasks. Calls no model.

    Before a run, goldless plan estimates its cost.

    Examples:
      goldless plan --cost runs/pr
      goldless plan --cost runs/8b runs/70b --tasks 1000
    """
    from goldless.meta_evaluation.cost import run_costs

    return run_costs(verb_options.runs, tasks=verb_options.tasks)


@cost.renderer
def _tell_cost(found: CostReport, output: Output, *, verb_options: CostOptions) -> None:
    from goldless.reports.report_table import usd_text

    output.keep(_study_of(verb_options.runs[0]), "cost", "cost", found)
    notes, total = [], found.total
    if len(found.rows) > 1:
        money, tokens = total.usd, total.tokens
        price = "cost unknown for a part of it" if money is None else f"{usd_text(money)} USD"
        read = "tokens unknown for a part of it" if tokens is None else f"{tokens:,.0f} tokens"
        notes = [f"all of it on {found.tasks:,} tasks: {read}, {price}"]
    output.tell(found, notes=notes)


# --- replay and export -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    run: Path = argument("RUN", "A run folder.")


@verb(exit_status=lambda found: (DIFFERENT, found.sentence) if found.outcome == "different" else None)
async def replay(verb_options: ReplayOptions) -> Replay:
    """Recompute the results of a run folder from its own evidence, and compare them with the recorded ones.

    Calls no model, and runs no code that comes with the folder. Exit code 9: a recomputed value differs.

    Example:
      goldless replay runs/first
    """
    from goldless.runs.replay import replay as replayed

    return await replayed(verb_options.run)


@replay.renderer
def _tell_replay(found: Replay, output: Output) -> None:
    from goldless.runs.replay import SHOWN

    lines = []
    for part in found.parts:
        more, name = len(part.differences) - SHOWN, part.name
        shown = part.differences[:SHOWN]
        lines += [f"{name}: {one.place}: printed {one.printed}, now {one.recomputed}" for one in shown]
        lines += [f"{name}: and {more} more"] * (more > 0)
    output.show(found, below=[*lines, *[found.sentence] * (found.outcome != "different")])


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    exporter: str = argument(
        "FORMAT",
        "Format to write: eee, inspect, markdown, csv, dpo-pairs, schema, jsonl, parquet, or a plugin's.",
    )
    source: str = argument("RUN_OR_STUDY", "A run folder, or a study.")
    path: Path | None = option(
        None, "Write to this file or folder.", "--out PATH", group=OUTPUT, shown="print, if it is one file"
    )
    metric: str | None = option(None, "Metric to export (default: all; dpo-pairs: the first).", "NAME")
    margin: float | None = option(
        None, "Smallest difference between two responses that makes a pair.", group="dpo-pairs"
    )
    decided: bool = option(
        False,
        "Take only pairs of agents whose difference over all tasks is decided, the better one chosen.",
        "--decided/--no-decided",
    )
    scale: str | None = option(None, "Make pairs from judgements on this scale.", "NAME")
    logs: Sequence[str] = option(
        (), "Inspect log that the responses are from. Repeat it for several.", "FILE", group="inspect", form=LINES
    )
    organization: str | None = option(None, "Organization that ran the evaluation.", "NAME", group="eee")
    relationship: str | None = option(
        None, "Evaluator's relation to the models: first_party, third_party, collaborative, other."
    )


@verb(prominent=("path", "metric"))
def export(verb_options: ExportOptions) -> None:
    """Write the scores of a run, or a study, in another tool's format.

    Examples:
      goldless export markdown runs/first
      goldless export eee runs/first --out every_eval_ever
      goldless export dpo-pairs runs/first --margin 20 --out pairs.jsonl
    """
    from goldless.exporting.catalogue import export, exported_text

    given = {
        **values(verb_options, "exporter", "source", "path"),
        "decided": verb_options.decided or None,
        "logs": verb_options.logs or None,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if verb_options.path is None:
        echo(exported_text(verb_options.source, exporter=verb_options.exporter, **options))
    else:
        path = export(verb_options.source, verb_options.path, exporter=verb_options.exporter, **options)
        say(f"{verb_options.exporter}: {path}")
