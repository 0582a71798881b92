"""Papers with their human reviews are collected into a new edition: from a venue, a folder or a corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from goldless.apps.gre.edition import COLLECTED, Edition, open_edition
from goldless.apps.gre.edition_study import (
    anchor_tables,
    left_out_papers,
    noted_draw,
    refuse_unlike,
    write_collected,
)
from goldless.apps.gre.openreview_venue import OpenReviewVenue
from goldless.apps.gre.paper_folder import PaperFolder
from goldless.apps.gre.papers import CollectConfig, LeftOut, PaperSource, TooFewPapersError, draw_papers
from goldless.apps.gre.reviewarena import ReviewArena
from goldless.errors import UserError
from goldless.runs.progress import Progress
from goldless.runs.store import try_writing
from goldless.studies import Study

SOURCE = ("venue", "from_folder", "from_reviewarena")


def collect_edition(
    edition: Edition,
    settings: Mapping[str, Any],
    *,
    progress: Callable[[Progress], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
    **connection: Any,
) -> tuple[Edition, tuple[LeftOut, ...]]:
    """Collect the papers of an edition; returns those left out too.

    ``settings``: of the config's table ``collect``. ``connection``: how a venue is asked, as ``OpenReviewVenue`` takes.
    """
    # naming one source removes the other
    named = any(settings.get(name) is not None for name in SOURCE)
    asked = {"collect": {**dict.fromkeys(SOURCE if named else ()), **settings}}
    planned = edition.planned(asked)
    config = planned.config.collect
    if edition.collected:
        study = planned.study()
        _refuse_other_papers(edition, planned, study)
        later = "" if config is None or config.from_folder is None else f"; later changes in {config.from_folder}"
        later += " are not included. To include them, collect into another folder" if later else ""
        say(f"{edition.folder}: the papers are already collected{later}")
        return edition.with_settings(asked), left_out_papers(study)
    if config is None:
        raise UserError(f"{edition.folder}: no source of papers. Give --venue VENUE or --from-folder FOLDER")
    source = _source(edition, config, say, connection)
    earlier = _earlier(edition, config)
    try_writing(edition.folder, "Choose another folder")
    edition = edition.with_settings(asked)
    try:
        draw = draw_papers(source, config, progress=progress)
    except TooFewPapersError:
        if isinstance(source, OpenReviewVenue):
            source.forget_unreviewed()
        raise
    anchors: dict[str, Any] = {}
    if earlier is not None:
        taken = [paper.paper for paper in draw.papers]
        name = earlier.folder.resolve().name
        anchors = anchor_tables(earlier.study(), name, papers=config.anchor_papers, seed=config.seed, taken=taken)
    write_collected(draw, edition.study_folder, anchors)
    return edition, draw.left_out


def _source(
    edition: Edition, config: CollectConfig, say: Callable[[str], None], connection: Mapping[str, Any]
) -> PaperSource:
    if config.from_reviewarena is not None:
        return ReviewArena(edition.folder / config.from_reviewarena, config.venue, say=say)
    if config.venue is not None:
        return OpenReviewVenue(
            config.venue, cache=edition.folder / COLLECTED, reader=config.reader, say=say, **connection
        )
    folder = edition.folder / str(config.from_folder)
    if not folder.is_dir():
        raise UserError(f"{config.from_folder}: no such folder. See docs/gre_bench.md for the folder layout")
    return PaperFolder(folder, reader=config.reader)


def _earlier(edition: Edition, config: CollectConfig) -> Edition | None:
    """The edition that the anchors are from, checked before anything is requested; None if there are none."""
    if config.anchors is None:
        return None
    earlier = open_edition(edition.folder / config.anchors)
    if earlier.folder.resolve() == edition.folder.resolve():
        raise UserError("--anchors: an edition cannot be its own earlier edition")
    name = earlier.folder.resolve().name
    refuse_unlike(earlier.study(), name, papers=config.anchor_papers, reviews=config.reviews)
    return earlier


def _refuse_other_papers(edition: Edition, planned: Edition, study: Study) -> None:
    """Reject changed settings of the draw, as far as the study itself does not record them."""
    before, after = edition.config.collect, planned.config.collect
    if before is None or after is None:
        return
    whole = [name for name in CollectConfig.model_fields if name != "fewer_ok"]
    names = whole if noted_draw(study) is None else ["reader"]
    changed = [name for name in names if getattr(after, name) != getattr(before, name)]
    if changed:
        shown = ", ".join(f"{name} {getattr(before, name)}, not {getattr(after, name)}" for name in changed)
        raise UserError(f"{edition.folder}: the papers were drawn with other settings ({shown}). Use another folder")
