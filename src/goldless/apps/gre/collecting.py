"""Papers with their human reviews are drawn from a source and become the study of a new edition.

The study is written whole, after it was read and checked, or not at all.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from goldless.apps.gre.config import CollectConfig
from goldless.apps.gre.edition import (
    ANCHOR,
    COLLECTED,
    Edition,
    Row,
    anchored_papers,
    draw_settings,
    open_edition,
    table_rows,
    write_rows,
)
from goldless.apps.gre.hidden_instructions import injected_tables
from goldless.apps.gre.paper_folder import PaperFolder
from goldless.apps.gre.paper_text import storable
from goldless.apps.gre.papers import (
    HUMAN,
    REFERENCE,
    LeftOut,
    Paper,
    PaperSource,
    UnusablePaperError,
    draw_rank,
    is_person,
)
from goldless.apps.gre.review_form import reads_as_text
from goldless.apps.gre.reviewarena import ReviewArena
from goldless.errors import PrerequisiteError, UserError
from goldless.runs.progress import Progress
from goldless.runs.store import try_writing
from goldless.studies import Study, read_study, write_study
from goldless.studies.study import task_row

SOURCE = ("venue", "from_folder", "from_reviewarena")
LEFT_OUT = "left_out"
"""The table of papers that were drawn but could not be used."""
REVIEWS = "reviews"
"""The table that maps agents to reviews, with sections, rating and so on."""
TASK_COLUMNS = ("task", "prompt", "reference", "title", "public_date", "source")
REVIEW_COLUMNS = ("task", "agent", "review", "sections")
MOST_NAMED = 10
"""Maximum number of papers listed in an error."""

Tables = dict[str, list[Row]]


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
        study, before = planned.study(), edition.config.collect
        if before is not None and config is not None and before.reader != config.reader:
            said = f"reader {before.reader}, not {config.reader}"
            raise UserError(f"{edition.folder}: the papers were drawn with other settings ({said}). Use another folder")
        later = "" if config is None or config.from_folder is None else f"; later changes in {config.from_folder}"
        later += " are not included. To include them, collect into another folder" if later else ""
        say(f"{edition.folder}: the papers are already collected{later}")
        rows = table_rows(study, LEFT_OUT)
        return edition.with_settings(asked), tuple(LeftOut(row["paper"], row["reason"]) for row in rows)
    if config is None:
        raise UserError(f"{edition.folder}: no source of papers. Give --venue VENUE or --from-folder FOLDER")
    source = _source(edition, config, say, connection)
    earlier = None if config.anchors is None else open_edition(edition.folder / config.anchors)
    if earlier is not None:
        _refuse_unlike(earlier, edition, config)
    try_writing(edition.folder, "Choose another folder")
    edition = edition.with_settings(asked)
    draw = draw_papers(source, config, progress=progress)
    tables = collected_study(draw)
    if earlier is not None:
        tables = _joined(tables, anchor_tables(earlier, config, taken=[paper.paper for paper in draw.papers]))
    if config.injected:
        tables = _joined(tables, injected_tables(tables, papers=config.injected, seed=config.seed))
    with tempfile.TemporaryDirectory(prefix=".study.", dir=edition.folder) as aside:
        for table, rows in tables.items():
            write_rows(Path(aside) / f"{table}.jsonl", rows)
        write_study(read_study(aside), edition.study_folder)
    return edition, draw.left_out


def _source(
    edition: Edition, config: CollectConfig, say: Callable[[str], None], connection: Mapping[str, Any]
) -> PaperSource:
    if config.from_reviewarena is not None:
        return ReviewArena(edition.folder / config.from_reviewarena, config.venue, say=say)
    if config.venue is None:
        folder = edition.folder / str(config.from_folder)
        if not folder.is_dir():
            raise UserError(f"{config.from_folder}: no such folder. See docs/gre_bench.md for the folder layout")
        return PaperFolder(folder, reader=config.reader)
    try:
        from goldless.apps.gre.openreview import OpenReviewVenue  # noqa: PLC0415 - needs an extra
    except ImportError as error:
        raise PrerequisiteError(
            f"collecting from OpenReview needs other packages ({error}). Run: pip install 'goldless[gre]'"
        ) from error
    cache = edition.folder / COLLECTED
    return OpenReviewVenue(config.venue, cache=cache, reader=config.reader, say=say, **connection)


# --- the draw ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw of papers."""

    source: str
    """The venue, or the folder's name."""
    papers: tuple[Paper, ...]
    """In the order drawn: a larger draw with the same seed begins with these. Each has the reviews that were drawn: the
    first is the candidate, the human baseline; the others are the references that candidates are compared with."""
    left_out: tuple[LeftOut, ...]
    """Papers that were drawn but could not be used, in order."""
    asked: CollectConfig
    listed: int
    """How many papers the source has."""


def draw_papers(
    source: PaperSource, asked: CollectConfig, *, progress: Callable[[Progress], None] = lambda _: None
) -> Draw:
    """Papers of the source, drawn at random, each with a candidate review and its references.

    The sorted names are shuffled by ``numpy.random.default_rng(seed)`` and tried in that order until enough papers can
    be used (``papers`` None: all are tried). A paper's reviews are ordered by a hash of seed, paper and review: the
    first is the candidate, so it depends on nothing but these. Too few papers are an error with the reasons counted,
    unless ``fewer_ok``.
    """
    names = sorted(set(source.papers()))
    total = len(names) if asked.papers is None else asked.papers
    drawn: list[Paper] = []
    left_out: list[LeftOut] = []
    for place in np.random.default_rng(asked.seed).permutation(len(names)):
        if len(drawn) == asked.papers:
            break
        name = names[int(place)]
        try:
            drawn.append(_drawn(source.paper(name, reviews=asked.reviews), asked.reviews, asked.seed))
        except UnusablePaperError as unusable:
            left_out.append(LeftOut(name, unusable.reason, unusable.detail))
        done = len(drawn) if asked.papers is not None else len(drawn) + len(left_out)
        progress(Progress("papers", done, total, 0, 0.0))
    draw = Draw(source.name, tuple(drawn), tuple(left_out), asked, len(names))
    if not drawn or (asked.papers is not None and len(drawn) < asked.papers and not asked.fewer_ok):
        raise UserError(_too_few(draw))
    return draw


def _drawn(paper: Paper, reviews: int, seed: int) -> Paper:
    """The paper with its drawn reviews, the candidate first."""
    title, abstract, text = (storable(one) for one in (paper.title, paper.abstract, paper.text))
    paper = replace(paper, title=title, abstract=abstract, text=text)
    if not paper.text.strip():
        raise UnusablePaperError("no_paper", "its text is empty")
    if not paper.abstract.strip():
        raise UnusablePaperError("no_abstract")
    cleaned = [
        replace(review, sections={storable(title): storable(text) for title, text in review.sections.items()})
        for review in paper.reviews
    ]
    written = [review for review in cleaned if review.text]
    if len(written) < reviews:
        raise UnusablePaperError("few_reviews", f"{len(written)} of {reviews}")
    written.sort(key=lambda review: draw_rank(seed, paper.paper, review.review))
    return replace(paper, reviews=tuple(written[:reviews]))


def _too_few(draw: Draw) -> str:
    if not draw.listed:
        return f"{draw.source}: no papers"
    found = f"{draw.source}: {len(draw.papers):,} of {draw.listed:,} papers are usable"
    if draw.asked.papers is not None:
        found += f", but {draw.asked.papers:,} were requested"
    advice = "request fewer papers or fewer reviews per paper, or accept fewer with --fewer-ok"
    if not draw.left_out:
        return f"{found}. None was left out. Try to {advice}"
    reasons = Counter(paper.reason for paper in draw.left_out)
    counted = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
    named = [
        f"  {out.paper}: {out.reason}" + (f" ({out.detail})" if out.detail else "")
        for out in draw.left_out[:MOST_NAMED]
    ]
    more = len(draw.left_out) - MOST_NAMED
    named += [f"  … and {more:,} more"] if more > 0 else []
    return "\n".join([f"{found}. Left out: {counted}. Check these, or {advice}:", *named])


# --- the study -----------------------------------------------------------------------------------------------------


def collected_study(draw: Draw) -> Tables:
    """The rows of every table of the study of a draw; a table without rows is not there.

    ``tasks``: the paper's text as prompt, its title, abstract and other synopses, date, source, and what else is known.
    ``responses``: the candidate by agent ``human``, the others by ``reference1``, ``reference2``, …
    """
    agents = (HUMAN, *(f"{REFERENCE}{number}" for number in range(1, draw.asked.reviews)))
    written = [
        (paper, agent, review) for paper in draw.papers for agent, review in zip(agents, paper.reviews, strict=True)
    ]
    rewrites = ((paper, agent, *paper.rewrites.get(review.review, ("", ""))) for paper, agent, review in written)
    tables: Tables = {
        "tasks": [_task(paper, draw.source) for paper in draw.papers],
        "agents": [{"agent": agent, "group": HUMAN if agent == HUMAN else REFERENCE} for agent in agents],
        "responses": [{"task": paper.paper, "agent": agent, "text": review.text} for paper, agent, review in written],
        REVIEWS: [
            {
                "task": paper.paper,
                "agent": agent,
                "review": review.review,
                # a list: their order counts, and their titles differ between forms
                "sections": [{"title": title, "text": text} for title, text in review.sections.items()],
                **_others(review.extra, REVIEW_COLUMNS, "review_"),
            }
            for paper, agent, review in written
        ],
        "rewrites": [
            {"rewriter": rewriter, "task": paper.paper, "agent": agent, "text": text}
            for paper, agent, rewriter, text in rewrites
            if text.strip()
        ],
        LEFT_OUT: [asdict(out) for out in draw.left_out],
        "draw": [
            {
                **draw_settings(draw.source, draw.asked),
                "papers_listed": draw.listed,
                "papers_drawn": len(draw.papers),
                "papers_left_out": len(draw.left_out),
                "papers_untried": draw.listed - len(draw.papers) - len(draw.left_out),
            }
        ],
    }
    return {table: rows for table, rows in tables.items() if rows}


def _task(paper: Paper, source: str) -> Row:
    synopses = {"abstract": paper.abstract} | {name: text for name, text in paper.synopses.items() if text.strip()}
    known = {
        "task": paper.paper,
        "prompt": paper.text,
        "title": paper.title,
        **{f"synopsis_{name}": text for name, text in synopses.items()},
        "public_date": paper.public_date,
        "source": source,
    }
    taken = [*TASK_COLUMNS, *(name for name in paper.extra if name.startswith("synopsis_"))]
    filled = {column: value for column, value in known.items() if value is not None}
    return filled | _others(paper.extra, taken, "paper_")


def _others(extra: Mapping[str, Any], taken: Sequence[str], prefix: str) -> Row:
    """Other fields, renamed if the study uses the name for something else."""
    return {f"{prefix}{name}" if name in taken else name: value for name, value in extra.items()}


def _joined(tables: Tables, more: Tables) -> Tables:
    found = {table: [*tables.get(table, ()), *more.get(table, ())] for table in dict.fromkeys([*tables, *more])}
    return {table: rows for table, rows in found.items() if rows}


def told_collection(edition: Edition, study: Study) -> Iterable[str]:
    """Sentences on how the human reviews were read: their sections, and fields with text that is in none."""
    rows = table_rows(study, REVIEWS)
    titles = dict.fromkeys(section["title"] for row in rows for section in row.get("sections") or ())
    titles.pop("", None)  # of a whole text
    if titles:
        yield f"sections of the human reviews: {', '.join(titles)}"
    held = dict.fromkeys(name for row in rows for name, value in row.items() if reads_as_text(value))
    if fields := [name for name in held if name not in REVIEW_COLUMNS]:
        table = edition.study_folder / f"{REVIEWS}.jsonl"
        yield f"fields with text that is not part of the reviews: {', '.join(fields)}; see {table}"


# --- anchors -------------------------------------------------------------------------------------------------------


def _refuse_unlike(earlier: Edition, edition: Edition, config: CollectConfig) -> None:
    """Reject an earlier edition whose papers cannot be anchors, before anything is requested."""
    if earlier.folder.resolve() == edition.folder.resolve():
        raise UserError("--anchors: an edition cannot be its own earlier edition")
    study = earlier.study()
    references = sum(agent.group == REFERENCE for agent in study.agents)
    if references != config.reviews - 1:
        raise UserError(
            f"--anchors {earlier.name}: its papers have {references + 1} human reviews each, not {config.reviews}, so "
            f"scores on them would not be on the same scale. Give --reviews {references + 1}, or other anchors"
        )
    _own_papers(earlier, study, config, ())


def anchor_tables(earlier: Edition, config: CollectConfig, *, taken: Collection[str]) -> Tables:
    """Rows of a study for papers drawn from an earlier edition: tasks, human reviews, and their rewrites.

    ``taken``: papers that the new edition has already.
    """
    study = earlier.study()
    own = _own_papers(earlier, study, config, taken)
    drawn = sorted(own, key=lambda task: draw_rank(config.seed, earlier.name, task))[: config.anchor_papers]
    people = [{"task": r.task, "agent": r.agent, "text": r.text} for t in drawn for r in study.responses(t)]
    return {
        "tasks": [task_row(study.task(task)) | {ANCHOR: earlier.name} for task in drawn],
        "responses": [row for row in people if is_person(row["agent"])],
        **{
            table: [r for r in table_rows(study, table) if r["task"] in set(drawn) and is_person(r["agent"])]
            for table in (REVIEWS, "rewrites")
        },
    }


def _own_papers(earlier: Edition, study: Study, config: CollectConfig, taken: Collection[str]) -> list[str]:
    """Papers that may be anchors: not those of a year before the earlier edition, nor those taken."""
    older = {*anchored_papers(study), *taken}
    own = [task for task in study.tasks if task not in older]
    if len(own) < config.anchor_papers:
        raise UserError(
            f"--anchors {earlier.name}: it has {len(own)} papers that are not in this edition or an earlier one, but "
            f"{config.anchor_papers} anchors were requested. Give --anchor-papers {len(own)} or fewer"
        )
    return own
