"""``goldless finetune``: train an adapter that makes a scorer predict responses better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from goldless.apps.finetune.options import Recipe
from goldless.cli.command import OUTPUT, same, verb
from goldless.cli.console import say
from goldless.cli.output import Output, tell_spending
from goldless.runs.option_forms import LINES, REQUIRED, TEXT, option, split, values
from goldless.runs.options import METRICS, STATISTICS, Options

if TYPE_CHECKING:
    from goldless.apps.finetune.result import Finetuned
    from goldless.studies import Study

RECIPE = "Training"
DEFAULTS = Recipe()
RECIPE_FIELDS = ("rank", "alpha", "learning_rate", "epochs", "batch_size", "accumulation", "max_length", "seed")


@dataclass(frozen=True, kw_only=True)
class Finetuning:
    """Options of ``finetune``."""

    base: str = option(REQUIRED, "Model to train: hf:NAME_OR_PATH, or hf:NAME?weights=4bit.", "hf:NAME", group=METRICS)
    folder: Path = option(
        REQUIRED, "Write the adapter to this folder; the same command resumes there.", "--out FOLDER", group=OUTPUT
    )
    untested_base: bool = option(False, "Train even if the base model fails the tests of a scorer.", group=METRICS)
    template: str = same(
        "templates", "general", "Prompt wording to train for: general, plain, peer-review, or FILE.toml.", form=TEXT
    )
    raw: bool = option(False, "Train on the responses themselves, not on rewrites.", group=METRICS)
    rewriter: str | None = option(None, "Rewriter whose recorded rewrites are used, if there are several.", "NAME")
    synopsis: str | None = option(
        None, "Synopsis to train with, for gem-s (default: the abstract, if tasks have one).", "NAME"
    )
    agents: Sequence[str] = option(
        (), "Comma-separated agents whose responses are trained on (default: all).", "AGENTS", form=LINES
    )
    held_out: float = option(0.1, "Share of tasks kept for testing.", "SHARE", group=STATISTICS)
    epochs: int = option(DEFAULTS.epochs, "Passes over all examples.", group=RECIPE)
    rank: int = option(DEFAULTS.rank, "Rank of the adapter (LoRA r).")
    alpha: int = option(DEFAULTS.alpha, "Scale of the adapter (LoRA alpha).")
    learning_rate: float = option(DEFAULTS.learning_rate, "Highest learning rate.")
    batch_size: int = option(DEFAULTS.batch_size, "Examples per batch.")
    accumulation: int = option(DEFAULTS.accumulation, "Batches per step.")
    max_length: int = option(DEFAULTS.max_length, "Maximum tokens of an example; longer ones are left out.")
    seed: int = option(DEFAULTS.seed, "Seed for draws, training and resampling.")
    save_every: int = option(50, "Steps between checkpoints.", "STEPS", group=OUTPUT)


@verb(
    *("resamples", "level", "journal"),
    first=("base", "folder", "template", "raw", "agents"),
    averages_samples=True,
)
async def finetune(study: Study, own: Finetuning, options: Options) -> Finetuned:
    """Train an adapter on part of a study and print the log-likelihood of the rest, before and after.

    The defaults are those of the GEM paper.

    Example:
      goldless finetune study/ --base hf:meta-llama/Llama-3.1-8B-Instruct --out tuned
    """
    from goldless.apps.finetune.options import FinetuneOptions
    from goldless.apps.finetune.pipeline import finetune_study

    asked = FinetuneOptions(
        out=own.folder,
        agents=split(own.agents) or None,
        recipe=Recipe(**{name: getattr(own, name) for name in RECIPE_FIELDS}),
        check_base=not own.untested_base,
        **values(own, "folder", "agents", "untested_base", *RECIPE_FIELDS),
        **options.some("resamples", "level", "journal", "progress", "say"),
    )
    return await finetune_study(study, asked)


@finetune.told
def _tell(found: Finetuned, output: Output, *, own: Finetuning) -> None:
    """Report on standard error what a reader of the table must know, and how the adapter is used."""
    from goldless.apps.finetune.training_folder import RESULT_FILE

    output.show(found)
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
    say(f"adapter: {found.adapter}, result: {own.folder / RESULT_FILE}")
    _tell_use(found, own.template)


def _tell_use(found: Finetuned, template: str) -> None:
    """Say how the adapter is used, or that it cannot be."""
    from goldless.apps.finetune.material import RESPONSES

    if found.canaries.refused is not None:
        say("goldless score will refuse this adapter: it fails the tests of a scorer", style="yellow")
        return
    metric = "gem-raw" if found.plan.texts == RESPONSES else "gem"
    say(
        f"score with it: goldless score STUDY --metric {metric} --template {quote(template)} "
        f"--scorer {quote(found.specification)}"
    )
    say("do not score the tasks it was trained on: it has seen their responses")
