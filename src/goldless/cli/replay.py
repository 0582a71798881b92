"""``goldless replay``: the numbers of a published run, recomputed from its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from goldless.cli.command import verb
from goldless.cli.console import DIFFERENT, end, out, say
from goldless.cli.output import Output
from goldless.runs.option_forms import argument, option

if TYPE_CHECKING:
    from goldless.runs.replay import Replay


@dataclass(frozen=True, kw_only=True)
class Replaying:
    run: str = argument("RUN_OR_URL", "A run folder, an archive of one, or the archive's address.")
    badge: Path | None = option(None, "Write a badge with the result.", "FILE.svg", command_only=True)


@verb()
async def replay(own: Replaying) -> Replay:
    """Recompute the results of a run folder from its own evidence, and compare them with what it printed.

    Calls no model, and runs no code that comes with the folder. Exit code 9: a recomputed value differs.

    Examples:
      goldless replay runs/first
      goldless replay https://example.org/run.tar.gz --badge replay.svg
    """
    from goldless.runs.replay import published_run
    from goldless.runs.replay import replay as replayed

    with published_run(own.run) as folder:
        return await replayed(folder)


@replay.told
def _tell(found: Replay, output: Output, *, own: Replaying) -> None:
    from goldless.files import write_text
    from goldless.reports.formats import Colour, badge_svg
    from goldless.runs.replay import SHOWN

    output.show(found)
    lines = []
    for part in found.parts:
        more, name = len(part.differences) - SHOWN, part.name
        shown = part.differences[:SHOWN]
        lines += [f"{name}: {one.place}: printed {one.printed}, now {one.recomputed}" for one in shown]
        lines += [f"{name}: and {more} more"] * (more > 0)
    lines += [found.sentence] * (found.outcome != "different")
    for line in lines if output.shown_as == "rich" else ():
        out().print(line, markup=False)
    if own.badge is not None:
        said = f"{found.values} values met again" if found.outcome == "equal" else found.outcome
        colours: dict[str, Colour] = {"equal": "green", "different": "red"}
        write_text(own.badge, badge_svg("goldless replay", said, colours.get(found.outcome, "grey")))
        say(f"badge: {own.badge}")
    if found.outcome == "different":
        end(DIFFERENT, found.sentence)
