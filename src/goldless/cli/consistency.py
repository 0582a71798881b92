"""``goldless consistency``: whether agents are ranked alike under different scorers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goldless.cli.command import RESULT_FOLDER, like, verb
from goldless.cli.console import incomplete, say
from goldless.cli.output import Output, tell_spending
from goldless.errors import UserError
from goldless.runs.options import CRITIC, METRICS, MODELS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.consistency import Consistency
    from goldless.studies import Study


@verb(
    *(METRICS, CRITIC, STATISTICS, MODELS),
    without=("recorded",),
    first=("metrics", "scorer", "out_folder"),
    usual={"metrics": ()},
    out=RESULT_FOLDER,
)
def consistency(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="RUNS… | STUDY", help="Two or more run folders of one study, or a study."),
    ],
    *,
    scorer: Annotated[
        list[str] | None, like("scorer", "With a study: scorer to use. Repeat it; at least two are needed.")
    ] = None,
    options: Options,
    output: Output,
) -> None:
    """Compare agents' scores under two or more scorers: Pearson, Spearman and Kendall's tau-b, with intervals.

    Examples:
      goldless consistency runs/8b runs/70b
      goldless consistency answers.csv --scorer embedded --scorer hf:NAME
    """
    source, found = _under_scorers(paths, scorer, options, output) if scorer else _of_runs(paths, options)
    output.keep(source, "consistency", found, found.table().to_markdown, spending=found.spending)
    output.show(found, signatures=[f"{name}: {signature}" for name, signature in found.signatures.items()])
    for note in dict.fromkeys((*found.notes, *(row.note for row in found.rows if row.note))):
        say(note)
    tell_spending(found.spending)
    output.tell_folder()
    if not found.complete:
        incomplete("some scores are missing")


def _under_scorers(
    paths: list[str], scorers: list[str], options: Options, output: Output
) -> tuple[Study | None, Consistency]:
    """A study, scored with each scorer in turn."""
    from goldless.meta_evaluation.consistency import scorer_consistency
    from goldless.studies import as_study

    if len(paths) != 1:
        raise UserError(f"with --scorer, give one study, got {len(paths)} paths")
    study = as_study(paths[0])
    asked = replace(options, metrics=options.metrics or ("gem-raw",))
    # a specification may hold a comma, so scorers are named one by one
    return study, output.run(scorer_consistency, study, asked, scorers=tuple(dict.fromkeys(scorers)))


def _of_runs(paths: list[str], options: Options) -> tuple[Study | None, Consistency]:
    """Existing runs, and their study if the first has its texts."""
    from goldless.meta_evaluation.consistency import compare_scorers
    from goldless.meta_evaluation.judges import read_run_scores
    from goldless.studies import read_study

    if len(paths) == 1 and not (Path(paths[0]) / "response_scores.csv").is_file():
        raise UserError(f"{paths[0]}: one study needs two scorers. Try --scorer A --scorer B, or give two run folders")
    scored = read_run_scores(paths, metrics=tuple(map(str, options.metrics)))
    study = read_study(paths[0]) if any(Path(paths[0]).glob("responses.*")) else None
    return study, compare_scorers(scored, seed=options.seed, resamples=options.resamples, level=options.level)
