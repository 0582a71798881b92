"""``goldless gre review``: models write reviews of an edition's papers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from goldless.cli.console import ProgressBars, say, tell_spending
from goldless.cli.exit_codes import INCOMPLETE, NOTHING
from goldless.cli.gre.arguments import EditionFolder, asking, given
from goldless.cli.metric_options import (
    ASKED,
    BudgetOption,
    FormatOption,
    JournalOption,
    JsonOption,
    PriceOption,
    names,
)
from goldless.cli.tables import print_tables
from goldless.gre_bench.agent_facts import read_agent_facts
from goldless.gre_bench.edition import open_edition
from goldless.gre_bench.generated_reviews import Generated
from goldless.gre_bench.making import review_edition
from goldless.runs.asking_reviewers import named_reviewers


def review(
    edition: EditionFolder,
    *,
    models: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]MODEL",
            help="Models that review: openai:MODEL, http://…/v1#MODEL, hf:NAME, …, or a name of edition.toml. Repeat "
            "it or separate by commas. All of edition.toml by default.",
            show_default=False,
            rich_help_panel=ASKED,
        ),
    ] = None,
    agents: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What is known of models, as .csv or .jsonl: agent, parameters, family, cutoff_date.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Longest review; a longer one is cut, and so missing.  [dim]\\[default: 4096][/dim]",
            show_default=False,
            rich_help_panel=ASKED,
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Of sampling.  [dim]\\[default: 0][/dim]", show_default=False, rich_help_panel=ASKED
        ),
    ] = None,
    truncate: Annotated[
        bool | None,
        typer.Option(
            "--truncate/--no-truncate",
            help="Cut the end of a paper that does not fit a model's context; else its review is missing.",
            show_default=False,
            rich_help_panel=ASKED,
        ),
    ] = None,
    keep_cut: Annotated[
        bool | None,
        typer.Option(
            "--keep-cut/--no-keep-cut",
            help="Keep a review that reached --max-tokens as far as it goes.",
            show_default=False,
            rich_help_panel=ASKED,
        ),
    ] = None,
    budget: BudgetOption = None,
    price: PriceOption = None,
    journal: JournalOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Have models review the papers of an edition, with prompt C.3 of the GEM paper, side by side.

    Example: goldless gre review iclr2024 --models openai:gpt-4o-mini,local=http://127.0.0.1:8000/v1#llama --budget 5USD
    """
    opened = open_edition(edition)
    chosen = named_reviewers(names(models))
    facts = {} if agents is None else read_agent_facts(agents)
    if unknown := sorted(set(facts) - {*chosen, *opened.config.models}):
        say(f"{agents}: not used, since no model of the edition is called so: {', '.join(unknown)}")
    settings = given(
        max_tokens=max_tokens,
        temperature=temperature,
        truncate=truncate,
        cut=None if keep_cut is None else "keep" if keep_cut else "missing",
    )
    # a bare name of the config means the model that has it there
    new = {name: model for name, model in chosen.items() if name != model or name not in opened.config.models}
    added: dict[str, dict[str, Any]] = {name: {"model": model} for name, model in new.items()}
    for name, known in facts.items():
        if name not in unknown:
            added.setdefault(name, {}).update(known)
    with ProgressBars() as bars:
        asked = asking(budget, price, journal, bars)
        work = partial(review_edition, opened, settings, models=added, only=list(chosen) or None, asking=asked)
        _, generated = anyio.run(work)
    print_tables([generated.table()], "json" if json_only else table, as_json=generated.as_json)
    tell_generated(generated)


def tell_generated(generated: Generated) -> None:
    """Say what it cost and what is missing; exit with 3 where calls are open."""
    tell_spending(generated.spending)
    for kind, message in generated.examples.items():
        say(f"{kind}, for example {message}", style="yellow")
    if generated.incomplete is not None:
        say(generated.incomplete, style="yellow")
        raise typer.Exit(INCOMPLETE)
    if generated.reviews and all(review.text is None for review in generated.reviews):
        say("no review was written", style="red")
        raise typer.Exit(NOTHING)
