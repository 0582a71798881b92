"""The verbs that the public board adds to ``goldless gre``: submit, and publish."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from goldless.cli.command import verb
from goldless.cli.console import run_async, say
from goldless.errors import UserError
from goldless.runs.option_forms import REQUIRED, OptionForm, argument, option


@dataclass(frozen=True, kw_only=True)
class Submission:
    edition: Path = argument("EDITION", "Folder of an edition, made by goldless gre collect.")
    file: Path | None = argument("FILE.jsonl", "One line per paper, with paper and text.", default=None)
    name: str | None = option(None, "Name of this submission on the board; each has its own.", "NAME")
    team: str | None = option(None, "Who submits; all submissions of a team are counted.", "TEAM")
    preregister: bool = option(
        False,
        "Instead, write the hash of draw, prompts, scorer and metrics, to be published now.",
        "--preregister",
    )


@verb(prominent=("name", "team", "preregister"))
def submit(verb_options: Submission) -> None:
    """Check a submission of reviews, log it, and add it to the edition, to be scored by goldless gre score.

    With --preregister, no reviews are submitted: the hash of what the edition's numbers will depend on is written, to
    be published before there are reviews, and papers.jsonl, which is what reviewers are given. Later runs report
    whether anything was changed.

    Examples:
      goldless gre submit iclr2024 --preregister
      goldless gre submit iclr2024 reviews.jsonl --name tuned-2 --team "Example Lab"
    """
    submission = {"FILE.jsonl": verb_options.file, "--name": verb_options.name, "--team": verb_options.team}
    if verb_options.preregister:
        if needless := [word for word, value in submission.items() if value is not None]:
            raise UserError(f"--preregister submits no reviews, got {', '.join(needless)}. Leave one or the other out")
        _preregister(verb_options)
        return
    if verb_options.file is None or verb_options.name is None or verb_options.team is None:
        lacking = ", ".join(word for word, value in submission.items() if value is None)
        raise UserError(
            f"{lacking} missing: a submission needs FILE.jsonl, --name and --team. To register the edition instead, "
            "give --preregister"
        )
    _submit(verb_options, verb_options.file, name=verb_options.name, team=verb_options.team)


def _preregister(verb_options: Submission) -> None:
    from goldless.apps.gre.edition import open_edition
    from goldless.apps.gre_board import preregistration

    edition = open_edition(verb_options.edition)
    registered = preregistration.preregister(edition)
    files = (preregistration.FILE, preregistration.PAPERS)
    say(registered.sentence)
    say(f"publish {' and '.join(str(edition.folder / file) for file in files)}; hash: {registered.hash}")


def _submit(verb_options: Submission, file: Path, *, name: str, team: str) -> None:
    from goldless.apps.gre.edition import open_edition
    from goldless.apps.gre_board.submissions import submit as add_submission

    submission, of_team = add_submission(open_edition(verb_options.edition), file, name=name, team=team)
    say(f"submission {submission.number}: {submission.reviews} reviews, sha256 {submission.sha256}")
    say(f"submissions by {team} so far: {of_team}")
    if submission.missing:
        say(
            f"papers without a review: {submission.missing}. Incomplete submissions cannot be a team's best",
            style="yellow",
        )
    say(f"score it with: goldless gre score {verb_options.edition}")


@dataclass(frozen=True, kw_only=True)
class Publication:
    editions: list[Path] = argument(
        "EDITION…", "Folders of editions, by year; the last is the front page.", form=OptionForm(list[Path])
    )
    folder: Path = option(REQUIRED, "Folder for the site.", "--out FOLDER")


@verb(prominent=("folder",))
def publish(verb_options: Publication) -> None:
    """Write the board of one or more editions as a static site: no script, no network, the same bytes every time.

    All numbers are recomputed from the evidence in the editions; results that do not follow from it are refused.

    Example:
      goldless gre publish iclr2024 iclr2025 --out site
    """
    from goldless.apps.gre.edition import open_edition
    from goldless.apps.gre_board.recomputing import recompute
    from goldless.apps.gre_board.site import site_pages, write_site

    opened = [open_edition(edition) for edition in verb_options.editions]
    recomputed = [run_async(partial(recompute, edition)) for edition in opened]
    pages = site_pages(recomputed)
    write_site(pages, verb_options.folder)
    say(f"site: {verb_options.folder / 'index.html'} ({len(pages)} pages)")
