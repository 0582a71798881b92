"""``goldless gre preregister`` and ``submit``: what a public board does before and after others review."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goldless.cli.command import own, verb
from goldless.cli.console import say
from goldless.cli.gre.editions import EditionFolder


@verb()
def preregister(edition: EditionFolder) -> None:
    """Write the hash of draw, prompts, scorer and metrics, to be published before there are reviews.

    Also writes papers.jsonl, which is what reviewers are given. Later runs report whether anything was changed.

    Example:
      goldless gre preregister iclr2024
    """
    from goldless.gre_bench.edition import open_edition
    from goldless.gre_bench.preregistration import FILE, PAPERS
    from goldless.gre_bench.preregistration import preregister as register

    opened = open_edition(edition)
    found = register(opened)
    say(found.sentence)
    say(f"publish {opened.folder / FILE} and {opened.folder / PAPERS}; hash: {found.hash}")


@verb(first=("name", "team"))
def submit(
    edition: EditionFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="One line per paper, with paper and text.")],
    *,
    name: Annotated[str, own("Name of this submission on the board; each has its own.", flags="NAME")],
    team: Annotated[str, own("Who submits; all submissions of a team are counted.", flags="TEAM")],
) -> None:
    """Check a submission of reviews, log it, and add it to the edition, to be scored by goldless gre score.

    Example:
      goldless gre submit iclr2024 reviews.jsonl --name tuned-2 --team "Example Lab"
    """
    from goldless.gre_bench.edition import open_edition
    from goldless.gre_bench.submissions import submit as add

    found, of_team = add(open_edition(edition), file, name=name, team=team)
    say(f"submission {found.number}: {found.reviews} reviews, sha256 {found.sha256}")
    say(f"submissions by {team} so far: {of_team}")
    if found.missing:
        say(f"papers without a review: {found.missing}. Incomplete submissions cannot be a team's best", style="yellow")
    say(f"score it with: goldless gre score {edition}")
