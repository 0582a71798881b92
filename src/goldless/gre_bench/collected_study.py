"""The study of a draw: papers as tasks, human reviews as responses, and what was left out, all in one folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from goldless.gre_bench.draw import Draw, DrawnPaper
from goldless.gre_bench.papers import HUMAN, REFERENCE, HumanReview, reference_agents
from goldless.gre_bench.review_forms import reads_as_text
from goldless.gre_bench.text_mending import storable_value
from goldless.studies import Study, read_study, write_study

TASK_COLUMNS = ("task", "prompt", "reference", "title", "public_date", "source")
REVIEW_COLUMNS = ("task", "agent", "review", "sections")
SYNOPSIS = "synopsis_"

Row = dict[str, Any]


def collected_study(draw: Draw) -> dict[str, list[Row]]:
    """The rows of every table of the study; a table without rows is not there.

    ``tasks``: the paper's text as prompt, its title, abstract and other synopses, date, source, and what else is known.
    ``responses``: the candidate by agent ``human``, the others by ``reference1``, ``reference2``, …
    ``reviews``: which agent is which review, with its sections, rating and the like.
    ``rewrites``: those the source had. ``left_out``: papers that came up and could not be used.
    ``draw``: one row that says how all this was drawn.
    """
    tables = {
        "tasks": [_task(drawn, draw.source) for drawn in draw.papers],
        "agents": [
            {"agent": HUMAN, "group": HUMAN},
            *({"agent": agent, "group": REFERENCE} for agent in reference_agents(draw.reviews)),
        ],
        "responses": [_response(drawn, agent, review) for drawn, agent, review in _reviews(draw)],
        "reviews": [_review(drawn, agent, review) for drawn, agent, review in _reviews(draw)],
        "rewrites": list(_rewrites(draw)),
        "left_out": [{"paper": out.paper, "reason": out.reason, "detail": out.detail} for out in draw.left_out],
        "draw": [_description(draw)],
    }
    return {table: storable_value(rows) for table, rows in tables.items() if rows}


def write_collected(draw: Draw, folder: Path) -> Path:
    """The folder with the study of the draw: written whole, after it was read and checked, or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as aside:
        for table, rows in collected_study(draw).items():
            _write_lines(Path(aside) / f"{table}.jsonl", rows)
        return write_study(read_study(aside), folder)


def section_titles(study: Study) -> list[str]:
    """Titles of the sections that people's reviews have, in the order in which they come; none of whole texts."""
    table = study.table("reviews")
    rows = [] if table is None or "sections" not in table.columns else table.to_dicts()
    titles = (section["title"] for row in rows for section in row["sections"] or ())
    return [title for title in dict.fromkeys(titles) if title]


def fields_beside_reviews(study: Study) -> list[str]:
    """Fields of the review form that hold text which no review's sections have, in the order of the table."""
    table = study.table("reviews")
    rows = [] if table is None else table.to_dicts()
    held = (field for row in rows for field, value in row.items() if reads_as_text(value))
    return [field for field in dict.fromkeys(held) if field not in REVIEW_COLUMNS]


def _task(drawn: DrawnPaper, source: str) -> Row:
    paper = drawn.paper
    synopses = {"abstract": paper.abstract} | {name: text for name, text in paper.synopses.items() if text.strip()}
    known = {
        "task": paper.paper,
        "prompt": paper.text,
        "title": paper.title,
        **{f"{SYNOPSIS}{name}": text for name, text in synopses.items()},
        "public_date": paper.public_date,
        "source": source,
    }
    taken = [*TASK_COLUMNS, *(name for name in paper.extra if name.startswith(SYNOPSIS))]
    filled = {column: value for column, value in known.items() if value is not None}
    return filled | _others(paper.extra, taken, "paper_")


def _response(drawn: DrawnPaper, agent: str, review: HumanReview) -> Row:
    return {"task": drawn.paper.paper, "agent": agent, "text": review.text}


def _review(drawn: DrawnPaper, agent: str, review: HumanReview) -> Row:
    # Sections as a list: their order counts, and their titles differ between forms.
    sections = [{"title": title, "text": text} for title, text in review.sections.items()]
    known = {"task": drawn.paper.paper, "agent": agent, "review": review.review, "sections": sections}
    return known | _others(review.extra, REVIEW_COLUMNS, "review_")


def _others(extra: Mapping[str, Any], taken: Sequence[str], prefix: str) -> Row:
    """What else is known, under another name where the study uses that name for something else."""
    return {f"{prefix}{name}" if name in taken else name: value for name, value in extra.items()}


def _rewrites(draw: Draw) -> Iterator[Row]:
    for drawn, agent, review in _reviews(draw):
        rewritten = drawn.paper.rewrites.get(review.review)
        if rewritten is not None and rewritten[1].strip():
            rewriter, text = rewritten
            yield {"rewriter": rewriter, "task": drawn.paper.paper, "agent": agent, "text": text}


def _reviews(draw: Draw) -> Iterator[tuple[DrawnPaper, str, HumanReview]]:
    """Every drawn review with the agent that stands for who wrote it."""
    agents = (HUMAN, *reference_agents(draw.reviews))
    for drawn in draw.papers:
        for agent, review in zip(agents, (drawn.candidate, *drawn.references), strict=True):
            yield drawn, agent, review


def _description(draw: Draw) -> Row:
    return {
        "source": draw.source,
        "seed": draw.seed,
        "papers_asked": draw.asked,
        "reviews_asked": draw.reviews,
        "papers_listed": draw.listed,
        "papers_drawn": len(draw.papers),
        "papers_left_out": len(draw.left_out),
        "papers_untried": draw.untried,
    }


def _write_lines(path: Path, rows: Iterable[Row]) -> None:
    with path.open("wb") as lines:
        for row in rows:
            lines.write(orjson.dumps(row, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE))
