"""``goldless finetune``: train an adapter that makes a scorer predict responses better."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from goldless.cli.command import OUTPUT, StudyArgument, like, own, verb
from goldless.cli.console import ProgressBars, say
from goldless.cli.output import Output, tell_spending
from goldless.cli.signals import run_async
from goldless.finetuning.options import Recipe
from goldless.runs.option_forms import split
from goldless.runs.options import METRICS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.finetuning.result import Finetuned

RECIPE = "Training"
DEFAULTS = Recipe()


@verb("resamples", "level", "journal", first=("base", "folder", "template", "raw", "agents"))
def finetune(
    study: StudyArgument,
    *,
    base: Annotated[str, own("Model to train: hf:NAME_OR_PATH, or hf:NAME?weights=4bit.", METRICS, "hf:NAME")],
    folder: Annotated[
        Path,
        own("Write the adapter to this folder; the same command resumes there.", OUTPUT, "--out FOLDER"),
    ],
    untested_base: Annotated[
        bool, own("Train even if the base model fails the tests of a scorer.", METRICS, "--untested-base")
    ] = False,
    template: Annotated[
        str, like("templates", "Prompt wording to train for: general, plain, peer-review, or FILE.toml.")
    ] = "general",
    raw: Annotated[bool, own("Train on the responses themselves, not on rewrites.", METRICS, "--raw")] = False,
    rewriter: Annotated[
        str | None, own("Rewriter whose recorded rewrites are used, if there are several.", METRICS, "NAME")
    ] = None,
    synopsis: Annotated[
        str | None,
        own("Synopsis to train with, for gem-s (default: the abstract, if tasks have one).", METRICS, "NAME"),
    ] = None,
    agents: Annotated[
        list[str] | None,
        own("Comma-separated agents whose responses are trained on (default: all).", METRICS, "AGENTS"),
    ] = None,
    held_out: Annotated[float, own("Share of tasks kept for testing.", STATISTICS, "SHARE")] = 0.1,
    epochs: Annotated[int, own("Passes over all examples.", RECIPE)] = DEFAULTS.epochs,
    rank: Annotated[int, own("Rank of the adapter (LoRA r).", RECIPE)] = DEFAULTS.rank,
    alpha: Annotated[int, own("Scale of the adapter (LoRA alpha).", RECIPE)] = DEFAULTS.alpha,
    learning_rate: Annotated[float, own("Highest learning rate.", RECIPE)] = DEFAULTS.learning_rate,
    batch_size: Annotated[int, own("Examples per batch.", RECIPE)] = DEFAULTS.batch_size,
    accumulation: Annotated[int, own("Batches per step.", RECIPE)] = DEFAULTS.accumulation,
    max_length: Annotated[
        int, own("Maximum tokens of an example; longer ones are left out.", RECIPE)
    ] = DEFAULTS.max_length,
    seed: Annotated[int, own("Seed for draws, training and resampling.", RECIPE)] = DEFAULTS.seed,
    save_every: Annotated[int, own("Steps between checkpoints.", OUTPUT, "STEPS")] = 50,
    options: Options,
    output: Output,
) -> None:
    """Train an adapter on part of a study and print the log-likelihood of the rest, before and after.

    The defaults are those of the GEM paper.

    Example:
      goldless finetune study/ --base hf:meta-llama/Llama-3.1-8B-Instruct --out tuned
    """
    from goldless.finetuning.options import FinetuneOptions
    from goldless.finetuning.pipeline import finetune_study
    from goldless.studies import as_study

    with ProgressBars() as bars:
        asked = FinetuneOptions(
            base=base,
            out=folder,
            template=template,
            raw=raw,
            rewriter=rewriter,
            synopsis=synopsis,
            agents=None if agents is None else split(agents),
            held_out=held_out,
            recipe=Recipe(
                rank=rank,
                alpha=alpha,
                learning_rate=learning_rate,
                epochs=epochs,
                batch_size=batch_size,
                accumulation=accumulation,
                max_length=max_length,
                seed=seed,
            ),
            check_base=not untested_base,
            save_every=save_every,
            resamples=options.resamples,
            level=options.level,
            journal=options.journal,
            progress=bars,
            say=say,
        )
        found = run_async(finetune_study, as_study(study), asked)
    output.print_tables(found.tables(), found.as_json)
    _tell_rest(found, template, folder)


def _tell_rest(found: Finetuned, template: str, folder: Path) -> None:
    """Report on standard error what a reader of the table must know, and how the adapter is used."""
    counts = found.counts
    say(
        f"trained on {counts.tasks_trained} tasks ({counts.examples} examples, {counts.tokens:,} tokens predicted) in "
        f"{found.steps} steps; {counts.tasks_held_out} held out"
    )
    if found.resumed_at:
        say(f"resumed from the checkpoint at step {found.resumed_at}")
    if counts.tasks_too_few:
        say(f"tasks with fewer than 3 usable responses, left out: {counts.tasks_too_few}", style="yellow")
    if counts.texts_missing:
        say(f"responses without a usable text: {counts.texts_missing}", style="yellow")
    for kind, count in counts.left_out.items():
        say(f"questions that gave no example: {count} {kind}", style="yellow")
    if counts.held_out_texts_seen:
        say(
            f"{counts.held_out_texts_seen} test texts also occur word for word in training; they make the change look "
            "larger",
            style="yellow",
        )
    if counts.held_out_synopses_seen:
        say(
            f"the synopses of {counts.held_out_synopses_seen} test tasks also occur word for word in training; they "
            "make the change look larger",
            style="yellow",
        )
    missing = sum(row.missing for row in found.held_out if row.term != "difference")
    if missing:
        say(f"held-out log-probabilities that are missing, before or after: {missing}", style="yellow")
    tell_spending(found.spending)
    from goldless.finetuning.training_folder import RESULT_FILE

    say(f"adapter: {found.adapter}, result: {folder / RESULT_FILE}")
    _tell_use(found, template)


def _tell_use(found: Finetuned, template: str) -> None:
    """Say how the adapter is used, or that it cannot be."""
    from goldless.finetuning.material import RESPONSES

    if found.canaries.refused is not None:
        say("goldless score will refuse this adapter: it fails the tests of a scorer", style="yellow")
        return
    metric = "gem-raw" if found.plan.texts == RESPONSES else "gem"
    say(
        f"score with it: goldless score STUDY --metric {metric} --template {quote(template)} "
        f"--scorer {quote(found.specification)}"
    )
    say("do not score the tasks it was trained on: it has seen their responses")
