"""A scorer that was trained: how it was asked and on which tasks, held against what it is to score now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from goldless.models.interface import Scorer, TrainedScorer, content_hash
from goldless.records import Response, Task
from goldless.templates import TEMPLATES, Template

TRAINED_ON = "trained_on"
"""Where the record of a training keeps the marks of its tasks."""
ASKED_WITH = ("predict", "synopsis_heading", "candidate_heading")
"""The words of a template that a scorer reads."""


def task_marks(task: Task, responses: Iterable[Response]) -> set[str]:
    """Hashes that a task is known again by: of its name with its prompt, and with each response to it."""
    texts = [task.prompt, *(response.text for response in responses)]
    return {content_hash(task.task, text) for text in texts if text}


def training_notes(
    scorer: Scorer, templates: Iterable[Template], tasks: Iterable[tuple[Task, Sequence[Response]]]
) -> list[str]:
    """What must be said before a scorer that was trained is used so; nothing of one that says nothing of a training."""
    record = scorer.training_record() if isinstance(scorer, TrainedScorer) else {}
    found: list[str] = []
    trained, name = record.get("template") or {}, scorer.identity.short
    other = [template.name for template in templates if trained and not _same_words(template, trained)]
    if other:
        found.append(
            f"{name} was trained with the template {trained['name']}, but is asked with {', '.join(other)} here, so "
            f"its scores are not what it was trained for. Give --template {_as_option(trained['name'])}."
        )
    marks = set(record.get(TRAINED_ON) or ())
    seen = [not marks.isdisjoint(task_marks(*task)) for task in tasks] if marks else []
    if any(seen):
        found.append(
            f"{name} was trained on {sum(seen)} of the {len(seen)} tasks scored here: it has seen responses to them. "
            "Score other tasks."
        )
    return found


def _same_words(template: Template, trained: Mapping[str, Any]) -> bool:
    return all(getattr(template, field) == trained.get(field) for field in ASKED_WITH)


def _as_option(name: str) -> str:
    """A template as it is asked for; one of a file is named by the file and a hash of its words."""
    return name if name in TEMPLATES else f"{name.rpartition('@')[0] or name}.toml, the file it was trained with"
