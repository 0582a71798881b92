"""``goldless perturb``: a study with perturbed copies of its responses as further agents."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import anyio
import typer
from rich.markup import escape

from goldless.cli.console import ProgressBars, say, tell_spending
from goldless.cli.exit_codes import INCOMPLETE
from goldless.cli.metric_options import (
    OUTPUT,
    STATISTICS,
    BudgetOption,
    FormatOption,
    JournalOption,
    JsonOption,
    PriceOption,
    StudyArgument,
    names,
)
from goldless.cli.tables import print_tables
from goldless.meta_evaluation.perturbations.catalogue import (
    MODEL_FREE,
    PERTURBATIONS,
    Perturbation,
    find_perturbation,
    split_names,
)
from goldless.meta_evaluation.perturbations.perturbed_study import PerturbedStudy, perturb_study
from goldless.meta_evaluation.strategies import STRATEGIES, find_strategy
from goldless.models.usage import parse_budget, parse_price
from goldless.runs.options import Options
from goldless.studies import as_study

MADE = "What is made"


def perturb(
    study: StudyArgument,
    *,
    out_folder: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="A new folder for the study.", rich_help_panel=OUTPUT)
    ],
    perturbation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help=f"Repeat it or separate by commas: {escape(', '.join(PERTURBATIONS))}. "
            "By default all that need no model, each in its plain form.",
            rich_help_panel=MADE,
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help=f"Agents that a chat model plays: {escape(', '.join(STRATEGIES))}.",
            rich_help_panel=MADE,
        ),
    ] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="Agents whose responses are perturbed; all by default.", rich_help_panel=MADE
        ),
    ] = None,
    writer: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Chat model that writes: openai:MODEL, http://…/v1#MODEL, …", rich_help_panel=MADE
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of shuffles and tags.", rich_help_panel=STATISTICS)] = 0,
    budget: BudgetOption = None,
    price: PriceOption = None,
    journal: JournalOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Write a study with perturbed copies of its responses as further agents.

    Example: goldless perturb answers.jsonl --out perturbed --agents gpt --perturbation deletion,elongation
    """
    wanted = split_names(perturbation or ())
    strategies = [find_strategy(name) for name in names(strategy)]
    chosen = [find_perturbation(name) for name in wanted or (() if strategies else MODEL_FREE)]
    with ProgressBars() as bars:
        options = Options(
            seed=seed,
            budget_usd=None if budget is None else parse_budget(budget),
            price=None if price is None else parse_price(price),
            journal=journal,
            progress=bars,
            say=say,
        )
        work = partial(
            perturb_study,
            as_study(study),
            out_folder,
            perturbations=chosen,
            strategies=strategies,
            agents=None if agents is None else names(agents),
            writer=writer,
            options=options,
        )
        made = anyio.run(work)
    folder = None if made.folder is None else str(made.folder)
    report = made.table.table()
    print_tables(
        [report],
        "json" if json_only else table,
        as_json=lambda: {**made.table.as_json(), "folder": folder},
        markdown=lambda: "\n".join(report.markdown_lines()),
    )
    _tell_rest(made, chosen)


def _tell_rest(made: PerturbedStudy, perturbations: list[Perturbation]) -> None:
    """Say on standard error what a reader of the table must know; exit with 3 where calls are open."""
    if made.spending is not None:
        tell_spending([made.spending])
    for kind, count in made.failures.items():
        say(f"missing: {count} {kind}, for example: {made.examples[kind]}", style="yellow")
    if made.folder is None:
        say(f"incomplete: texts still open: {made.open}. Nothing was written; run it again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)
    unchanged = sum(row.unchanged for row in made.table.rows)
    if unchanged:
        say(f"left unchanged by their perturbation: {unchanged}; no metric can tell these apart", style="yellow")
    shared = [each.name for each in perturbations if each.scope == "everybody"]
    if shared:
        say(f"{', '.join(shared)}: meant for all responses at once; held against unchanged peers here", style="yellow")
    say(f"study: {made.folder}")
    if not perturbations:
        return
    if made.peers:
        folder, peers = quote(str(made.folder)), quote(",".join(made.peers))
        say(f"score it: goldless score {folder} --peers {peers} --compare-groups original {perturbations[0].kind}")
    else:
        say(
            "every agent was perturbed, so copies would be held against their own originals: perturb some with "
            "--agents and hold them against the others with --peers, or use goldless crashtest",
            style="yellow",
        )
