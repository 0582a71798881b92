"""The study of an edition: papers as tasks, people's and models' reviews as responses, and how all of it was made.

It is written whole, after it was read and checked, or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from goldless.errors import UserError
from goldless.files import temporary_prefix
from goldless.gre_bench.extracted_text import storable_value
from goldless.gre_bench.generated_reviews import GENERATIONS, Generated, Pairs
from goldless.gre_bench.injected import INJECTED, injected_tables
from goldless.gre_bench.papers import (
    HUMAN,
    PEOPLE,
    REFERENCE,
    CollectConfig,
    Draw,
    DrawnPaper,
    HumanReview,
    LeftOut,
    reads_as_person,
    reference_agents,
)
from goldless.gre_bench.review_forms import reads_as_text
from goldless.gre_bench.reviewarena import source_name
from goldless.records import Agent, Rating
from goldless.runs.store import try_writing
from goldless.studies import Study, read_study, write_study
from goldless.studies.recorded import AGENTS
from goldless.studies.study import MADE
from goldless.studies.tables import is_table
from goldless.studies.writing import Format, check_target, copy_table

DRAW = "draw"
"""The one-row table with the settings of the draw."""
LEFT_OUT = "left_out"
"""The table of papers that were drawn but could not be used."""
REVIEWS = "reviews"
"""The table that maps agents to reviews, with sections, rating and so on."""
TASK_COLUMNS = ("task", "prompt", "reference", "title", "public_date", "source")
REVIEW_COLUMNS = ("task", "agent", "review", "sections")
SYNOPSIS = "synopsis_"
FORMATS: Mapping[str, Format] = {".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet"}
OWN_ITEMS = frozenset({GENERATIONS, "exams"})
"""Tables whose rows are not about the responses of a study."""

Row = dict[str, Any]


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


def collected_study(draw: Draw) -> dict[str, list[Row]]:
    """The rows of every table of the study of a draw; a table without rows is not there.

    ``tasks``: the paper's text as prompt, its title, abstract and other synopses, date, source, and what else is known.
    ``responses``: the candidate by agent ``human``, the others by ``reference1``, ``reference2``, …
    """
    tables = {
        "tasks": [_task(drawn, draw.source) for drawn in draw.papers],
        "agents": [
            {"agent": HUMAN, "group": HUMAN},
            *({"agent": agent, "group": REFERENCE} for agent in reference_agents(draw.asked.reviews)),
        ],
        "responses": [
            {"task": drawn.paper.paper, "agent": agent, "text": review.text} for drawn, agent, review in _reviews(draw)
        ],
        REVIEWS: [_review(drawn, agent, review) for drawn, agent, review in _reviews(draw)],
        "rewrites": list(_rewrites(draw)),
        LEFT_OUT: [asdict(out) for out in draw.left_out],
        DRAW: [_description(draw)],
    }
    return {table: storable_value(rows) for table, rows in tables.items() if rows}


def write_collected(draw: Draw, folder: Path, anchors: Mapping[str, Sequence[Row]] | None = None) -> Path:
    """The folder with the study of the draw, its anchors and second versions; ``anchors``: rows of its tables."""
    tables = _joined(collected_study(draw), anchors or {})
    if draw.asked.injected:
        tables = _joined(tables, injected_tables(tables, papers=draw.asked.injected, seed=draw.asked.seed))
    return write_tables(tables, folder)


def _joined(tables: Mapping[str, Sequence[Row]], more: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    found = {table: [*tables.get(table, ()), *more.get(table, ())] for table in dict.fromkeys([*tables, *more])}
    return {table: rows for table, rows in found.items() if rows}


def write_tables(tables: Mapping[str, Iterable[Mapping[str, Any]]], folder: Path) -> Path:
    """A new folder with a study of these tables, checked before it is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as aside:
        for table, rows in tables.items():
            write_rows(Path(aside) / f"{table}.jsonl", rows)
        return write_study(read_study(aside), folder)


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
    rows = table_rows(study, REVIEWS)
    held = (name for row in rows for name, value in row.items() if reads_as_text(value))
    return [name for name in dict.fromkeys(held) if name not in REVIEW_COLUMNS]


def left_out_papers(study: Study) -> tuple[LeftOut, ...]:
    """Papers that were drawn but could not be used."""
    rows = table_rows(study, LEFT_OUT)
    return tuple(LeftOut(str(row["paper"]), row["reason"], str(row.get("detail") or "")) for row in rows)


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


def _review(drawn: DrawnPaper, agent: str, review: HumanReview) -> Row:
    # Sections as a list: their order counts, and their titles differ between forms.
    sections = [{"title": title, "text": text} for title, text in review.sections.items()]
    known = {"task": drawn.paper.paper, "agent": agent, "review": review.review, "sections": sections}
    return known | _others(review.extra, REVIEW_COLUMNS, "review_")


def _others(extra: Mapping[str, Any], taken: Sequence[str], prefix: str) -> Row:
    """Other fields, renamed if the study uses the name for something else."""
    return {f"{prefix}{name}" if name in taken else name: value for name, value in extra.items()}


def _rewrites(draw: Draw) -> Iterator[Row]:
    for drawn, agent, review in _reviews(draw):
        rewriter, text = drawn.paper.rewrites.get(review.review, ("", ""))
        if text.strip():
            yield {"rewriter": rewriter, "task": drawn.paper.paper, "agent": agent, "text": text}


def _reviews(draw: Draw) -> Iterator[tuple[DrawnPaper, str, HumanReview]]:
    """Every drawn review with its agent."""
    agents = (HUMAN, *reference_agents(draw.asked.reviews))
    for drawn in draw.papers:
        for agent, review in zip(agents, (drawn.candidate, *drawn.references), strict=True):
            yield drawn, agent, review


# --- the draw, as the study notes it -------------------------------------------------------------------------------


def _description(draw: Draw) -> Row:
    return {
        "source": draw.source,
        "seed": draw.asked.seed,
        "papers_asked": draw.asked.papers,
        "reviews_asked": draw.asked.reviews,
        "papers_listed": draw.listed,
        "papers_drawn": len(draw.papers),
        "papers_left_out": len(draw.left_out),
        "papers_untried": draw.untried,
        **{name: value for name, value in _added(draw.asked).items() if value is not None},
    }


def _added(asked: CollectConfig) -> Row:
    """What is added to the papers of the source; None: nothing."""
    anchors = (None, None) if asked.anchors is None else (Path(asked.anchors).name, asked.anchor_papers)
    return dict(zip(("anchors", "anchor_papers", INJECTED), (*anchors, asked.injected or None), strict=True))


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
    noted = noted_draw(study) or {}
    asked = {
        "source": asked_source(collect, folder),
        "seed": collect.seed,
        "papers_asked": collect.papers,
        "reviews_asked": collect.reviews,
    }
    added = _added(collect)
    noted = dict.fromkeys(added) | dict(noted)
    return [
        f"{name.removesuffix('_asked')} {_shown(name, noted[name])}, not {_shown(name, value)}"
        for name, value in {**asked, **added}.items()
        if name in noted and noted[name] != value
    ]


def _shown(name: str, value: Any) -> str:
    return ("all" if name == "papers_asked" else "none") if value is None else str(value)


# --- models' reviews -----------------------------------------------------------------------------------------------


def add_reviews(study_folder: Path, generated: Generated, *, facts: Sequence[Agent] = ()) -> Path:
    """Write the reviews into the study of that folder, as responses of new agents, and return the folder.

    Reviews of the same agents and papers are replaced, also by missing ones, but not where a call failed that another
    run would make again; the table ``generations`` says how each was made or why it is missing. Refused where labels or
    recorded evidence are about a text that would go. ``facts``: agents whose size, family and cut-off are these now,
    also where one is no longer known; of others what is newly known goes before what was.
    """
    if not study_folder.is_dir():
        raise UserError(f"{study_folder} is not a folder. Reviews can only be added to a study folder")
    study = read_study(study_folder)
    generated = _without_open(study, generated)
    _check(study, generated)
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as fresh:
        _write(Path(fresh), study, generated, facts)
        return write_study(read_study(fresh), study_folder, format=_format(study_folder), overwrite=True)


def check_before_asking(study_folder: Path, study: Study, replaced: Pairs) -> None:
    """Check before any paid call that reviews can be added. ``replaced``: reviews that would be replaced."""
    check_target(study_folder, overwrite=True)
    for folder in (study_folder.parent, study_folder):
        try_writing(folder, "Reviews are added to the study there; make it writable")
    if wrong := list(_rests_on(study, replaced)):
        raise UserError("\n".join(wrong))


def refused_names(study: Study, names: Iterable[str]) -> Iterator[str]:
    """Why models cannot have these names in the study: people have them."""
    people = {agent.agent for agent in study.agents if agent.group in PEOPLE}
    for name in names:
        if reads_as_person(name) or name in people:
            yield f"{name!r} is reserved for human reviews. Give the model another name: NAME=SPEC"


def _without_open(study: Study, generated: Generated) -> Generated:
    """The reviews without failed calls that can be retried, if the study has a review already."""
    there = {(response.task, response.agent) for _, responses in study for response in responses}
    kept = [review for review in generated.reviews if not review.is_open or (review.task, review.agent) not in there]
    return replace(generated, reviews=tuple(kept))


def _check(study: Study, generated: Generated) -> None:
    """Reject reviews that do not belong to the study, with all problems at once."""
    wrong = list(refused_names(study, [agent.agent for agent in generated.agents]))
    known = set(study.tasks)
    strange = [task for task in generated.tasks if task not in known]
    if strange:
        wrong.append(f"{study.name} has no tasks named {', '.join(map(repr, strange[:10]))}. Is it another study?")
    wrong += _rests_on(study, _changed(study, generated))
    if wrong:
        raise UserError("\n".join(wrong))


def _rests_on(study: Study, replaced: Pairs) -> Iterator[str]:
    """Labels and evidence of the study about reviews that would be replaced."""
    for table, rows in _rows_about(study, replaced).items():
        agents = ", ".join(sorted({agent for _, agent in replaced}))
        yield (
            f"{rows} rows of the table {table} are about reviews of {agents} that would be replaced. Remove them, or "
            "add the new reviews under another name"
        )


def _changed(study: Study, generated: Generated) -> Pairs:
    """Responses of the study that would change."""
    before = {(response.task, response.agent): response.text for _, responses in study for response in responses}
    reviews = [((review.task, review.agent), review.text) for review in generated.reviews]
    return frozenset(pair for pair, text in reviews if pair in before and before[pair] != text)


def _rows_about(study: Study, pairs: Pairs) -> dict[str, int]:
    """Number of labels and rows of recorded evidence about these responses, by table."""
    if not pairs:
        return {}
    found = {"labels": 0}
    for label in study.labels():
        agents = (label.agent,) if isinstance(label, Rating) else (label.first, label.second)
        found["labels"] += any((label.task, agent) in pairs for agent in agents)
    meant = [{"task": task, "agent": agent} for task, agent in pairs]
    for table in study.recorded:
        frame = None if table in OWN_ITEMS else study.table(table)
        if frame is None or "task" not in frame.columns:
            continue
        tasks = [column for column in ("task", "second_task") if column in frame.columns]
        columns = [column for column in AGENTS if column in frame.columns]
        said = [_pair(task, agent).is_in(meant) for task in tasks for agent in columns]
        found[table] = frame.filter(pl.any_horizontal(said)).height if said else 0
    return {table: rows for table, rows in found.items() if rows}


def _pair(task: str, agent: str) -> pl.Expr:
    return pl.struct(task=pl.col(task).cast(pl.String), agent=pl.col(agent).cast(pl.String))


def _format(folder: Path) -> Format:
    """The format that the study's tables have."""
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and is_table(file) and file.stem in MADE]
    return FORMATS[files[0].suffix.lower()] if files else "jsonl"


def _write(fresh: Path, study: Study, generated: Generated, facts: Sequence[Agent]) -> None:
    """Write all tables of the study with the reviews to a folder."""
    asked = frozenset((review.task, review.agent) for review in generated.reviews)
    earlier = [row for row in table_rows(study, GENERATIONS) if (row.get("task"), row.get("agent")) not in asked]
    tables: dict[str, Iterable[Mapping[str, Any]]] = {
        "tasks": study.rows("tasks"),
        "agents": _agent_rows(study, generated, facts),
        "responses": _response_rows(study, generated, asked),
        GENERATIONS: [*earlier, *(review.row() for review in generated.reviews)],
    }
    if study.n_ratings + study.n_preferences:
        tables["labels"] = study.rows("labels")
    for table, rows in tables.items():
        write_rows(fresh / f"{table}.jsonl", rows)
    for table in study.recorded:
        file = study.recorded_file(table)
        if file is not None and table != GENERATIONS:
            copy_table(file, fresh)


def _agent_rows(study: Study, generated: Generated, facts: Sequence[Agent]) -> Iterator[Row]:
    """Agents of the study, then new ones; new facts replace old ones."""
    settled = {agent.agent: agent for agent in facts}
    new = {agent.agent: agent for agent in generated.agents}
    known = {agent.agent: agent for agent in study.agents}
    for name in dict.fromkeys([*known, *new]):
        agent = known.get(name) or new[name]
        if name in new:
            agent = replace(agent, **_known(new[name]))
        if name in settled:
            agent = replace(settled[name], group=agent.group or settled[name].group)
        yield _known(agent)


def _known(agent: Agent) -> Row:
    return {f.name: value for f in fields(Agent) if (value := getattr(agent, f.name)) is not None}


def _response_rows(study: Study, generated: Generated, asked: Pairs) -> Iterator[Row]:
    written: dict[str, list[Row]] = {}
    for review in generated.reviews:
        if review.text is not None:
            row = {"task": review.task, "agent": review.agent, "text": review.text}
            written.setdefault(review.task, []).append(row)
    for task, responses in study:
        for response in responses:
            if (response.task, response.agent) not in asked:
                yield {"task": response.task, "agent": response.agent, "text": response.text}
        yield from written.get(task.task, ())
