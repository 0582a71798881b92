"""``goldless consistency``: whether agents come out in the same order under different scorers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from goldless.cli.console import out, say
from goldless.cli.metric_options import ASKED, Format, FormatOption, JsonOption, metric_options, run_on_study
from goldless.errors import UserError
from goldless.meta_evaluation.consistency import Consistency, compare_scorers, scorer_consistency
from goldless.meta_evaluation.run_scores import read_run_scores
from goldless.runs.options import Options

INCOMPLETE = 3


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
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Print Pearson, Spearman and Kendall's tau-b of agents' scores under two or more scorers, with intervals.

    Example: goldless consistency runs/8b runs/70b, or goldless consistency study/ --scorer embedded --scorer hf:NAME
    """
    if scorer:
        if len(paths) != 1:
            raise UserError(f"with --scorer one study is scored, and {len(paths)} paths came; name the study alone")
        # a specification may hold a comma, so scorers are named one by one
        metrics = options.metrics or ("gem-raw",)
        found = run_on_study(
            scorer_consistency, paths[0], replace(options, metrics=metrics), scorers=tuple(dict.fromkeys(scorer))
        )
    else:
        if len(paths) == 1 and not (Path(paths[0]) / "response_scores.csv").is_file():
            raise UserError(f"{paths[0]}: name at least two scorers with --scorer A --scorer B, or two run folders")
        scored = read_run_scores(paths, metrics=options.metrics)
        found = compare_scorers(scored, seed=options.seed, resamples=options.resamples, level=options.level)
    _print(found, "json" if json_only else table)
    if not found.complete:
        say("incomplete: some scores are missing; run the same command again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)


def _print(found: Consistency, table: Format) -> None:
    if table == "json":
        typer.echo(json.dumps(found.as_json(), ensure_ascii=False, indent=2, allow_nan=False))
        return
    report = found.table()
    if table == "csv":
        typer.echo(report.to_csv(), nl=False)
    elif table == "markdown":
        typer.echo(report.to_markdown())
    else:
        out.print(report.to_rich())
        for name, signature in found.signatures.items():
            out.print(f"{name}: {signature}", markup=False, soft_wrap=True, style="dim")
    for note in dict.fromkeys((*found.notes, *(row.note for row in found.rows if row.note))):
        say(note)
