"""Studies as a user has them: tables of JSON lines, scripts for ``scripted:FILE``, and scorers of shared words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from goldless.models.interface import ScoreRequest, TokenLogprobs
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure

Rows = Iterable[Mapping[str, object]]


def write_rows(path: Path, rows: Rows) -> Path:
    """A file of JSON lines, in a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def study_folder(folder: Path, **tables: Rows) -> Path:
    """A folder with these tables."""
    for name, rows in tables.items():
        write_rows(folder / f"{name}.jsonl", rows)
    return folder


def response_rows(texts: Mapping[str, Mapping[str, str]]) -> list[dict[str, str]]:
    """A row for each response, of texts by task and agent."""
    return [{"task": task, "agent": agent, "text": text} for task, by in texts.items() for agent, text in by.items()]


def script_rows(model: ScriptedModel) -> list[dict[str, object]]:
    """All that a scripted scorer was asked, and what it says."""
    asked = {(call.context, call.target) for call in model.calls}
    return [{"context": c, "target": t, "logprobs": model._logprobs(c, t)} for c, t in sorted(asked)]


def word_scorer(
    broken: Callable[[str, str], CallFailure | None] = lambda _context, _target: None, name: str = "words"
) -> ScriptedModel:
    """One token a word: -1 nat where the context holds it, else -3; ``broken`` gives a failure instead."""

    def values(context: str, target: str) -> list[float] | CallFailure:
        known = set(context.split())
        return broken(context, target) or [-1.0 if word in known else -3.0 for word in target.split()] or [-1.0]

    return ScriptedModel(logprobs=values, tokens=lambda text: re.findall(r"\S+\s*", text), name=name)


class ByteScorer(ScriptedModel):
    """A scorer asked by token ids, one a byte: the first value says how many words of the target the context has."""

    def __init__(self) -> None:
        super().__init__(logprobs={}, name="bytes")
        self.batches: list[list[ScoreRequest]] = []

    async def encode(self, messages, target):
        return ScoreRequest(tuple("\n\n".join(m.content for m in messages).encode()), tuple(target.encode()))

    async def score(self, requests, deliver):
        self.batches.append(list(requests))
        self.calls += requests
        deliver({i: TokenLogprobs(self.values(request)) for i, request in enumerate(requests)})

    @staticmethod
    def values(request: ScoreRequest) -> list[float]:
        known = set(bytes(request.context).decode().split())
        shared = sum(word in known for word in bytes(request.target).decode().split())
        return [-90.0 + shared, *[-1.0] * (len(request.target) - 1)]
