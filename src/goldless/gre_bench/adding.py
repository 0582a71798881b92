"""Adding: what models wrote takes its place in the study of papers, whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import orjson

from goldless.errors import UserError
from goldless.evidence import OPEN_KINDS
from goldless.gre_bench.generated_reviews import Generated
from goldless.gre_bench.papers import PEOPLE, reads_as_person
from goldless.records import Agent, Rating
from goldless.runs.store import try_writing
from goldless.studies import Study, read_study, write_study
from goldless.studies.content import MADE
from goldless.studies.recorded import AGENTS
from goldless.studies.tables import is_table
from goldless.studies.writing import Format, check_target, copy_table

GENERATIONS = "generations"
"""The table that says of each review how it was made."""
FORMATS: Mapping[str, Format] = {".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet"}
OWN_ITEMS = frozenset({GENERATIONS, "exams"})
"""Tables whose rows are not about the responses of a study."""

Pairs = frozenset[tuple[str, str]]
"""Tasks and agents."""


def add_reviews(study_folder: Path, generated: Generated, *, facts: Sequence[Agent] = ()) -> Path:
    """Write the reviews into the study of that folder, as responses of new agents, and return the folder.

    Reviews of the same agents and papers are replaced, also by missing ones, but not where a call failed that another
    run would make again; the table ``generations`` says how each was made or why it is missing. Refused where labels or
    recorded evidence are about a text that would go. ``facts``: agents whose size, family and cut-off are these now,
    also where one is no longer known; of others what is newly known goes before what was.
    """
    if not study_folder.is_dir():
        raise UserError(f"{study_folder} is no folder; reviews are added to a study that is a folder of tables")
    study = read_study(study_folder)
    generated = _without_open(study, generated)
    _check(study, generated)
    fresh = Path(tempfile.mkdtemp(prefix="goldless-"))
    try:
        _write(fresh, study, generated, facts)
        return write_study(read_study(fresh), study_folder, format=_format(study_folder), overwrite=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def check_before_asking(study_folder: Path, study: Study, replaced: Pairs) -> None:
    """Refuse what could not be added afterwards, before anything is paid for. ``replaced``: reviews that would go."""
    check_target(study_folder, overwrite=True)
    for folder in (study_folder.parent, study_folder):
        try_writing(folder, "Reviews are added to the study there: allow writing.")
    if wrong := list(_rests_on(study, replaced)):
        raise UserError("\n".join(wrong))


def _without_open(study: Study, generated: Generated) -> Generated:
    """What was written, less failed calls that are to be made again where the study has a review."""
    there = {(response.task, response.agent) for _, responses in study for response in responses}
    kept = [
        review
        for review in generated.reviews
        if review.failure is None or review.failure.kind not in OPEN_KINDS or (review.task, review.agent) not in there
    ]
    return replace(generated, reviews=tuple(kept))


def refused_names(study: Study, names: Iterable[str]) -> Iterator[str]:
    """Why models cannot stand in the study under these names: people do."""
    people = {agent.agent for agent in study.agents if agent.group in PEOPLE}
    for name in names:
        if reads_as_person(name) or name in people:
            yield f"a model cannot be called {name!r}, as people's reviews are; name it otherwise: NAME=SPEC"


def _check(study: Study, generated: Generated) -> None:
    """Refuse what does not belong into the study; all that is wrong at once."""
    wrong = list(refused_names(study, [agent.agent for agent in generated.agents]))
    known = set(study.tasks)
    strange = [task for task in generated.tasks if task not in known]
    if strange:
        wrong.append(
            f"{study.name} has no tasks of the names {', '.join(map(repr, strange[:10]))}: is it another study?"
        )
    wrong += _rests_on(study, _changed(study, generated))
    if wrong:
        raise UserError("\n".join(wrong))


def _rests_on(study: Study, replaced: Pairs) -> Iterator[str]:
    """What of the study is about reviews that would be replaced."""
    for table, rows in _rows_about(study, replaced).items():
        agents = ", ".join(sorted({agent for _, agent in replaced}))
        yield (
            f"{rows} rows of the table {table} are about reviews of {agents} that would be replaced; remove them, or "
            "add the new reviews under another name"
        )


def _changed(study: Study, generated: Generated) -> Pairs:
    """Responses of the study that would not stay as they are."""
    there = {agent.agent for agent in study.agents}
    known = set(study.tasks)
    found = []
    for review in generated.reviews:
        old = study.response(review.task, review.agent) if review.agent in there and review.task in known else None
        if old is not None and old.text != review.text:
            found.append((review.task, review.agent))
    return frozenset(found)


def _rows_about(study: Study, pairs: Pairs) -> dict[str, int]:
    """How many labels and rows of recorded evidence are about these responses, by table."""
    if not pairs:
        return {}
    found: Counter[str] = Counter()
    for label in study.labels():
        agents = (label.agent,) if isinstance(label, Rating) else (label.first, label.second)
        found["labels"] += any((label.task, agent) in pairs for agent in agents)
    for table in study.recorded:
        frame = None if table in OWN_ITEMS else study.table(table)
        if frame is None or "task" not in frame.columns:
            continue
        columns = [column for column in AGENTS if column in frame.columns]
        tasks_of = [column for column in ("task", "second_task") if column in frame.columns]
        for row in frame.select(*tasks_of, *columns).iter_rows(named=True):
            tasks = {row[column] for column in tasks_of}
            found[table] += any((task, row[column]) in pairs for task in tasks for column in columns)
    return {table: rows for table, rows in found.items() if rows}


def _format(folder: Path) -> Format:
    """The format that the study's tables have."""
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and is_table(file) and file.stem in MADE]
    return FORMATS[files[0].suffix.lower()] if files else "jsonl"


def _write(fresh: Path, study: Study, generated: Generated, facts: Sequence[Agent]) -> None:
    """All tables of the study with the reviews, in a folder of their own."""
    tables: dict[str, Iterable[Mapping[str, Any]]] = {
        "tasks": study.rows("tasks"),
        "agents": _agent_rows(study, generated, facts),
        "responses": _response_rows(study, generated),
        GENERATIONS: _generation_rows(study, generated),
    }
    if study.n_ratings + study.n_preferences:
        tables["labels"] = study.rows("labels")
    for table, rows in tables.items():
        with (fresh / f"{table}.jsonl").open("wb") as lines:
            for row in rows:
                lines.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE, default=str))
    for table in study.recorded:
        file = study.recorded_file(table)
        if file is not None and table != GENERATIONS:
            copy_table(file, fresh)


def _agent_rows(study: Study, generated: Generated, facts: Sequence[Agent]) -> Iterator[dict[str, Any]]:
    """Agents of the study, then new ones; what is newly known of an agent goes before what was."""
    settled = {agent.agent: agent for agent in facts}
    new = {agent.agent: agent for agent in generated.agents}
    known = {agent.agent: agent for agent in study.agents}
    for name in dict.fromkeys([*known, *new]):
        agent = known.get(name) or new[name]
        if name in new:
            told = {f.name: v for f in fields(Agent) if (v := getattr(new[name], f.name)) is not None}
            agent = replace(agent, **told)
        if name in settled:
            agent = replace(settled[name], group=agent.group or settled[name].group)
        yield {f.name: v for f in fields(Agent) if (v := getattr(agent, f.name)) is not None}


def _response_rows(study: Study, generated: Generated) -> Iterator[dict[str, Any]]:
    asked = {(review.task, review.agent) for review in generated.reviews}
    written: dict[str, list[dict[str, Any]]] = {}
    for review in generated.reviews:
        if review.text is not None:
            row = {"task": review.task, "agent": review.agent, "text": review.text}
            written.setdefault(review.task, []).append(row)
    for task, responses in study:
        for response in responses:
            if (response.task, response.agent) not in asked:
                yield {"task": response.task, "agent": response.agent, "text": response.text}
        yield from written.get(task.task, ())


def _generation_rows(study: Study, generated: Generated) -> Iterator[dict[str, Any]]:
    asked = {(review.task, review.agent) for review in generated.reviews}
    earlier = study.table(GENERATIONS)
    for row in [] if earlier is None else earlier.iter_rows(named=True):
        if (row.get("task"), row.get("agent")) not in asked:
            yield row
    for review in generated.reviews:
        yield review.row()
