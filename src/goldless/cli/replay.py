"""``goldless replay``: the numbers of a published run, recomputed from its evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goldless.cli.command import own, verb
from goldless.cli.console import DIFFERENT, end, out, say
from goldless.cli.output import Output


@verb()
def replay(
    run: Annotated[
        str, typer.Argument(metavar="RUN_OR_URL", help="A run folder, an archive of one, or the archive's address.")
    ],
    *,
    badge: Annotated[Path | None, own("Write a badge with the result.", flags="--badge FILE.svg")] = None,
    output: Output,
) -> None:
    """Recompute the results of a run folder from its own evidence, and compare them with what it printed.

    Calls no model, and runs no code that comes with the folder. Exit code 9: something is not met again.

    Examples:
      goldless replay runs/first
      goldless replay https://example.org/run.tar.gz --badge replay.svg
    """
    import anyio

    from goldless.files import write_text
    from goldless.reports.document import write
    from goldless.reports.formats import Colour, badge_svg
    from goldless.runs.published import published_run
    from goldless.runs.replay import SHOWN
    from goldless.runs.replay import replay as replayed

    with published_run(run) as folder:
        found = anyio.run(replayed, folder)
    output.print_tables([found.table()], lambda: write(found))
    if output.shown_as == "rich":
        for part in found.parts:
            for one in part.differences[:SHOWN]:
                out().print(f"{part.name}: {one.place}: printed {one.printed}, now {one.recomputed}", markup=False)
            if len(part.differences) > SHOWN:
                out().print(f"{part.name}: and {len(part.differences) - SHOWN} more", markup=False)
        if found.outcome != "different":
            out().print(found.sentence, markup=False)
    if badge is not None:
        said = f"{found.values} values met again" if found.outcome == "equal" else found.outcome
        colours: dict[str, Colour] = {"equal": "green", "different": "red"}
        write_text(badge, badge_svg("goldless replay", said, colours.get(found.outcome, "grey")))
        say(f"badge: {badge}")
    if found.outcome == "different":
        end(DIFFERENT, found.sentence)
