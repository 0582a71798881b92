"""``goldless crashtest``: whether a metric falls when content is lost, and stays when responses are dressed up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from goldless.cli.console import say, tell_folder, tell_spending
from goldless.cli.exit_codes import INCOMPLETE, METRIC_FAILED, NOTHING
from goldless.cli.metric_options import (
    OUTPUT,
    Format,
    FormatOption,
    JsonOption,
    StudyArgument,
    metric_options,
    names,
    run_on_study,
)
from goldless.cli.tables import print_tables
from goldless.meta_evaluation.crash_design import DEFAULT_REFERENCES, DEFAULT_RESPONSES
from goldless.meta_evaluation.crash_ratings import DEFAULT_MARGIN
from goldless.meta_evaluation.crash_test import CrashOptions, CrashTest, crash_test
from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE, PERTURBATIONS, split_names
from goldless.meta_evaluation.rating_card import (
    card_csv,
    card_json,
    card_markdown,
    card_tables,
    reading,
    save_crash_test,
)
from goldless.runs.options import Options

PERTURB = "Perturbations"
FailOn = Literal["fail", "not-shown", "never"]


@metric_options(leave_out=("peers", "panel", "budget_calls", "recorded"))
def crashtest(
    study: StudyArgument,
    *,
    options: Options,
    perturbation: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Repeat it or separate by commas: {escape(', '.join(PERTURBATIONS))}.  "
            "[dim]\\[default: all that need no model][/dim]",
            show_default=False,
            rich_help_panel=PERTURB,
        ),
    ] = None,
    writer: Annotated[
        str | None,
        typer.Option(help="Chat model for completion, synopsis-only, rephrase.", rich_help_panel=PERTURB),
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            metavar="AGENTS", help="Whose responses are perturbed; everybody's by default.", rich_help_panel=PERTURB
        ),
    ] = None,
    references: Annotated[
        str,
        typer.Option(
            metavar="N|AGENTS",
            help="How many peers a response is held against, or which agents.",
            rich_help_panel=PERTURB,
        ),
    ] = str(DEFAULT_REFERENCES),
    responses: Annotated[
        int, typer.Option(help="Most responses that are perturbed, drawn by the seed.", rich_help_panel=PERTURB)
    ] = DEFAULT_RESPONSES,
    margin: Annotated[
        float,
        typer.Option(help="An effect that is shown not to exceed this counts as none.", rich_help_panel=PERTURB),
    ] = DEFAULT_MARGIN,
    fail_on: Annotated[
        FailOn,
        typer.Option(
            help="End with exit code 5 where a metric fails; where a result is not shown, too; or never.",
            rich_help_panel=OUTPUT,
        ),
    ] = "fail",
    out_folder: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Write card, badges and changed texts here.", rich_help_panel=OUTPUT
        ),
    ] = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Rate metrics: degraded responses must score lower, dressed-up ones must not score higher.

    Any metric can be tested, yours too: --metric python:FILE.py:FUNCTION or --metric 'command:WORDS'.

    Example: goldless crashtest answers.jsonl --metric gem-raw,rouge-l,length --scorer embedded
    """
    crash = CrashOptions(
        perturbations=split_names(perturbation) if perturbation else MODEL_FREE,
        agents=None if candidates is None else names([candidates]),
        references=int(references) if references.strip().isdecimal() else names([references]),
        responses=responses,
        writer=writer,
        margin=margin,
    )
    test = run_on_study(crash_test, study, options, out_folder=out_folder, crash=crash)
    if out_folder is not None:
        save_crash_test(test, out_folder)
    _print(test, "json" if json_only else table)
    _tell(test, out_folder)
    if test.open:
        done = test.asked - test.open
        say(f"incomplete: {done} of {test.asked}; run the same command again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)
    if test.unscored:
        say(f"scored nothing: {', '.join(test.unscored)}", style="red")
        raise typer.Exit(NOTHING)
    bad = {"fail": ("fail",), "not-shown": ("fail", "not shown"), "never": ()}[fail_on]
    if any(result.rating in bad for result in test.results):
        raise typer.Exit(METRIC_FAILED)


def _print(test: CrashTest, shown_as: Format) -> None:
    print_tables(
        card_tables(test),
        shown_as,
        as_json=lambda: card_json(test),
        csv=lambda: card_csv(test),
        markdown=lambda: card_markdown(test),
        below=(reading(test),),
    )


def _tell(test: CrashTest, folder: Path | None) -> None:
    tell_spending(test.spending)
    if test.candidates.of > len(test.candidates.peers):
        say(f"{len(test.candidates.peers)} of {test.candidates.of} responses were drawn; --responses takes more")
    for problem, count in test.problems.items():
        say(f"missing: {count} × {problem}", style="yellow")  # noqa: RUF001 - times
    tell_folder(folder, "card, badges and changed texts")
    failed = {r.metric: test.count(r.metric, "fail") for r in test.results if r.rating == "fail"}
    if failed:
        say("failed: " + ", ".join(f"{metric} ({count})" for metric, count in failed.items()), style="red")
