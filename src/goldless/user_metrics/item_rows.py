"""A response as plain data: what a batch function is called with and a command reads, one object a response."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from goldless.text_items import TextItem

FIELDS = ("response", "prompt", "task", "agent", "references", "reference", "synopses")
"""What a metric may ask for by name, beside the ``id`` of a row."""


def fields(item: TextItem) -> dict[str, Any]:
    """Everything a metric may know of a response, by name."""
    return {
        "response": item.text,
        "prompt": item.task.prompt,
        "task": item.task.task,
        "agent": item.agent,
        "references": list(item.peers.values()),
        "reference": item.task.reference,
        "synopses": dict(item.task.synopses),
    }


def rows(items: Sequence[TextItem]) -> list[dict[str, Any]]:
    """The items as objects, each with its place, counted from 0, as ``id``."""
    return [{"id": number, **fields(item)} for number, item in enumerate(items)]


def row_lines(items: Sequence[TextItem]) -> Iterator[bytes]:
    """The same as lines of JSON."""
    for number, item in enumerate(items):
        # Escaped to ASCII: a text may hold half a surrogate pair or what somebody's reader takes for the end of a line.
        yield json.dumps({"id": number, **fields(item)}).encode("ascii") + b"\n"
