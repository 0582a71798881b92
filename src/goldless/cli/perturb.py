"""``goldless crashtest --write``: a study with perturbed copies of its responses as further agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from goldless.cli.command import OUTPUT, verb
from goldless.cli.console import incomplete, say
from goldless.cli.output import Output, tell_spending
from goldless.runs.option_forms import NAMES, REQUIRED, Form, option, several
from goldless.runs.options import CALLING, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.perturbations.perturbed_study import PerturbedStudy
    from goldless.models.interface import ChatModel
    from goldless.studies import Study


def _split(given: Any) -> tuple[str, ...]:
    from goldless.meta_evaluation.perturbations.catalogue import split_names

    return tuple(split_names(given))


MADE = "What is made"
PERTURBATIONS = (
    "deletion, completion, synopsis-only, shuffled-task, null, rephrase, elongation, case-flip, format, padding, "
    "pattern, repetition, verdict-injection, praise, collusion, prompt-copy, deceptive, style-of-all, near-copy, "
    "translation"
)
"""As the help lists them: variants, as in null[TEXT], are in docs/crash_test.md."""
STRATEGIES = "strategic-rewrite, related-shift, standard, brief, null, each also as NAME[peer-review]"
PERTURBATION_NAMES = Form(list[str], parse=_split, accept=several)
WRITER = "Chat model that writes texts, such as openai:MODEL"


@dataclass(frozen=True, kw_only=True)
class Perturbing:
    """Options of ``perturb``."""

    folder: Path = option(REQUIRED, "Write the new study to this folder.", "--write --out FOLDER", group=OUTPUT)
    perturbations: Sequence[str] = option(
        (),
        f"Comma-separated: {PERTURBATIONS}.",
        "--perturbation NAMES",
        group=MADE,
        form=PERTURBATION_NAMES,
        shown="all that need no model",
    )
    strategies: Sequence[str] = option(
        (), f"Comma-separated agents played by a chat model: {STRATEGIES}.", "--strategy NAMES", form=NAMES
    )
    agents: Sequence[str] | None = option(
        None, "Comma-separated agents whose responses are perturbed (default: all).", "AGENTS", form=NAMES
    )
    writer: str | ChatModel | None = option(None, f"{WRITER}.", "MODEL")


@verb(
    *("seed", "budget_usd", "price", "on", "journal", *CALLING),
    first=("folder", "perturbations", "strategies", "agents", "writer"),
    helps={"seed": "Seed for shuffles and tags."},
)
async def perturb(study: Study, own: Perturbing, options: Options) -> PerturbedStudy:
    """Write a study with perturbed copies of its responses as further agents.

    Example:
      goldless crashtest answers.csv --write perturbed --agents careful --perturbation deletion
    """
    from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE, find_perturbation, find_strategy
    from goldless.meta_evaluation.perturbations.perturbed_study import perturb_study

    return await perturb_study(
        study,
        own.folder,
        [
            *(find_perturbation(name) for name in own.perturbations or (() if own.strategies else MODEL_FREE)),
            *(find_strategy(name) for name in own.strategies),
        ],
        agents=own.agents,
        writer=own.writer,
        options=options,
    )


@perturb.told
def _tell(found: PerturbedStudy, output: Output) -> None:
    """Show what was made, and what a reader of the table must know; exit with 3 where calls are open."""
    from goldless.meta_evaluation.perturbations.catalogue import find_perturbation

    output.show(found, markdown=lambda: "\n".join(found.table().markdown_lines()))
    if found.spending is not None:
        tell_spending([found.spending])
    for kind, count in found.failures.items():
        say(f"missing: {count} {kind}, for example: {found.examples[kind]}", style="yellow")
    if found.folder is None:
        incomplete(f"{found.open} texts are open; nothing was written")
    unchanged = sum(row.unchanged for row in found.rows)
    if unchanged:
        say(f"left unchanged by their perturbation: {unchanged}; no metric can distinguish these", style="yellow")
    perturbations = [find_perturbation(row.name) for row in found.rows if row.must is not None]
    shared = [each.name for each in perturbations if each.scope == "everybody"]
    if shared:
        say(f"{', '.join(shared)}: meant for all responses at once; compared with unchanged peers here", style="yellow")
    say(f"study: {found.folder}")
    if not perturbations:
        return
    if found.peers:
        folder, peers = quote(found.folder), quote(",".join(found.peers))
        say(f"score it: goldless score {folder} --peers {peers} --compare-groups original {perturbations[0].kind}")
    else:
        say(
            "every agent was perturbed, so copies would be compared with their own originals. Perturb some with "
            "--agents and compare them with the others with --peers, or use goldless crashtest",
            style="yellow",
        )
