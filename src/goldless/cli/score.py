"""``goldless score``: from a study to a leaderboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import anyio
import typer

from goldless.cli.console import ProgressBars, out, say
from goldless.errors import UserError
from goldless.models.usage import parse_budget, parse_price
from goldless.runs.evaluation import Evaluation
from goldless.runs.pipeline import METRICS, Options, evaluate_study
from goldless.runs.store import as_json, check_writable, save_run
from goldless.studies import as_study
from goldless.templates import TEMPLATES

INCOMPLETE = 3
Format = Literal["rich", "csv", "json", "markdown"]
OnTooLong = Literal["error", "skip"]


def score(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A study folder, or one file with task, agent, text.")],
    *,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help=f"Repeat it or separate by commas: {', '.join(METRICS)}."),
    ] = None,
    scorer: Annotated[
        str, typer.Option(help="Model that gives log-probabilities: embedded, gguf:PATH, hf:NAME, http://…/v1#MODEL.")
    ] = "embedded",
    rewriter: Annotated[
        str | None, typer.Option(help="Chat model that preprocesses for gem: openai:MODEL, http://…/v1#MODEL, …")
    ] = None,
    template: Annotated[str, typer.Option(help=f"Prompt wording: {', '.join(TEMPLATES)}.")] = "general",
    out_folder: Annotated[
        Path | None, typer.Option("--out", metavar="RUN_DIR", help="Write results and evidence into this folder.")
    ] = None,
    table: Annotated[Format, typer.Option("--format", help="How to print the leaderboard.")] = "rich",
    json_only: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of resampling and tests.")] = 0,
    resamples: Annotated[int, typer.Option(help="Resamples of tasks for intervals and tests.")] = 10_000,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    on_too_long: Annotated[
        OnTooLong, typer.Option(help="A text that does not fit the scorer's context: stop, or count it as missing.")
    ] = "error",
    budget: Annotated[str | None, typer.Option(metavar="USD", help="Stop before this is exceeded, e.g. 2USD.")] = None,
    price: Annotated[
        str | None, typer.Option(metavar="IN,OUT", help="USD per million tokens, for a model whose price is unknown.")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Journal file; by default one for all your runs.", show_default=False)
    ] = None,
) -> None:
    """Score a study and print the leaderboard with intervals.

    Example: goldless score answers.jsonl --metric gem-raw --scorer embedded --out runs/first
    """
    names = [name.strip() for item in metric or ["gem-raw"] for name in item.split(",") if name.strip()]
    with ProgressBars() as bars:
        options = Options(
            metrics=tuple(dict.fromkeys(names)),
            scorer=scorer,
            rewriter=rewriter,
            template=template,
            seed=seed,
            resamples=resamples,
            level=level,
            on_too_long=on_too_long,
            budget_usd=None if budget is None else parse_budget(budget),
            price=None if price is None else parse_price(price),
            journal=journal,
            progress=bars,
            say=say,
        )
        if out_folder is not None:
            check_writable(out_folder)
        evaluation = anyio.run(evaluate_study, as_study(study), options)
    if out_folder is not None:
        save_run(evaluation, out_folder)
    print_leaderboards(evaluation, "json" if json_only else table)
    tell_rest(evaluation, out_folder)


def print_leaderboards(evaluation: Evaluation, table: Format) -> None:
    """Print every metric's leaderboard on standard output."""
    if table == "json":
        typer.echo(json.dumps(as_json(evaluation), ensure_ascii=False, indent=2))
        return
    for outcome in evaluation.outcomes.values():
        board = outcome.leaderboard
        if table == "rich":
            out.print(board.to_rich())
            out.print(board.signature, markup=False, soft_wrap=True, style="dim")
            out.print()
        elif table == "csv":
            typer.echo(board.to_csv(), nl=False)
        elif table == "markdown":
            typer.echo(board.to_markdown())
        else:
            raise UserError(f"unknown format {table!r}")


def tell_rest(evaluation: Evaluation, folder: Path | None) -> None:
    """Say on standard error what a reader of the table must know; exit with 3 where the run is incomplete."""
    for row in evaluation.spending:
        cost = "price unknown" if row.cost_usd is None else f"{row.cost_usd:.4f} USD"
        tokens = row.usage.input_tokens + row.usage.output_tokens
        say(f"{row.model}: {row.calls} calls now ({tokens:,} tokens, {cost}), {row.reused} from the journal")
    if evaluation.canaries is not None:
        say(f"numeric noise of a sum: {evaluation.canaries.noise_nats:.1e} nats")
    if evaluation.tasks_without_peers:
        names = ", ".join(evaluation.tasks_without_peers[:10])
        count = len(evaluation.tasks_without_peers)
        say(f"{count} task{'s' * (count != 1)} answered by fewer than two agents, not scored: {names}", style="yellow")
    if evaluation.failures:
        causes = ", ".join(f"{count} {kind}" for kind, count in sorted(evaluation.failures.items()))
        say(f"missing: {sum(evaluation.failures.values())} of {evaluation.asked} ({causes})", style="yellow")
    if folder is not None:
        say(f"results and evidence: {folder}")
    if not evaluation.complete:
        done = evaluation.asked - evaluation.open
        say(f"incomplete: {done} of {evaluation.asked}; run the same command again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)
