"""``goldless watch``: fixed anchors, asked again on every occasion."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goldless.cli.command import same, verb
from goldless.cli.console import CHANGED
from goldless.errors import UserError
from goldless.runs.option_forms import FILE, LEVEL, REQUIRED, TEXT, argument, integer, option, values
from goldless.runs.options import CRITIC, METRICS, MODELS, Options

if TYPE_CHECKING:
    from goldless.apps.watch.watching import WatchReport

NAMES_OF_CHANGED = {"both": "system and judge"}


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    anchors: Any = option(REQUIRED, "Fixed study that is asked on every occasion.", "STUDY", form=TEXT, may_lack=True)
    folder: Path | str = argument("FOLDER", "Folder that keeps the answers of every occasion; created on the first.")
    scale: str = same("scale", "5-level", "Scale of the judge: 5-level, 100-level, pairwise, pairwise-tie.")
    stream: Path | str | None = option(
        None,
        "Scores of the system since the last occasion: a run folder, or a file with score[, task, agent].",
        "PATH",
        group=None,
        form=FILE,
    )
    alpha: float = option(0.05, "Rate of false alarms, however long it runs.", "RATE", group="Watch", form=LEVEL)
    guard: int = option(
        2, "Blame the judge for an alarm of --stream if the anchors raise one within N occasions.", at_least=0
    )
    repeats: int | None = option(
        None,
        "Times to ask each anchor now (default: 4 on the first occasion, then 1).",
        "--times N",
        keyword="times",
        form=integer(1, or_none=True),
    )
    restart: bool = option(
        False, "Compare from this occasion on, once an alarm has been looked into.", "--restart/--no-restart"
    )
    show: bool = option(False, "Show what is known and ask nothing.", "--show/--no-show", group=None)


@verb(
    *(METRICS, CRITIC, "reviewers", "task_description", "seed", MODELS),
    excluded=("recorded", "metric_timeout_seconds"),
    prominent=("anchors", "metrics", "scorer", "reviewers", "stream", "show"),
    defaults={"metrics": ()},
    helps={
        "metrics": "Metric whose scorer or critic is watched, such as gem-raw.",
        "reviewers": "Model that is watched as a judge.",
        "seed": "Seed for ties between equal values; fixed on the first occasion.",
    },
    exit_status=lambda found: (
        found.changed and (CHANGED, f"alarm: {NAMES_OF_CHANGED.get(found.who, found.who)} changed")
    ),
)
async def watch(verb_options: WatchOptions, options: Options) -> WatchReport:
    """Ask fixed anchors again, add the answers to a folder, and say whether the judge or the system changed.

    Run the same command on a schedule, such as cron. Each run is an occasion: it asks again, bypassing the journal; an
    interrupted one is resumed and pays once. Exit code 8: a change was found.

    Examples:
      goldless watch watch/ --anchors sample --metric gem-raw
      goldless watch watch/ --anchors anchors/ --reviewers openai:MODEL --stream runs/tonight
      goldless watch watch/ --show
    """
    from goldless.apps.watch.watching import watch as ask_anchors
    from goldless.apps.watch.watching import watched
    from goldless.studies import as_study

    if verb_options.show:
        return watched(verb_options.folder, guard=verb_options.guard)
    if verb_options.anchors is None:
        raise UserError("--anchors must name a study. Try --anchors sample, or --show to see what is known")
    chosen = options.changed(scale=verb_options.scale)
    return await ask_anchors(as_study(verb_options.anchors), chosen, **values(verb_options, "anchors", "scale", "show"))
