"""Traces of applications: OpenTelemetry (GenAI and OpenInference conventions) and Langfuse.

A task is one input, so that traces become a study where several models got identical inputs or one dataset item.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from goldless.studies.checking import Problems, as_text
from goldless.studies.importers.files import HEAD_BYTES, first_keys, log_files, numbered_rows, read_json
from goldless.studies.importers.log import Log, samples_frame

Row = Mapping[str, Any]
GEN_AI, OPEN_INFERENCE = "gen_ai.output.messages", "output.value"
SIGNS = ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name", "openinference.span.kind")
"""What the first spans of a file have, wherever its format puts attributes."""
MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
LANGFUSE = ({"experiment_item_id", "experiment_name", "output"}, {"traceId", "type", "model", "input", "output"})


class Traces:
    """Calls of models."""

    description = "traces: OpenTelemetry spans of models, OpenInference (Phoenix), Langfuse (.json, .jsonl)"

    def recognises(self, path: Path) -> bool:
        """Whether a file has spans or observations."""
        return any(map(_is_trace, log_files([path], "*.json", "*.jsonl")))

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        """Responses by input; scores of people are labels, those of models and programs are scores."""
        samples: list[dict[str, Any]] = []
        labels: list[dict[str, Any]] = []
        scores: list[dict[str, Any]] = []
        other = 0
        for path in log_files(paths, "*.json", "*.jsonl"):
            for place, row in _rows(path, problems):
                found = _langfuse(row) if any(row.keys() >= keys for keys in LANGFUSE) else _span(row)
                if found is None:
                    other += 1
                    continue
                for score in found.pop("scores"):
                    if score["by_person"]:
                        labels.append({"row": len(samples), "rater": score["name"], "score": score["score"]})
                    else:
                        scores.append({"row": len(samples), "metric": score["name"], "score": score["score"]})
                samples.append(found | {"source": place})
        frame = samples_frame(samples)
        _check_shared(frame, problems)
        notes = [f"{other:,} spans that do not call a model are left out"] * bool(other)
        both = (pl.DataFrame(rows) if rows else None for rows in (labels, scores))
        return Log(frame, labels=next(both), scores=next(both), notes=notes)


def _check_shared(samples: pl.DataFrame, problems: Problems) -> None:
    """Some inputs must have been given to more than one model."""
    if samples.is_empty() or problems.total:
        return
    agents = samples.group_by("task").agg(pl.col("agent").n_unique())["agent"]
    if not (agents > 1).any():
        problems.add(
            f"none of {len(agents):,} inputs was given to two models, so no response has a peer. Replay one set of "
            "inputs with each model, or run a dataset experiment"
        )


def _is_trace(path: Path) -> bool:
    if path.suffix.lower() not in {".json", ".jsonl"}:
        return False
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    keys = first_keys(path)
    return any(sign.encode() in head for sign in SIGNS) or any(keys >= known for known in LANGFUSE)


def _rows(path: Path, problems: Problems) -> Iterator[tuple[str, Row]]:
    """Each span or observation with its place; an OTLP file, or a line of one, has many."""
    if path.suffix.lower() == ".jsonl":
        for number, row in numbered_rows(path, problems):
            yield from ((f"{path.name}:{number}", one) for one in _unpacked(row))
        return
    found = read_json(path, problems)
    held = found.get("data", found) if isinstance(found, dict) else found
    for number, row in enumerate(held if isinstance(held, list) else [held], 1):
        if isinstance(row, dict):
            yield from ((f"{path.name}:{one.get('spanId') or one.get('id') or number}", one) for one in _unpacked(row))


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
    """The value in OTLP's wrapping of types."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    return [_plain(one) for one in inner.get("values", ())] if kind == "arrayValue" else inner


def _span(row: Row) -> dict[str, Any] | None:
    """The call of a model in a span; None for any other span."""
    attributes = _attributes(row)
    model = next((str(attributes[name]) for name in MODELS if attributes.get(name)), None)
    if model is None:
        return None
    if attributes.get(GEN_AI) is not None:
        asked, said = attributes.get("gen_ai.input.messages"), attributes[GEN_AI]
    else:
        asked, said = attributes.get("input.value"), attributes.get(OPEN_INFERENCE)
    kept = [
        {"name": str(key.split(".")[1]), "score": float(value), "by_person": _by_person(attributes, key)}
        for key, value in attributes.items()
        if key.startswith(("annotation.", "evaluation.")) and key.endswith(".score") and isinstance(value, int | float)
    ]
    status = row.get("status") or {}
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else status
    failed = code in {2, "STATUS_CODE_ERROR", "ERROR"}
    found = _call(model, asked, None if failed else _spoken(said), scores=kept)
    return found | {"missing": "error" if failed else None}


def _by_person(attributes: Row, key: str) -> bool:
    return str(attributes.get(f"{key.rpartition('.')[0]}.annotator_kind", "")).upper() == "HUMAN"


def _langfuse(row: Row) -> dict[str, Any] | None:
    """An item of an experiment, or a generation; None for any other observation."""
    if row.get("type") not in {None, "GENERATION"}:
        return None
    kept = [
        {"name": str(one.get("name")), "score": float(one["value"]), "by_person": one.get("source") == "ANNOTATION"}
        for one in row.get("scores") or ()
        if isinstance(one, dict) and isinstance(one.get("value"), int | float)
    ]
    agent = str(row.get("experiment_name") or row.get("model"))
    failed = row.get("level") == "ERROR"
    found = _call(agent, row.get("input"), None if failed else _spoken(row.get("output")), scores=kept)
    item = row.get("experiment_item_id") or row.get("datasetItemId")
    expected = row.get("expected_output")
    return found | {
        "task": str(item) if item else found["task"],
        "reference": None if expected is None else as_text(expected),
        "missing": "error" if failed else None,
    }


def _call(agent: str, asked: Any, said: str | None, *, scores: list[dict[str, Any]]) -> dict[str, Any]:
    prompt = _spoken(asked, roles=("system", "user"))
    digest = hashlib.sha256(as_text(asked).encode()).hexdigest()[:12]
    return {"task": digest, "agent": agent, "text": said, "prompt": prompt, "scores": scores}


def _spoken(given: Any, roles: Sequence[str] = ("assistant",)) -> str | None:
    """The text of messages in any of the usual shapes; reasoning and calls of tools are not part of it."""
    if isinstance(given, str):
        if not given.lstrip().startswith(("{", "[")):
            return given
        try:
            return _spoken(orjson.loads(given), roles)
        except orjson.JSONDecodeError:
            return given
    if isinstance(given, dict):
        for key in ("messages", "content", "parts", "text", "output"):
            if given.get(key):
                return _spoken(given[key], roles)
        choices = [one.get("message") for one in given.get("choices") or () if isinstance(one, dict)]
        given = choices[:1] or as_text(given)
    if isinstance(given, list):
        told = [one for one in given if not isinstance(one, dict) or one.get("role", roles[0]) in roles]
        texts = [_part(one, roles) for one in told]
        return "\n\n".join(text for text in texts if text) or None
    return None if given is None else str(given)


def _part(given: Any, roles: Sequence[str]) -> str | None:
    kind = given.get("type", "text") if isinstance(given, dict) else "text"
    return _spoken(given, roles) if kind in {"text", "message", "output_text", "input_text"} else None
