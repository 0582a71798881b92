"""What was read from another tool's files: counts, what is missing and why, and what came along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goldless.cli.console import say

if TYPE_CHECKING:
    from goldless.studies import Study


def import_summary(study: Study) -> dict[str, Any]:
    """Counts of what was read, as plain JSON data."""
    from goldless.studies.importers.log import IMPORTED

    table = study.table(IMPORTED)
    causes = {} if table is None else dict(table["missing"].drop_nulls().value_counts(sort=True).iter_rows())
    labels = {"ratings": study.n_ratings, "preferences": study.n_preferences}
    along = {name: count for name, count in labels.items() if count}
    tables = [name for name in study.recorded if name != IMPORTED]
    along |= {name: frame.height for name in tables if (frame := study.table(name)) is not None}
    with_prompt = sum(1 for task in study.tasks if study.task(task).prompt is not None)
    with_reference = sum(1 for task in study.tasks if study.task(task).reference is not None)
    along = {
        "agents with several samples": len(set(study.samples.values())),
        "prompts": with_prompt,
        "references": with_reference,
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


def counted(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def tell_import(study: Study) -> None:
    """Say in one line what was read, unless it is goldless's own format."""
    if study.origin is None or study.origin.importer == "study":
        return
    found = import_summary(study)
    said = [counted(found[noun], noun.removesuffix("s")) for noun in ("tasks", "agents", "responses")]
    lost = ", ".join(f"{cause} {count:,}" for cause, count in found["missing"].items())
    said += [f"missing: {lost}"] if lost else []
    said += [f"several samples of {counted(several, 'agent')}"] if (several := len(set(study.samples.values()))) else []
    say(f"read as {found['format']}: {', '.join(said)}")
    for note in found["notes"]:
        say(f"note: {note}", style="yellow")
