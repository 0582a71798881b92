"""``goldless watch``: whether a judge, a scorer or the system behind it changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goldless.cli.command import same, verb
from goldless.cli.console import CHANGED, end
from goldless.cli.output import Output
from goldless.errors import UserError
from goldless.runs.option_forms import FILE, REQUIRED, TEXT, argument, option, values, whole
from goldless.runs.options import CRITIC, METRICS, MODELS, Options

if TYPE_CHECKING:
    from goldless.meta_evaluation.watching import WatchReport


ONE_OR_MORE = whole(1, or_none=True)


@dataclass(frozen=True, kw_only=True)
class Watching:
    anchors: Any = option(REQUIRED, "Fixed study that is asked on every occasion.", "STUDY", form=TEXT, may_lack=True)
    folder: Path | str = argument("FOLDER", "Folder that keeps the occasions; new at first.")
    scale: str = same("scale", "5-level", "Scale of the judge: 5-level, 100-level, pairwise, pairwise-tie.")
    stream: Path | str | None = option(
        None,
        "Scores of the system since the last occasion: a run folder, or a file with score[, task, agent].",
        "PATH",
        group=None,
        form=FILE,
    )
    alpha: float = option(0.05, "Rate of false alarms, however long it runs.", "RATE", group="Watch")
    guard: int = option(
        2, "Occasions within which anchors must follow a stream's alarm to blame the judge.", at_least=0
    )
    repeats: int | None = option(
        None,
        "How often to ask each anchor now (default: 4 at first, then 1).",
        "--times N",
        keyword="times",
        old="--repeats",
        form=ONE_OR_MORE,
    )
    restart: bool = option(
        False, "Compare from this occasion on, after an alarm was looked into.", "--restart/--no-restart"
    )
    show: bool = option(False, "Show what is known and ask nothing.", "--show/--no-show", group=None)


@verb(
    *(METRICS, CRITIC, "reviewers", "task_description", "seed", MODELS),
    without=("recorded", "metric_timeout_seconds"),
    first=("anchors", "metrics", "scorer", "reviewers", "stream", "show"),
    usual={"metrics": ()},
    helps={
        "metrics": "Metric whose scorer or critic is watched, such as gem-raw.",
        "reviewers": "Model that is watched as a judge.",
        "seed": "Seed for ties between equal values; fixed on the first occasion.",
    },
)
async def watch(own: Watching, options: Options) -> WatchReport:
    """Ask fixed anchors again, add the answers to a folder, and say whether the judge or the system changed.

    Run the same command on a schedule you keep, such as cron. Every run asks anew, past the journal; an interrupted one
    is resumed and pays once. Exit code 8: a change was found.

    Examples:
      goldless watch watch/ --anchors sample --metric gem-raw
      goldless watch watch/ --anchors anchors/ --reviewers openai:MODEL --stream runs/tonight
      goldless watch watch/ --show
    """
    from goldless.meta_evaluation.watching import watch as ask_anchors
    from goldless.meta_evaluation.watching import watched
    from goldless.studies import as_study

    if own.show:
        return watched(own.folder, guard=own.guard)
    if own.anchors is None:
        raise UserError("--anchors must name a study. Try --anchors sample, or --show to see what is known")
    chosen = replace(options, scale=own.scale)
    return await ask_anchors(as_study(own.anchors), chosen, **values(own, "anchors", "scale", "show"))


@watch.told
def _tell(found: WatchReport, output: Output) -> None:
    output.tell(found)
    if found.changed:
        end(CHANGED, f"alarm: {'system and judge' if found.who == 'both' else found.who} changed")
