"""``goldless score``: from a study to a leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from goldless.cli.console import out, say, tell_folder, tell_spending
from goldless.cli.exit_codes import INCOMPLETE, NOTHING
from goldless.cli.metric_options import (
    STATISTICS,
    Format,
    FormatOption,
    JsonOption,
    OutOption,
    StudyArgument,
    metric_options,
    run_on_study,
)
from goldless.cli.tables import print_tables
from goldless.reports.leaderboard import Leaderboard
from goldless.reports.rater_table import RaterTable
from goldless.runs.evaluation import Evaluation
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.store import as_json, save_run


@metric_options()
def score(
    study: StudyArgument,
    *,
    options: Options,
    compare_groups: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="Compare two groups of the agents table: effect sizes and AUC.",
            rich_help_panel=STATISTICS,
        ),
    ] = None,
    out_folder: OutOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Score a study and print the leaderboard with intervals.

    Example: goldless score answers.jsonl --metric gem-raw,tvd-mi --scorer embedded --out runs/first
    """
    options = replace(options, compare_groups=compare_groups)
    evaluation = run_on_study(evaluate_study, study, options, out_folder=out_folder, replaces_evidence=True)
    if out_folder is not None:
        save_run(evaluation, out_folder)
    print_leaderboards(evaluation, "json" if json_only else table)
    tell_rest(evaluation, out_folder)


def print_leaderboards(evaluation: Evaluation, shown_as: Format) -> None:
    """Print every metric's leaderboard on standard output."""
    boards: list[Leaderboard | RaterTable] = [outcome.leaderboard for outcome in evaluation.outcomes.values()]
    if evaluation.raters is not None:
        boards.append(evaluation.raters.table)
    print_tables(
        [board.table(beaten="ranks") if isinstance(board, Leaderboard) else board.table() for board in boards],
        shown_as,
        as_json=lambda: as_json(evaluation),
        csv=lambda: _csv(boards),
        markdown=lambda: _markdown(boards),
        rich=lambda: _print_boards(boards, evaluation),
    )


def _csv(boards: Sequence[Leaderboard | RaterTable]) -> str:
    """One header for all metrics; the table of raters has columns of its own."""
    texts = [board.to_csv() for board in boards]
    return "".join(
        text.split("\n", 1)[1] if i and isinstance(board, Leaderboard) else text
        for i, (board, text) in enumerate(zip(boards, texts, strict=True))
    )


def _markdown(boards: Sequence[Leaderboard | RaterTable]) -> str:
    return "\n".join(f"## {board.metric}\n\n" * (len(boards) > 1) + board.to_markdown() for board in boards)


def _print_boards(boards: Sequence[Leaderboard | RaterTable], evaluation: Evaluation) -> None:
    for board in boards:
        out.print(board.to_rich())
        out.print(board.signature, markup=False, soft_wrap=True, style="dim")
        out.print()
    _print_groups(evaluation)


def _print_groups(evaluation: Evaluation) -> None:
    for outcome in evaluation.outcomes.values():
        groups = outcome.groups
        if groups is None:
            continue
        numbers = {"d_response": groups.d_response, "AUC": groups.auc, "d_task": groups.d_task}
        shown = ", ".join(f"{name} {_three(x)}" for name, x in numbers.items())
        interval = "" if groups.low is None else f" ({_three(groups.low)} … {_three(groups.high)})"
        out.print(
            f"{outcome.metric}: {evaluation.settings.get('groups')}, {groups.n_tasks} tasks: "
            f"difference {_three(groups.difference)}{interval}; {shown}",
            markup=False,
        )


def _three(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def tell_rest(evaluation: Evaluation, folder: Path | None) -> None:
    """Say on standard error what a reader of the table must know; exit with 3 where the run is incomplete."""
    tell_spending(evaluation.spending)
    if evaluation.canaries is not None:
        say(f"numeric noise of a sum: {evaluation.canaries.noise_nats:.1e} nats")
    if evaluation.tasks_without_peers:
        listed = ", ".join(evaluation.tasks_without_peers[:10])
        count = len(evaluation.tasks_without_peers)
        say(f"{count} task{'s' * (count != 1)} answered by fewer than two agents, not scored: {listed}", style="yellow")
    _tell_missing(evaluation)
    tell_folder(folder)
    if not evaluation.complete:
        done = evaluation.asked - evaluation.open
        say(f"incomplete: {done} of {evaluation.asked}; run the same command again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)
    if evaluation.outcomes and all(
        row.score is None for o in evaluation.outcomes.values() for row in o.leaderboard.rows
    ):
        say("nothing could be scored", style="red")
        raise typer.Exit(NOTHING)


def _tell_missing(evaluation: Evaluation) -> None:
    if evaluation.failures:
        causes = ", ".join(f"{count} {kind}" for kind, count in sorted(evaluation.failures.items()))
        say(f"missing: {sum(evaluation.failures.values())} of {evaluation.asked} ({causes})", style="yellow")
        for kind, message in evaluation.examples.items():
            say(f"  {kind}, for example: {message}", style="yellow")
    for outcome in evaluation.outcomes.values():
        for problem, count in outcome.problems.items():
            say(f"{outcome.metric}: {count} responses not scored: {problem}", style="yellow")
