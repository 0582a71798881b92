"""``goldless gre collect``: papers and human reviews, from a venue or a folder, as a study."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from goldless.cli.console import ProgressBars, say
from goldless.cli.exit_codes import INCOMPLETE
from goldless.cli.gre.arguments import OutputEdition, given
from goldless.errors import UserError
from goldless.gre_bench.collected_study import fields_beside_reviews, section_titles
from goldless.gre_bench.edition import Edition, open_or_begin
from goldless.gre_bench.making import collect_edition
from goldless.gre_bench.papers import LeftOut
from goldless.gre_bench.polite_session import UnansweredError

SOURCE = "Which papers"


def collect(
    edition: OutputEdition = None,
    *,
    venue: Annotated[
        str | None,
        typer.Option(help="A venue of OpenReview, such as ICLR.cc/2024/Conference.", rich_help_panel=SOURCE),
    ] = None,
    from_folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Papers and reviews that you have; docs/gre_folder.md says how they lie there.",
            rich_help_panel=SOURCE,
        ),
    ] = None,
    papers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many to draw; all that can be used by default.",
            show_default=False,
            rich_help_panel=SOURCE,
        ),
    ] = None,
    reviews: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Human reviews of each: one is the candidate, the others are references.  [dim]\\[default: 3][/dim]",
            show_default=False,
            rich_help_panel=SOURCE,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Fixes which papers and reviews are drawn.  [dim]\\[default: 0][/dim]",
            show_default=False,
            rich_help_panel=SOURCE,
        ),
    ] = None,
    reader: Annotated[
        Literal["pypdf", "docling"] | None,
        typer.Option(
            help="What reads PDFs.  [dim]\\[default: pypdf][/dim]", show_default=False, rich_help_panel=SOURCE
        ),
    ] = None,
    fewer_ok: Annotated[
        bool | None,
        typer.Option("--fewer-ok", help="Take what there is where that is fewer than asked for.", show_default=False),
    ] = None,
    seconds_between_requests: Annotated[float, typer.Option(min=0.0, help="How long to wait between requests.")] = 1.0,
    api1: Annotated[str, typer.Option(metavar="URL", help="Version 1 of OpenReview's interface.")] = (
        "https://api.openreview.net"
    ),
    api2: Annotated[str, typer.Option(metavar="URL", help="Version 2 of it.")] = "https://api2.openreview.net",
) -> None:
    """Collect papers with their human reviews into a new edition: a folder with a config and an ordinary study.

    Everything a venue answers is kept, so an interrupted command goes on where it stopped and asks for nothing twice.

    Example: goldless gre collect iclr2024 --venue ICLR.cc/2024/Conference --papers 300 --reviews 3 --seed 1
    """
    if venue is not None and from_folder is not None:
        raise UserError("--venue and --from-folder: name one of the two")
    begun = open_or_begin(_folder(edition, venue))
    settings = given(
        venue=venue,
        from_folder=None if from_folder is None else str(from_folder.resolve()),
        papers=papers,
        reviews=reviews,
        seed=seed,
        reader=reader,
        fewer_ok=fewer_ok,
    )
    with ProgressBars() as bars, unanswered_is_incomplete():
        made, left_out = collect_edition(
            begun,
            settings,
            seconds_between_requests=seconds_between_requests,
            api1=api1,
            api2=api2,
            progress=bars,
            say=say,
        )
    tell_collected(made, left_out)


@contextmanager
def unanswered_is_incomplete() -> Iterator[None]:
    """End with 3, as all that can go on later, where a venue's server gives no answer."""
    try:
        yield
    except UnansweredError as error:
        say(f"incomplete: {error}", style="yellow")
        raise typer.Exit(INCOMPLETE) from error


def _folder(edition: Path | None, venue: str | None) -> Path:
    if edition is not None:
        return edition
    if venue is None:
        raise UserError("name a folder for the edition, and --venue or --from-folder")
    return Path("gre-" + re.sub(r"[^A-Za-z0-9.]+", "-", venue).strip("-."))


def tell_collected(edition: Edition, left_out: Iterable[LeftOut]) -> None:
    """Say what was collected, and what was left out for which reason."""
    study = edition.study()
    count = len(study.tasks)
    people = {agent.agent for agent in study.agents if agent.group in {"human", "reference"}}
    reviews = sum(response.agent in people for _, responses in study for response in responses)
    say(f"{count} paper{'s' * (count != 1)} with {reviews} human reviews: {edition.study_folder}")
    if titles := section_titles(study):
        say(f"sections of the human reviews: {', '.join(titles)}")
    fields = fields_beside_reviews(study)
    if fields:
        table = edition.study_folder / "reviews.jsonl"
        say(f"fields with text that is no part of the reviews: {', '.join(fields)}; see {table}")
    rows = tuple(left_out)
    if rows:
        reasons = ", ".join(f"{n} {reason}" for reason, n in Counter(row.reason for row in rows).most_common())
        say(f"left out: {len(rows)} ({reasons}); which and why: {edition.study_folder / 'left_out.jsonl'}")
