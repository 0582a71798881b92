"""The study of an edition: papers as tasks, people's reviews as responses, and how all of it was drawn.

Beside the papers of the draw it may have anchors: papers of an earlier edition with the same human reviews, so that
years can share a scale; a task that is one has the earlier edition's name in its column ``anchor``. And it may have
second versions of some papers, with a hidden instruction (see ``hidden_instructions``).

It is written whole, after it was read and checked, or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from goldless.apps.gre.hidden_instructions import INJECTED, injected_tables
from goldless.apps.gre.paper_text import storable_value
from goldless.apps.gre.papers import (
    HUMAN,
    REFERENCE,
    CollectConfig,
    Draw,
    HumanReview,
    LeftOut,
    Paper,
    draw_rank,
    is_person,
    reference_agents,
)
from goldless.apps.gre.review_form import reads_as_text
from goldless.apps.gre.reviewarena import source_name
from goldless.errors import UserError
from goldless.studies import Study, read_study, write_study
from goldless.studies.study import task_row

ANCHOR = "anchor"
"""The column of tasks with the name of the earlier edition."""
DRAW = "draw"
"""The one-row table with the settings of the draw."""
LEFT_OUT = "left_out"
"""The table of papers that were drawn but could not be used."""
REVIEWS = "reviews"
"""The table that maps agents to reviews, with sections, rating and so on."""
TASK_COLUMNS = ("task", "prompt", "reference", "title", "public_date", "source")
REVIEW_COLUMNS = ("task", "agent", "review", "sections")
SYNOPSIS = "synopsis_"

Row = dict[str, Any]
Tables = dict[str, list[Row]]


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines."""
    with path.open("wb") as lines:
        for row in rows:
            lines.write(orjson.dumps(row, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE))


def table_rows(study: Study, table: str) -> list[Row]:
    """The rows of one of its tables; empty if there is no such table."""
    found = study.table(table)
    return [] if found is None else found.to_dicts()


# --- papers and people's reviews -----------------------------------------------------------------------------------


def write_collected(draw: Draw, folder: Path, anchors: Tables | None = None) -> Path:
    """The folder with the study of the draw, its anchors and second versions; ``anchors``: rows of its tables."""
    tables = _joined(collected_study(draw), anchors or {})
    if draw.asked.injected:
        tables = _joined(tables, injected_tables(tables, papers=draw.asked.injected, seed=draw.asked.seed))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as aside:
        for table, rows in tables.items():
            write_rows(Path(aside) / f"{table}.jsonl", rows)
        return write_study(read_study(aside), folder)


def _joined(tables: Tables, more: Tables) -> Tables:
    found = {table: [*tables.get(table, ()), *more.get(table, ())] for table in dict.fromkeys([*tables, *more])}
    return {table: rows for table, rows in found.items() if rows}


def collected_study(draw: Draw) -> Tables:
    """The rows of every table of the study of a draw; a table without rows is not there.

    ``tasks``: the paper's text as prompt, its title, abstract and other synopses, date, source, and what else is known.
    ``responses``: the candidate by agent ``human``, the others by ``reference1``, ``reference2``, …
    """
    agents = (HUMAN, *reference_agents(draw.asked.reviews))
    written = [
        (paper, agent, review) for paper in draw.papers for agent, review in zip(agents, paper.reviews, strict=True)
    ]
    rewrites = ((paper, agent, *paper.rewrites.get(review.review, ("", ""))) for paper, agent, review in written)
    tables: Tables = {
        "tasks": [_task(paper, draw.source) for paper in draw.papers],
        "agents": [{"agent": agent, "group": HUMAN if agent == HUMAN else REFERENCE} for agent in agents],
        "responses": [{"task": paper.paper, "agent": agent, "text": review.text} for paper, agent, review in written],
        REVIEWS: [_review(paper.paper, agent, review) for paper, agent, review in written],
        "rewrites": [
            {"rewriter": rewriter, "task": paper.paper, "agent": agent, "text": text}
            for paper, agent, rewriter, text in rewrites
            if text.strip()
        ],
        LEFT_OUT: [asdict(out) for out in draw.left_out],
        DRAW: [
            {
                **_noted(draw.source, draw.asked),
                "papers_listed": draw.listed,
                "papers_drawn": len(draw.papers),
                "papers_left_out": len(draw.left_out),
                "papers_untried": draw.listed - len(draw.papers) - len(draw.left_out),
            }
        ],
    }
    return {table: storable_value(rows) for table, rows in tables.items() if rows}


def _task(paper: Paper, source: str) -> Row:
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


def _review(paper: str, agent: str, review: HumanReview) -> Row:
    # Sections as a list: their order counts, and their titles differ between forms.
    sections = [{"title": title, "text": text} for title, text in review.sections.items()]
    known = {"task": paper, "agent": agent, "review": review.review, "sections": sections}
    return known | _others(review.extra, REVIEW_COLUMNS, "review_")


def _others(extra: Mapping[str, Any], taken: Sequence[str], prefix: str) -> Row:
    """Other fields, renamed if the study uses the name for something else."""
    return {f"{prefix}{name}" if name in taken else name: value for name, value in extra.items()}


def section_titles(study: Study) -> list[str]:
    """Titles of the sections of human reviews, in order of appearance; whole texts have none."""
    titles = (section["title"] for row in table_rows(study, REVIEWS) for section in _sections(row))
    return [title for title in dict.fromkeys(titles) if title]


def _sections(row: Row) -> Sequence[Row]:
    found = row.get("sections") or []
    if not isinstance(found, list) or not all(
        isinstance(one, dict) and isinstance(one.get("title"), str) for one in found
    ):
        raise UserError(
            f"{REVIEWS}: the sections of a review must be a list of objects with title and text, got {found!r:.80}. "
            "Collect the papers again"
        )
    return found


def fields_beside_reviews(study: Study) -> list[str]:
    """Fields of the review form with text that is not in any review's sections, in the order of the table."""
    held = (name for row in table_rows(study, REVIEWS) for name, value in row.items() if reads_as_text(value))
    return [name for name in dict.fromkeys(held) if name not in REVIEW_COLUMNS]


def left_out_papers(study: Study) -> tuple[LeftOut, ...]:
    """Papers that were drawn but could not be used."""
    rows = table_rows(study, LEFT_OUT)
    return tuple(LeftOut(str(row["paper"]), row["reason"], str(row.get("detail") or "")) for row in rows)


# --- the draw, as the study notes it -------------------------------------------------------------------------------


def _noted(source: str, asked: CollectConfig) -> Row:
    """The settings that decide which papers and reviews a study has; those of what is not added are not there."""
    anchors = (
        {} if asked.anchors is None else {"anchors": Path(asked.anchors).name, "anchor_papers": asked.anchor_papers}
    )
    return {
        "source": source,
        "seed": asked.seed,
        "papers_asked": asked.papers,
        "reviews_asked": asked.reviews,
        **anchors,
        **({INJECTED: asked.injected} if asked.injected else {}),
    }


def noted_draw(study: Study) -> Mapping[str, Any] | None:
    """The settings of the study's draw; None if it has none, as in a study from elsewhere."""
    return next(iter(table_rows(study, DRAW)), None)


def asked_source(collect: CollectConfig, folder: Path) -> str:
    """The name of a source in a draw: the venue, or the folder relative to the edition's."""
    if collect.from_reviewarena is not None:
        return source_name(folder / collect.from_reviewarena, collect.venue)
    return collect.venue or (folder / str(collect.from_folder)).resolve().name


def draw_differences(study: Study, collect: CollectConfig, folder: Path) -> list[str]:
    """Settings in which the study's draw differs from the config, such as ``seed 0, not 3``."""
    noted = noted_draw(study)
    if noted is None:
        return []
    asked = _noted(asked_source(collect, folder), collect)
    names = dict.fromkeys([*asked, "anchors", "anchor_papers", INJECTED])

    def shown(name: str, value: Any) -> str:
        return ("all" if name == "papers_asked" else "none") if value is None else str(value)

    return [
        f"{name.removesuffix('_asked')} {shown(name, noted.get(name))}, not {shown(name, asked.get(name))}"
        for name in names
        if noted.get(name) != asked.get(name)
    ]


# --- anchors -------------------------------------------------------------------------------------------------------


def anchored_papers(study: Study) -> dict[str, str]:
    """The earlier edition of each paper that is an anchor, by paper, in the study's order."""
    found = {task: study.task(task).extra.get(ANCHOR) for task in study.tasks}
    return {task: str(edition) for task, edition in found.items() if edition is not None}


def refuse_unlike(earlier: Study, name: str, *, papers: int, reviews: int) -> None:
    """Reject an earlier edition whose papers cannot be anchors: too few of them, or other numbers of reviews."""
    references = sum(agent.group == REFERENCE for agent in earlier.agents)
    if references != reviews - 1:
        raise UserError(
            f"--anchors {name}: its papers have {references + 1} human reviews each, not {reviews}, so scores on them "
            f"would not be on the same scale. Give --reviews {references + 1}, or other anchors"
        )
    own = len(earlier.tasks) - len(anchored_papers(earlier))
    if own < papers:
        raise UserError(
            f"--anchors {name}: it has {own} papers of its own, but {papers} anchors were requested. "
            f"Give --anchor-papers {own} or fewer"
        )


def anchor_tables(earlier: Study, name: str, *, papers: int, seed: int, taken: Collection[str]) -> Tables:
    """Rows of a study for papers drawn from an earlier edition: tasks, human reviews, and their rewrites.

    ``name``: of the earlier edition. ``taken``: papers that the new edition has already. Anchors of the earlier edition
    itself are never drawn: they belong to a year before.
    """
    older = anchored_papers(earlier)
    own = [task for task in earlier.tasks if task not in older and task not in set(taken)]
    if len(own) < papers:
        raise UserError(
            f"--anchors {name}: only {len(own)} of its papers are not in this edition anyway, but {papers} anchors "
            f"were requested. Give --anchor-papers {len(own)} or fewer"
        )
    drawn = sorted(own, key=lambda task: draw_rank(seed, name, task))[:papers]
    people = [{"task": r.task, "agent": r.agent, "text": r.text} for t in drawn for r in earlier.responses(t)]
    return {
        "tasks": [task_row(earlier.task(task)) | {ANCHOR: name} for task in drawn],
        "responses": [row for row in people if is_person(row["agent"])],
        **{
            table: [r for r in table_rows(earlier, table) if r["task"] in set(drawn) and is_person(r["agent"])]
            for table in (REVIEWS, "rewrites")
        },
    }
