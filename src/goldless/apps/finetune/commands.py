"""``goldless finetune``: train an adapter that makes a scorer predict responses better."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from goldless.apps.finetune.options import FinetuneOptions
from goldless.cli.command import verb
from goldless.cli.console import say
from goldless.cli.output import Output, tell_spending
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.apps.finetune.result import Finetuned
    from goldless.studies import Study


@verb(
    *("resamples", "level", "journal"),
    prominent=("base", "folder", "template", "raw", "agents"),
    averages_samples=True,
)
async def finetune(study: Study, verb_options: FinetuneOptions, options: Options) -> Finetuned:
    """Train an adapter on part of a study and print the log-likelihood of the rest, before and after.

    The defaults are those of the GEM paper.

    Example:
      goldless finetune study/ --base hf:meta-llama/Llama-3.1-8B-Instruct --out tuned
    """
    from goldless.apps.finetune.pipeline import finetune_study

    return await finetune_study(study, verb_options, options)


@finetune.renderer
def _tell(found: Finetuned, output: Output, *, verb_options: FinetuneOptions) -> None:
    """Report on standard error what a reader of the table must know, and how the adapter is used."""
    from goldless.apps.finetune.result import RESULT_FILE

    output.show(found)
    counts = found.counts
    say(
        f"trained on {counts.tasks_trained} tasks ({counts.examples} examples, {counts.tokens:,} tokens predicted) in "
        f"{found.training.steps} steps; {counts.tasks_held_out} held out"
    )
    if found.training.resumed_at:
        say(f"resumed from the checkpoint at step {found.training.resumed_at}")
    for warning in counts.warnings:
        say(warning, style="yellow")
    if missing := sum(row.missing for row in found.held_out if row.term != "difference"):
        say(f"held-out log-probabilities that are missing, before or after: {missing}", style="yellow")
    tell_spending(found.spending)
    say(f"adapter: {found.adapter}, result: {verb_options.folder / RESULT_FILE}")
    if found.canaries.refused is not None:
        say("goldless score will refuse this adapter: it fails the tests of a scorer", style="yellow")
        return
    say(
        f"score with it: goldless score STUDY --metric {'gem-raw' if verb_options.raw else 'gem'} "
        f"--template {quote(verb_options.template)} --scorer {quote(found.specification)}"
    )
    say("do not score the tasks it was trained on: it has seen their responses")
