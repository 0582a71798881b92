"""Traces of applications: OpenTelemetry (GenAI and OpenInference conventions) and Langfuse.

A task is one input, so that traces become a study where several models got identical inputs or one dataset item.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from goldless.studies.chats import content_text, said_by, turns
from goldless.studies.checking import Problems, Row, as_text
from goldless.studies.importers.log import Log, LogImporter, first_keys

GEN_AI, OPEN_INFERENCE = "gen_ai.output.messages", "output.value"
SIGNS = ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name", "openinference.span.kind")
"""Attributes of the first spans of a file, wherever its format puts them."""
HEAD_BYTES = 1 << 16
"""Bytes at the beginning of a file in which these attributes are sought."""
MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
LANGFUSE = ({"experiment_item_id", "experiment_name", "output"}, {"traceId", "type", "model", "input", "output"})


class Traces(LogImporter):
    """Calls of models; scores of people are labels, those of models and programs are scores."""

    description = "traces: OpenTelemetry spans of models, OpenInference (Phoenix), Langfuse (.json, .jsonl)"
    patterns = ("*.json", "*.jsonl")
    documents = True
    kinds: Mapping[str, set[str]] = {"trace": set()}

    def is_ours(self, path: Path) -> bool:
        if path.suffix.lower() not in {".json", ".jsonl"}:
            return False
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
        keys = first_keys(path)
        return any(sign.encode() in head for sign in SIGNS) or any(keys >= known for known in LANGFUSE)

    def held(self, found: Any, path: Path, problems: Problems) -> Iterable[Any]:  # noqa: ARG002
        held = found.get("data", found) if isinstance(found, dict) else found
        return (row for row in (held if isinstance(held, list) else [held]) if isinstance(row, dict))

    def add(self, kind: str, row: Row, log: Log, path: Path, number: int | None) -> None:  # noqa: ARG002
        """Add each span or observation that is a call; an OTLP file, or a line of one, has many."""
        for one in _unpacked(row):
            call = _langfuse(one) if any(one.keys() >= keys for keys in LANGFUSE) else _span(one)
            if call is None:
                log.counted["spans that do not call a model are left out"] += 1
                continue
            for name, score, by_person in call.pop("scores"):
                if by_person:
                    log.labels.append({"row": log.row, "rater": name, "score": float(score)})
                else:
                    log.score(log.row, name, score)
            place = number or one.get("spanId") or one.get("id") or log.row + 1
            log.samples.append(call | {"source": f"{path.name}:{place}"})

    def finish(self, log: Log, problems: Problems) -> None:
        """Report traces in which no input was given to two models."""
        agents: dict[str, set[str]] = {}
        for sample in log.samples:
            agents.setdefault(sample["task"], set()).add(sample["agent"])
        if agents and not problems.total and all(len(of_one) == 1 for of_one in agents.values()):
            problems.add(
                f"none of {len(agents):,} inputs was given to two models, so no response has a peer. Replay one set of "
                "inputs with each model, or run a dataset experiment"
            )


def _unpacked(row: Row) -> Iterator[Row]:
    """The spans of an export request, or the row itself."""
    if "resourceSpans" not in row:
        yield row
        return
    for resource in row["resourceSpans"] or ():
        for scope in resource.get("scopeSpans") or ():
            yield from scope.get("spans") or ()


def _attributes(row: Row) -> dict[str, Any]:
    """A span's attributes by their full names: nested, in OTLP's list of keys, or as columns ``attributes.NAME``."""
    given = row.get("attributes")
    if isinstance(given, list):
        return {one["key"]: _plain(one.get("value")) for one in given if isinstance(one, dict) and "key" in one}
    found = {key.removeprefix("attributes."): value for key, value in row.items() if key.startswith("attributes.")}
    return found | dict(_flat(given, "")) if isinstance(given, dict) else found


def _flat(given: Row, under: str) -> Iterator[tuple[str, Any]]:
    for key, value in given.items():
        yield f"{under}{key}", value
        if isinstance(value, dict):
            yield from _flat(value, f"{under}{key}.")


def _plain(value: Any) -> Any:
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "intValue":
        return int(inner)  # OTLP JSON writes 64-bit integers as text
    return [_plain(one) for one in inner.get("values", ())] if kind == "arrayValue" else inner


def _span(row: Row) -> dict[str, Any] | None:
    """The call of a model in a span; None for any other span."""
    given = _attributes(row)
    model = next((str(given[name]) for name in MODELS if given.get(name)), None)
    if model is None:
        return None
    asked, said = given.get("input.value"), given.get(OPEN_INFERENCE)
    if given.get(GEN_AI) is not None:
        asked, said = given.get("gen_ai.input.messages"), given[GEN_AI]
    status = row.get("status") or {}
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else status
    return _call(model, asked, said, failed=code in {2, "STATUS_CODE_ERROR", "ERROR"}) | {
        "scores": [
            (key.split(".")[1], value, str(given.get(key[:-5] + "annotator_kind")).upper() == "HUMAN")
            for key, value in given.items()
            if key.startswith(("annotation.", "evaluation."))
            and key.endswith(".score")
            and isinstance(value, int | float)
        ]
    }


def _langfuse(row: Row) -> dict[str, Any] | None:
    """An item of an experiment, or a generation; None for any other observation."""
    if row.get("type") not in {None, "GENERATION"}:
        return None
    agent = str(row.get("experiment_name") or row.get("model"))
    found = _call(agent, row.get("input"), row.get("output"), failed=row.get("level") == "ERROR")
    item, expected = row.get("experiment_item_id") or row.get("datasetItemId"), row.get("expected_output")
    return found | {
        "task": str(item) if item else found["task"],
        "reference": None if expected is None else as_text(expected),
        "scores": [
            (str(one.get("name")), one["value"], one.get("source") == "ANNOTATION")
            for one in row.get("scores") or ()
            if isinstance(one, dict) and isinstance(one.get("value"), int | float)
        ],
    }


def _call(agent: str, asked: Any, said: Any, *, failed: bool) -> dict[str, Any]:
    return {
        "task": hashlib.sha256(as_text(asked).encode()).hexdigest()[:12],
        "agent": agent,
        "text": None if failed else _spoken(said, ("assistant",)),
        "missing": "error" if failed else None,
        "prompt": _spoken(asked, ("system", "user")),
    }


def _spoken(given: Any, roles: Collection[str]) -> str | None:
    """The text of these roles in messages, in a request or reply around messages, or in JSON of any of them."""
    if isinstance(given, str) and given.lstrip().startswith(("{", "[")):
        try:
            return _spoken(orjson.loads(given), roles)
        except orjson.JSONDecodeError:
            return given
    if isinstance(given, dict):
        for key in ("messages", "content", "parts", "text", "output"):
            if given.get(key):
                return _spoken(given[key], roles)
        choices = [one.get("message") for one in given.get("choices") or () if isinstance(one, dict)]
        return _spoken(choices[:1], roles) if choices else as_text(given)
    chat = turns(given)
    return content_text(given) if chat is None else said_by(chat, roles)


TRACES = Traces()
