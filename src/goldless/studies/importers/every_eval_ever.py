"""Every Eval Ever: instance-level ``.jsonl`` files of its schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goldless.studies.checking import Problems, as_text
from goldless.studies.importers.log import Found, LogImporter, expecting, first_keys, first_line, numbered_rows

KEYS = {"evaluation_id", "model_id", "evaluation_name", "sample_id", "interaction_type", "input"}
AGGREGATE = {"evaluation_id", "evaluation_results", "source_metadata"}


class EveryEvalEver(LogImporter):
    """One line per model and sample, of whatever tool was converted to the schema."""

    description = "instance-level results of Every Eval Ever (.jsonl)"
    patterns = ("*.jsonl",)

    def is_ours(self, path: Path) -> bool:
        if path.suffix.lower() == ".jsonl":
            return first_line(path).keys() >= KEYS
        return path.suffix.lower() == ".json" and first_keys(path) >= AGGREGATE

    def read_file(self, path: Path, found: Found, problems: Problems) -> None:
        """Responses, the final turn of conversations; scores under the names of their evaluations."""
        if path.suffix.lower() == ".json":
            said = "the file has aggregate results without responses. Give the .jsonl file of its instances"
            problems.add(said, path.name)
            return
        places: dict[tuple[str, ...], list[int]] = {}
        counts: Counter[tuple[str, ...]] = Counter()
        for number, row in numbered_rows(path, problems):
            if lacking := sorted(KEYS - row.keys()):
                problems.add(f"an instance must have {', '.join(lacking)}", path.name, number)
                continue
            with expecting("an instance", problems, path.name, number):
                # a sample has one line per result of its evaluation; the same result again is another sample
                result = row.get("evaluation_result_id")
                key = tuple(str(row[name]) for name in ("evaluation_id", "model_id", "sample_id"))
                lines, before = places.setdefault(key, []), counts[(*key, str(result))]
                counts[(*key, str(result))] += 1
                if result is None or before >= len(lines):
                    references = [as_text(one) for one in row["input"].get("reference") or ()]
                    place = {"source": f"{path.name}:{number}", "reference": next(iter(references), None)}
                    lines.append(found.row)
                    found.samples.append(_sample(row) | place)
                    found.counted["samples have several references; the first is used"] += len(references) > 1
                score, at = (row.get("evaluation") or {}).get("score"), lines[-1 if result is None else before]
                found.score(at, str(result or row["evaluation_name"]), score)


def _sample(row: Mapping[str, Any]) -> dict[str, Any]:
    error = row.get("error")
    return {
        "task": f"{row['evaluation_name']}/{row['sample_id']}",
        "agent": str(row["model_id"]),
        "text": None if error else _text(row),
        "missing": "error" if error else None,
        "message": as_text(error) if error else None,
        "prompt": as_text(row["input"]["raw"]) if row["input"].get("raw") else None,
        "interaction": row["interaction_type"],
    }


def _text(row: Mapping[str, Any]) -> str | None:
    """The output of a single turn, or the last thing that the model says; reasoning is not part of it."""
    output = (row.get("output") or {}).get("raw")
    if output:
        return as_text(output[0] if isinstance(output, list) else output)
    said = [one.get("content") for one in row.get("messages") or () if one.get("role") == "assistant"]
    return next((as_text(text) for text in reversed(said) if text), None)
