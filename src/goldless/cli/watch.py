"""``goldless watch``: whether a judge, a scorer or the system behind it changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goldless.cli.command import like, own, verb
from goldless.cli.console import CHANGED, WRONG_INPUT, end, incomplete, say
from goldless.cli.output import Output, tell_spending
from goldless.runs.options import CRITIC, METRICS, MODELS, Options


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
def watch(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder that keeps the occasions; new at first.")],
    *,
    anchors: Annotated[str | None, own("Fixed study that is asked on every occasion.", None, "--anchors STUDY")] = None,
    scale: Annotated[
        str, like("scale", "Scale of the judge: 5-level, 100-level, pairwise, pairwise-tie.", default="5-level")
    ] = "5-level",
    stream: Annotated[
        Path | None,
        own(
            "Scores of the system since the last occasion: a run folder, or a file with score[, task, agent].",
            None,
            "--stream PATH",
        ),
    ] = None,
    alpha: Annotated[float, own("Rate of false alarms, however long it runs.", "Watch", "--alpha RATE")] = 0.05,
    guard: Annotated[
        int, own("Occasions within which anchors must follow a stream's alarm to blame the judge.", "Watch")
    ] = 2,
    repeats: Annotated[
        int | None, own("How often to ask each anchor now (default: 4 at first, then 1).", "Watch")
    ] = None,
    restart: Annotated[bool, own("Compare from this occasion on, after an alarm was looked into.", "Watch")] = False,
    show: Annotated[bool, own("Show what is known and ask nothing.")] = False,
    options: Options,
    output: Output,
) -> None:
    """Ask fixed anchors again, add the answers to a folder, and say whether the judge or the system changed.

    Run the same command on a schedule you keep, such as cron. Every run asks anew, past the journal; an interrupted one
    is resumed and pays once. Exit code 8: a change was found.

    Examples:
      goldless watch watch/ --anchors sample --metric gem-raw
      goldless watch watch/ --anchors anchors/ --reviewers openai:MODEL --stream runs/tonight
      goldless watch watch/ --show
    """
    from dataclasses import replace

    from goldless.meta_evaluation.watching import watch as ask_anchors
    from goldless.meta_evaluation.watching import watched

    if show:
        found = watched(folder, guard=guard)
    elif anchors is None:
        end(WRONG_INPUT, "--anchors must name a study. Try --anchors sample, or --show to see what is known")
    else:
        settings: dict[str, Any] = {"alpha": alpha, "guard": guard, "repeats": repeats, "restart": restart}
        chosen = replace(options, scale=scale)
        found = output.run(ask_anchors, anchors, chosen, folder=folder, stream=stream, **settings)
    output.print_tables(found.tables(), found.as_json)
    for note in found.notes:
        say(note)
    if output.verbose:
        tell_spending(found.spending)
    if found.open:
        incomplete(f"{found.open} calls failed, so the occasion was not added")
    if found.changed:
        end(CHANGED, f"alarm: {'system and judge' if found.who == 'both' else found.who} changed")
