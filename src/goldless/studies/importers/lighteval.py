"""lighteval: ``details/MODEL/DATE/details_TASK_DATE.parquet``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from goldless.studies.checking import Problems
from goldless.studies.importers.files import log_files, numbered_rows
from goldless.studies.importers.log import Log, samples_frame

PATTERN = "details_*.parquet"
COLUMNS = {"doc", "model_response"}
FOLDER = "details"


class Lighteval:
    """Documents and what a model said."""

    description = "details of lighteval (.parquet)"

    def recognises(self, path: Path) -> bool:
        """Whether it is a file of details, or a folder with one."""
        return any(map(_is_details, log_files([path], PATTERN)))

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        """Responses, each of several as a sample, and the metrics' values as scores."""
        samples: list[dict[str, Any]] = []
        scores: list[dict[str, Any]] = []
        for path in log_files(paths, PATTERN):
            for number, row in numbered_rows(path, problems):
                if not row.keys() >= COLUMNS or not isinstance(row["doc"], dict):
                    problems.add(f"details must have {', '.join(sorted(COLUMNS))}", path.name, number)
                    continue
                for name, value in (row.get("metric") or {}).items():
                    if isinstance(value, int | float):
                        scores.append({"row": len(samples), "metric": name, "score": float(value)})
                about = _about(row["doc"]) | {"agent": _model(path), "source": f"{path.name}:{number}"}
                samples += [about | {"text": text} for text in _texts(row["model_response"] or {})]
        if samples and all(sample["text"] is None for sample in samples):
            problems.add("no generated text: these tasks score given choices, so there is nothing to compare")
        return Log(samples_frame(samples), scores=pl.DataFrame(scores) if scores else None)


def _is_details(path: Path) -> bool:
    return path.suffix == ".parquet" and set(pq.read_schema(path).names) >= COLUMNS


def _model(path: Path) -> str:
    """The folders between ``details`` and the date: a name may have a slash."""
    parts = path.parts[:-2]
    later = [i for i, part in enumerate(parts) if part == FOLDER]
    return "/".join(parts[later[-1] + 1 :]) if later and parts[later[-1] + 1 :] else path.parent.name


def _about(doc: Mapping[str, Any]) -> dict[str, Any]:
    choices, gold = doc.get("choices") or [], doc.get("gold_index")
    first = next(iter(gold), None) if isinstance(gold, list) else gold
    return {
        "task": f"{doc.get('task_name') or 'task'}/{doc.get('id')}",
        "prompt": doc.get("query"),
        "reference": str(choices[first]) if isinstance(first, int) and 0 <= first < len(choices) else None,
    }


def _texts(response: Mapping[str, Any]) -> list[str | None]:
    """The texts, without reasoning where lighteval took it off; one None if there are none."""
    found = response.get("text_post_processed") or response.get("text") or [None]
    return [found] if isinstance(found, str) else list(found)
