"""A summary of what was read from files: counts, what is missing and why, and what else was in them."""

from __future__ import annotations

from typing import Any

from goldless.studies.importers.log import IMPORTED, cause_counts
from goldless.studies.study import Study


def import_summary(study: Study) -> dict[str, Any]:
    """Counts of what was read, as plain JSON data."""
    table = study.table(IMPORTED)
    causes = {} if table is None else cause_counts(table)
    labels = {"ratings": study.n_ratings, "preferences": study.n_preferences}
    along = {name: count for name, count in labels.items() if count}
    tables = [name for name in study.recorded if name != IMPORTED]
    along |= {name: frame.height for name in tables if (frame := study.table(name)) is not None}
    along = {
        "agents with several samples": len(set(study.samples.values())),
        "prompts": study.task_table["prompt"].count(),
        "references": study.task_table["reference"].count(),
    } | along
    origin = study.origin
    others = len(study.tasks) * len(study.agents) - study.n_responses - sum(causes.values())
    if others > 0 and study.n_responses and not study.samples:
        causes |= {"not in the files": others}
    return {
        "format": None if origin is None else origin.importer,
        "files": None if origin is None else origin.files,
        "tasks": len(study.tasks),
        "agents": len({agent.sample_of or agent.agent for agent in study.agents}),
        "responses": study.n_responses,
        "missing": causes,
        "also": {name: count for name, count in along.items() if count},
        "notes": [] if origin is None else list(origin.notes),
    }
