"""A batch as a trainer gives it: prompts and completions as text or messages, references by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goldless.errors import UserError
from goldless.models.interface import content_hash
from goldless.records import Task

MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Row:
    """A completion and what it is rewarded for."""

    task: Task
    """Its name follows from the prompt, the synopsis and the references, so that a group is one task."""
    completion: str
    references: tuple[str, ...]
    """Empty: there is nothing to predict."""


def read_batch(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    references: Sequence[Any],
    *,
    synopsis: tuple[str, Sequence[Any]] | None = None,
    answer: Callable[[str], str] | None = None,
) -> list[Row]:
    """The rows of a batch. Raises one error that names all rows which cannot be read.

    ``synopsis``: a column to condition on, with its values. ``answer``: takes the part of a completion that counts.
    """
    lengths = {"prompts": len(prompts), "completions": len(completions), "references": len(references)}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise UserError(f"prompts, completions and references must be equally many, got {said}")
    rows, wrong = [], []
    for number, (prompt, completion, given) in enumerate(zip(prompts, completions, references, strict=True), 1):
        try:
            asked, text = message_text(prompt), message_text(completion, role="assistant")
            known = reference_texts(given)
            extra = {} if synopsis is None else {synopsis[0]: str(synopsis[1][number - 1] or "")}
            text = text if answer is None else answer(text)
        except (TypeError, ValueError) as error:
            wrong.append(f"  row {number}: {error}")
            continue
        name = content_hash(asked, known, extra)[:16]
        rows.append(Row(Task(name, asked, extra=extra), text, known))
    if wrong:
        more = f"\n  … and {len(wrong) - MOST_SHOWN} more" * (len(wrong) > MOST_SHOWN)
        raise UserError("a batch must have text or messages with text:\n" + "\n".join(wrong[:MOST_SHOWN]) + more)
    return rows


def message_text(given: Any, *, role: str | None = None) -> str:
    """A text, or the texts of messages joined by blank lines; ``role``: only of messages with this role."""
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"must be text or a list of messages, got {type(given).__name__}")
    texts = []
    for message in given:
        content = _field(message, "content") or ""
        if isinstance(content, Mapping) or not isinstance(content, Iterable):
            raise TypeError(f"a message must have text as its content, got {type(content).__name__}")
        if not isinstance(content, str):
            parts = [part if isinstance(part, str) else _field(part, "text") for part in content]
            content = "\n".join(part for part in parts if isinstance(part, str))
        if role is None or _field(message, "role") in {role, None}:
            texts.append(content)
    return "\n\n".join(texts)


def _field(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def reference_texts(given: Any) -> tuple[str, ...]:
    """The texts of a cell: one, several or none."""
    several = [given] if given is None or isinstance(given, str) else given
    if isinstance(several, Mapping) or not isinstance(several, Iterable):
        raise TypeError(f"a reference must be text or a list of texts, got {type(given).__name__}")
    texts = list(several)
    if wrong := [text for text in texts if text is not None and not isinstance(text, str)]:
        raise TypeError(f"a reference must be text, got {type(wrong[0]).__name__}")
    return tuple(dict.fromkeys(text for text in texts if text and text.strip()))
