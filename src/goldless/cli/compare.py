"""``goldless compare``: two agents of one run or of two; ``--rankings``: agents' scores under different scorers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goldless.cli.command import RESULT_FOLDER, same, verb
from goldless.cli.console import incomplete
from goldless.cli.output import Output
from goldless.errors import UserError
from goldless.runs.option_forms import FILES, LINES, METRIC_NAMES, ONE_LIST, argument, option, values
from goldless.runs.options import CRITIC, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.comparison.comparing import PairedComparison
    from goldless.meta_evaluation.consistency import Consistency
    from goldless.models.interface import Scorer

RUNS: Any = argument("RUN [RUN_B]", "A run folder, or two: before and after the change.", form=FILES)


@dataclass(frozen=True, kw_only=True)
class Comparing:
    """Options of ``compare``."""

    runs: Sequence[Path | str] = RUNS
    agents: Sequence[str] = option(
        (), "The two agents to compare, before and after; one name is meant in both runs.", "A,B", form=ONE_LIST
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
class Scorers:
    """Options of ``compare --rankings``."""

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
async def consistency(own: Scorers, options: Options) -> Consistency:
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
def _tell(found: Consistency, output: Output, *, own: Scorers) -> None:
    from goldless.studies import as_study

    if output.folder is not None:
        first = Path(own.paths[0])
        with_texts = first.is_file() or not first.exists() or any(first.glob("responses.*"))
        output.keep(as_study(own.paths[0]) if with_texts else None, "consistency", "consistency", found)
    signatures = [f"{name}: {signature}" for name, signature in found.signatures.items()]
    output.tell(found, signatures=signatures, notes=(row.note for row in found.rows if row.note))
    if not found.complete:
        incomplete("some scores are missing")
