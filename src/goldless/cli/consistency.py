"""``goldless consistency``: whether agents come out in the same order under different scorers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from goldless.cli.console import say, tell_folder, tell_spending
from goldless.cli.exit_codes import INCOMPLETE
from goldless.cli.metric_options import (
    ASKED,
    FormatOption,
    JsonOption,
    ResultOption,
    metric_options,
    run_on_study,
)
from goldless.cli.tables import print_tables
from goldless.errors import UserError
from goldless.meta_evaluation.consistency import Consistency, compare_scorers, scorer_consistency
from goldless.meta_evaluation.run_scores import read_run_scores
from goldless.runs.options import Options
from goldless.runs.store import save_result
from goldless.studies import Study, as_study, read_study


@metric_options(default=None, leave_out=("recorded",))
def consistency(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="RUN_DIR RUN_DIR … | STUDY", help="Folders of runs of one study; or a study."),
    ],
    *,
    scorer: Annotated[
        list[str] | None,
        typer.Option(help="With a study: score it with each of these; name at least two.", rich_help_panel=ASKED),
    ] = None,
    options: Options,
    out_folder: ResultOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Print Pearson, Spearman and Kendall's tau-b of agents' scores under two or more scorers, with intervals.

    Example: goldless consistency runs/8b runs/70b, or goldless consistency study/ --scorer embedded --scorer hf:NAME
    """
    if scorer:
        source, found = _under_scorers(paths, scorer, options, out_folder)
    else:
        source, found = _of_runs(paths, options)
    report = found.table()
    if out_folder is not None:
        save_result(
            source,
            out_folder,
            verb="consistency",
            name="consistency",
            data=found.as_json(),
            markdown=report.to_markdown(),
            spending=found.spending,
        )
    signatures = [f"{name}: {signature}" for name, signature in found.signatures.items()]
    print_tables([report], "json" if json_only else table, as_json=found.as_json, signatures=signatures)
    _tell(found, out_folder)


def _under_scorers(
    paths: list[str], scorers: list[str], options: Options, out_folder: Path | None
) -> tuple[Study | None, Consistency]:
    """A study, scored with each scorer in turn."""
    if len(paths) != 1:
        raise UserError(f"with --scorer one study is scored, and {len(paths)} paths came; name the study alone")
    study = as_study(paths[0])
    asked = replace(options, metrics=options.metrics or ("gem-raw",))
    # a specification may hold a comma, so scorers are named one by one
    named = tuple(dict.fromkeys(scorers))
    return study, run_on_study(scorer_consistency, study, asked, out_folder=out_folder, scorers=named)


def _of_runs(paths: list[str], options: Options) -> tuple[Study | None, Consistency]:
    """Runs that are there, and their study where the first holds its texts."""
    if len(paths) == 1 and not (Path(paths[0]) / "response_scores.csv").is_file():
        raise UserError(f"{paths[0]}: name at least two scorers with --scorer A --scorer B, or two run folders")
    scored = read_run_scores(paths, metrics=tuple(map(str, options.metrics)))
    study = read_study(paths[0]) if any(Path(paths[0]).glob("responses.*")) else None
    return study, compare_scorers(scored, seed=options.seed, resamples=options.resamples, level=options.level)


def _tell(found: Consistency, folder: Path | None) -> None:
    """Say the rest on standard error; exit with 3 where scores are missing."""
    for note in dict.fromkeys((*found.notes, *(row.note for row in found.rows if row.note))):
        say(note)
    tell_spending(found.spending)
    tell_folder(folder, "result")
    if not found.complete:
        say("incomplete: some scores are missing; run the same command again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)
