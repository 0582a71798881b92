"""``goldless finetune``: train an adapter that makes a scorer predict responses better."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import anyio
import typer

from goldless.cli.console import ProgressBars, say, tell_spending
from goldless.cli.metric_options import (
    ASKED,
    OUTPUT,
    STATISTICS,
    FormatOption,
    JournalOption,
    JsonOption,
    LevelOption,
    ResamplesOption,
    StudyArgument,
    names,
)
from goldless.cli.tables import print_tables
from goldless.finetuning.options import FinetuneOptions, Recipe
from goldless.finetuning.pipeline import RESPONSES, finetune_study
from goldless.finetuning.result import Finetuned
from goldless.finetuning.training_record import RESULT_FILE
from goldless.studies import as_study
from goldless.templates import TEMPLATES

RECIPE = "Recipe (the paper's by default)"
DEFAULTS = Recipe()


def finetune(
    study: StudyArgument,
    *,
    base: Annotated[
        str,
        typer.Option(
            metavar="hf:NAME",
            help="Model to train on: hf:NAME_OR_PATH, or hf:NAME?weights=4bit.",
            rich_help_panel=ASKED,
        ),
    ],
    out_folder: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Folder of the adapter; the same command goes on there with what was begun.",
            rich_help_panel=OUTPUT,
        ),
    ],
    untested_base: Annotated[
        bool,
        typer.Option(
            "--untested-base",
            help="Train even on a base that the canaries would refuse as a scorer.",
            rich_help_panel=ASKED,
        ),
    ] = False,
    template: Annotated[
        str,
        typer.Option(
            help=f"Wording that the adapter will score with: {', '.join(TEMPLATES)}, or FILE.toml.",
            rich_help_panel=ASKED,
        ),
    ] = "general",
    raw: Annotated[
        bool, typer.Option("--raw", help="Train on responses as they are, not on rewrites.", rich_help_panel=ASKED)
    ] = False,
    rewriter: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whose recorded rewrites, where the study carries several.", rich_help_panel=ASKED
        ),
    ] = None,
    synopsis: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Synopsis that gem-s will show; the abstract by default, where tasks have one.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="Agents whose responses are trained on; all by default.", rich_help_panel=ASKED
        ),
    ] = None,
    held_out: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of tasks never trained on.", rich_help_panel=STATISTICS)
    ] = 0.1,
    epochs: Annotated[int, typer.Option(help="Times through all examples.", rich_help_panel=RECIPE)] = DEFAULTS.epochs,
    rank: Annotated[int, typer.Option(help="Rank of the adapter.", rich_help_panel=RECIPE)] = DEFAULTS.rank,
    alpha: Annotated[int, typer.Option(help="Scale of the adapter.", rich_help_panel=RECIPE)] = DEFAULTS.alpha,
    learning_rate: Annotated[
        float, typer.Option(help="Highest learning rate.", rich_help_panel=RECIPE)
    ] = DEFAULTS.learning_rate,
    batch_size: Annotated[
        int, typer.Option(help="Examples computed at once.", rich_help_panel=RECIPE)
    ] = DEFAULTS.batch_size,
    accumulation: Annotated[
        int, typer.Option(help="Batches that make one step.", rich_help_panel=RECIPE)
    ] = DEFAULTS.accumulation,
    max_length: Annotated[
        int, typer.Option(help="Most tokens of an example; longer ones are left out.", rich_help_panel=RECIPE)
    ] = DEFAULTS.max_length,
    seed: Annotated[
        int, typer.Option(help="Seed of draws, training and resampling.", rich_help_panel=RECIPE)
    ] = DEFAULTS.seed,
    save_every: Annotated[
        int, typer.Option(metavar="STEPS", help="Steps from one checkpoint to the next.", rich_help_panel=OUTPUT)
    ] = 50,
    resamples: ResamplesOption = 10_000,
    level: LevelOption = 0.95,
    journal: JournalOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Train an adapter on part of a study and print the log-likelihood of the rest, before and after.

    Example: goldless finetune study/ --base hf:meta-llama/Llama-3.1-8B-Instruct --template peer-review --out tuned
    """
    recipe = Recipe(
        rank=rank,
        alpha=alpha,
        learning_rate=learning_rate,
        epochs=epochs,
        batch_size=batch_size,
        accumulation=accumulation,
        max_length=max_length,
        seed=seed,
    )
    with ProgressBars() as bars:
        options = FinetuneOptions(
            base=base,
            out=out_folder,
            template=template,
            raw=raw,
            rewriter=rewriter,
            synopsis=synopsis,
            agents=None if agents is None else names(agents),
            held_out=held_out,
            recipe=recipe,
            check_base=not untested_base,
            save_every=save_every,
            resamples=resamples,
            level=level,
            journal=journal,
            progress=bars,
            say=say,
        )
        found = anyio.run(finetune_study, as_study(study), options)
    print_tables(found.tables(), "json" if json_only else table, as_json=found.as_json)
    _tell_rest(found, template, out_folder)


def _tell_rest(found: Finetuned, template: str, folder: Path) -> None:
    """Say on standard error what a reader of the table must know, and how the adapter is used."""
    counts = found.counts
    say(
        f"trained on {counts.tasks_trained} tasks ({counts.examples} examples, {counts.tokens:,} tokens predicted) in "
        f"{found.steps} steps; {counts.tasks_held_out} held out"
    )
    if found.resumed_at:
        say(f"went on from the checkpoint at step {found.resumed_at}")
    if counts.tasks_too_few:
        say(f"tasks with fewer than 3 usable responses, left out: {counts.tasks_too_few}", style="yellow")
    if counts.texts_missing:
        say(f"responses without a usable text: {counts.texts_missing}", style="yellow")
    for kind, count in counts.left_out.items():
        say(f"questions that gave no example: {count} {kind}", style="yellow")
    if counts.held_out_texts_seen:
        say(
            f"held-out texts that stand word for word among those trained on: {counts.held_out_texts_seen}; they make "
            "the change look larger",
            style="yellow",
        )
    if counts.held_out_synopses_seen:
        say(
            f"held-out tasks whose synopsis stands word for word among those trained on: "
            f"{counts.held_out_synopses_seen}; they make the change look larger",
            style="yellow",
        )
    missing = sum(row.missing for row in found.held_out if row.term != "difference")
    if missing:
        say(f"held-out log-probabilities that are missing, before or after: {missing}", style="yellow")
    tell_spending(found.spending)
    say(f"adapter: {found.adapter}, result: {folder / RESULT_FILE}")
    _tell_use(found, template)


def _tell_use(found: Finetuned, template: str) -> None:
    """Say how the adapter is used, or that it cannot be."""
    if found.canaries.refused is not None:
        say("goldless score will refuse this adapter: its canaries fail", style="yellow")
        return
    metric = "gem-raw" if found.plan.texts == RESPONSES else "gem"
    say(
        f"score with it: goldless score STUDY --metric {metric} --template {quote(template)} "
        f"--scorer {quote(found.specification)}"
    )
    say("score other tasks than those it was trained on: it has seen their responses")
