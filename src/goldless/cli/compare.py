"""``goldless compare``: two agents of one run or of two, or rankings under different scorers; ``gate``: SHIP or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from goldless.cli.command import RESULT_FOLDER, same, verb
from goldless.cli.console import BLOCKED, INCONCLUSIVE, incomplete
from goldless.cli.output import OUTPUT, Output
from goldless.errors import UserError
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
from goldless.runs.options import CALLING, CRITIC, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.comparison.comparing import PairedComparison
    from goldless.comparison.gating import Gate
    from goldless.meta_evaluation.consistency import Consistency
    from goldless.models.interface import Scorer

RUNS: Any = argument("RUN [RUN_B]", "A run folder, or two: before and after the change.", form=FILES)


@dataclass(frozen=True, kw_only=True)
class Comparing:
    runs: Sequence[Path | str] = RUNS
    agents: Sequence[str] = option(
        (), "Two agents to compare, before and after; one name is the same agent in both runs.", "A,B", form=ONE_LIST
    )
    metrics: Sequence[str] = option(
        (), "Comma-separated metrics of the runs (default: all that both have).", "--metric -m NAMES", form=METRIC_NAMES
    )


@verb(
    STATISTICS,
    first=("agents", "metrics"),
    questions={"--rankings": "Compare the ranking of the agents under different scorers."},
)
def compare(own: Comparing, options: Options) -> PairedComparison:
    """Compare two agents on common tasks: the difference, its interval, which tasks pull which way, what would decide.

    Scores must be of the same metric and model; differences are second minus first. Calls no model.

    Examples:
      goldless compare runs/pr --agents v1,v2
      goldless compare runs/main runs/pr --agents support-bot
    """
    from goldless.comparison.comparing import compare_runs

    return compare_runs(own.runs, **values(own, "runs"), **options.some("seed", "resamples", "level"))


@dataclass(frozen=True, kw_only=True)
class Rankings:
    paths: Sequence[Any] = argument("RUNS… | STUDY", "Two or more run folders of one study, or a study.", form=LINES)
    scorers: Sequence[str | Scorer] = same(
        "scorer", (), "With a study: scorer to use. Repeat it; at least two are needed.", form=LINES
    )


@verb(
    *(METRICS, CRITIC, STATISTICS, MODELS),
    without=("scorer", "recorded"),
    first=("metrics", "scorers", "folder"),
    usual={"metrics": ()},
    out=RESULT_FOLDER,
)
async def consistency(own: Rankings, options: Options) -> Consistency:
    """Compare agents' scores under two or more scorers: Pearson, Spearman and Kendall's tau-b, with intervals.

    Examples:
      goldless compare --rankings runs/8b runs/70b
      goldless compare --rankings answers.csv --scorer embedded --scorer hf:NAME
    """
    from goldless.meta_evaluation.consistency import compare_scorers, scorer_consistency
    from goldless.meta_evaluation.judges import read_run_scores
    from goldless.studies import as_study

    if own.scorers:
        if len(own.paths) != 1:
            raise UserError(f"with --scorer, give one study, got {len(own.paths)} paths")
        asked = replace(options, metrics=options.metrics or ("gem-raw",))
        # a specification may hold a comma, so scorers are named one by one
        return await scorer_consistency(as_study(own.paths[0]), asked, scorers=tuple(dict.fromkeys(own.scorers)))
    if len(own.paths) == 1 and not (Path(own.paths[0]) / "response_scores.csv").is_file():
        raise UserError(
            f"{own.paths[0]}: one study needs two scorers. Try --scorer A --scorer B, or give two run folders"
        )
    scored = read_run_scores(own.paths, metrics=tuple(map(str, options.metrics)))
    return compare_scorers(scored, seed=options.seed, resamples=options.resamples, level=options.level)


@consistency.told
def _tell_rankings(found: Consistency, output: Output, *, own: Rankings) -> None:
    from goldless.studies import as_study

    if output.folder is not None:
        first = Path(own.paths[0])
        with_texts = first.is_file() or not first.exists() or any(first.glob("responses.*"))
        output.keep(as_study(own.paths[0]) if with_texts else None, "consistency", "consistency", found)
    signatures = [f"{name}: {signature}" for name, signature in found.signatures.items()]
    output.tell(found, signatures=signatures, notes=(row.note for row in found.rows if row.note))
    if not found.complete:
        incomplete("some scores are missing")


# --- gate ------------------------------------------------------------------------------------------------------------

CODES = {"SHIP": 0, "BLOCK": BLOCKED, "INCONCLUSIVE": INCONCLUSIVE}


def _writable(path: Path) -> Path:
    """A file to write, refused before anything is paid for it."""
    from goldless.runs.store import try_writing

    try_writing(path.resolve().parent, "Choose another file")
    return path


NEW_FILE = OptionForm(Path, parse=_writable)


@dataclass(frozen=True, kw_only=True)
class Gating:
    runs: Sequence[Path | str] = RUNS
    margin: str | float = option(
        REQUIRED,
        "How much worse the candidate may be: in the metric's unit, or in standard deviations of the baseline's "
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
    alpha: float = option(0.05, "Error rate to aim at: of a wrong SHIP, and of a wrong BLOCK.")
    aa: int | None = option(
        None, "Ask the run's judge N of its questions a second time, and keep the answers.", group="A/A certificate"
    )
    repeats: Sequence[Path | str] = option(
        (),
        "Run folder with the same questions asked a second time; once per run.",
        "--second-run RUN",
        keyword="second_runs",
        old="--repeats",
    )
    uncertified: bool = option(False, "Decide although the judge was never asked twice.")
    markdown: Path | None = option(
        None, "Write a summary for a pull request.", "FILE", group=OUTPUT, form=NEW_FILE, command_only=True
    )
    junit: Path | None = option(None, "Write the verdict as JUnit XML.", "FILE", form=NEW_FILE, command_only=True)


@verb(
    *("reviewers", "critic", "seed", "resamples", "level", "verdicts", "budget_usd", "price", "on", "journal"),
    *CALLING,
    first=("baseline", "candidate", "metric", "margin", "alpha"),
    helps={
        "reviewers": "With --aa: the run's reviewers, NAME=MODEL, as in the review.",
        "critic": "With --aa: the run's critic.",
    },
)
async def gate(own: Gating, options: Options) -> Gate:
    """Decide whether a candidate may replace the baseline: SHIP, BLOCK or INCONCLUSIVE.

    SHIP: a loss of more than the margin is excluded. BLOCK: it is shown. Otherwise INCONCLUSIVE, with what it would
    take. A score by a judge decides only where the judge repeats itself: see --aa. Exit codes: 0 SHIP, 6 BLOCK,
    7 INCONCLUSIVE.

    Examples:
      goldless gate runs/pr --baseline v1 --candidate v2 --margin 0.2sd
      goldless gate runs/main runs/pr --margin 0.2sd --markdown gate.md --junit gate.xml
    """
    from goldless.comparison.gating import gate_runs

    return await gate_runs(own.runs, options, **values(own, "runs"))


@gate.told
def _tell_gate(found: Gate, output: Output, *, own: Gating) -> None:
    from goldless.comparison.gating import as_junit, as_markdown

    for path, write in ((own.markdown, as_markdown), (own.junit, as_junit)):
        if path is not None:
            path.write_text(write(found), encoding="utf-8")
    output.tell(found, markdown=lambda: as_markdown(found))
    raise typer.Exit(CODES[found.verdict])
