"""``goldless perturb``: a study with perturbed copies of its responses as further agents."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from goldless.cli.command import OUTPUT, StudyArgument, own, verb
from goldless.cli.console import ProgressBars, incomplete, say
from goldless.cli.output import Output, tell_spending
from goldless.cli.signals import run_async
from goldless.runs.option_forms import split
from goldless.runs.options import CALLING, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.perturbations.perturbation import Perturbation
    from goldless.meta_evaluation.perturbations.perturbed_study import PerturbedStudy

MADE = "What is made"
PERTURBATIONS = (
    "deletion, completion, synopsis-only, shuffled-task, null, rephrase, elongation, case-flip, format, padding, "
    "pattern, repetition, verdict-injection, praise, collusion, prompt-copy, deceptive, style-of-all, near-copy, "
    "translation"
)
"""As the help lists them: variants, as in null[TEXT], are in docs/perturbations.md."""
STRATEGIES = "strategic-rewrite, related-shift, standard, brief, null, each also as NAME[peer-review]"
WRITER = "Chat model that writes texts, such as openai:MODEL"


@verb(
    *("seed", "budget_usd", "price", "on", "journal", *CALLING),
    first=("folder", "perturbation", "strategy", "agents", "writer"),
    helps={"seed": "Seed for shuffles and tags."},
)
def perturb(
    study: StudyArgument,
    *,
    folder: Annotated[Path, own("Write the new study to this folder.", OUTPUT, "--out FOLDER")],
    perturbation: Annotated[
        list[str] | None,
        own(
            f"Comma-separated: {PERTURBATIONS}.",
            MADE,
            "NAMES",
            default="all that need no model",
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None, own(f"Comma-separated agents played by a chat model: {STRATEGIES}.", MADE, "NAMES")
    ] = None,
    agents: Annotated[
        list[str] | None, own("Comma-separated agents whose responses are perturbed (default: all).", MADE, "AGENTS")
    ] = None,
    writer: Annotated[str | None, own(f"{WRITER}.", MADE, "MODEL")] = None,
    options: Options,
    output: Output,
) -> None:
    """Write a study with perturbed copies of its responses as further agents.

    Example:
      goldless perturb answers.csv --out perturbed --agents careful --perturbation deletion
    """
    from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE, find_perturbation, split_names
    from goldless.meta_evaluation.perturbations.perturbed_study import perturb_study
    from goldless.meta_evaluation.strategies import find_strategy
    from goldless.studies import as_study

    wanted = split_names(perturbation or ())
    strategies = [find_strategy(name) for name in split(strategy or ())]
    chosen = [find_perturbation(name) for name in wanted or (() if strategies else MODEL_FREE)]
    with ProgressBars() as bars:
        work = partial(
            perturb_study,
            as_study(study),
            folder,
            perturbations=chosen,
            strategies=strategies,
            agents=None if agents is None else split(agents),
            writer=writer,
            options=replace(options, progress=bars, say=say),
        )
        made = run_async(work)
    report = made.table()
    output.print_tables([report], made.as_json, markdown=lambda: "\n".join(report.markdown_lines()))
    _tell_rest(made, chosen)


def _tell_rest(made: PerturbedStudy, perturbations: list[Perturbation]) -> None:
    """Report on standard error what a reader of the table must know; exit with 3 where calls are open."""
    if made.spending is not None:
        tell_spending([made.spending])
    for kind, count in made.failures.items():
        say(f"missing: {count} {kind}, for example: {made.examples[kind]}", style="yellow")
    if made.folder is None:
        incomplete(f"{made.open} texts are open; nothing was written")
    unchanged = sum(row.unchanged for row in made.rows)
    if unchanged:
        say(
            f"left unchanged by their perturbation: {unchanged}; no metric can distinguish these",
            style="yellow",
        )
    shared = [each.name for each in perturbations if each.scope == "everybody"]
    if shared:
        say(f"{', '.join(shared)}: meant for all responses at once; compared with unchanged peers here", style="yellow")
    say(f"study: {made.folder}")
    if not perturbations:
        return
    if made.peers:
        folder, peers = quote(str(made.folder)), quote(",".join(made.peers))
        say(f"score it: goldless score {folder} --peers {peers} --compare-groups original {perturbations[0].kind}")
    else:
        say(
            "every agent was perturbed, so copies would be compared with their own originals. Perturb some with "
            "--agents and compare them with the others with --peers, or use goldless crashtest",
            style="yellow",
        )
