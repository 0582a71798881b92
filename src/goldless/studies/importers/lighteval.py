"""lighteval: ``details/MODEL/DATE/details_TASK_DATE.parquet``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from goldless.studies.checking import Problems
from goldless.studies.importers.log import Found, LogImporter, numbered_rows

COLUMNS = {"doc", "model_response"}
FOLDER = "details"


class Lighteval(LogImporter):
    """Documents and what a model said, each of several responses as a sample; metrics' values are scores."""

    description = "details of lighteval (.parquet)"
    patterns = ("details_*.parquet",)

    def is_ours(self, path: Path) -> bool:
        return path.suffix == ".parquet" and set(pq.read_schema(path).names) >= COLUMNS

    def read_file(self, path: Path, found: Found, problems: Problems) -> None:
        """Responses without reasoning, where lighteval took it off."""
        # the folders between ``details`` and the date: a name may have a slash
        parts = path.parts[:-2]
        later = [i for i, part in enumerate(parts) if part == FOLDER]
        model = "/".join(parts[later[-1] + 1 :] if later else ()) or path.parent.name
        for number, row in numbered_rows(path, problems):
            if not row.keys() >= COLUMNS or not isinstance(row["doc"], dict):
                problems.add(f"details must have {', '.join(sorted(COLUMNS))}", path.name, number)
                continue
            for name, value in (row.get("metric") or {}).items():
                found.score(found.row, name, value)
            response = row["model_response"] or {}
            texts = response.get("text_post_processed") or response.get("text") or [None]
            about = _about(row["doc"]) | {"agent": model, "source": f"{path.name}:{number}"}
            found.samples += [about | {"text": text} for text in ([texts] if isinstance(texts, str) else texts)]

    def finish(self, found: Found, problems: Problems) -> None:
        """Report details without any text."""
        if found.samples and all(sample["text"] is None for sample in found.samples):
            problems.add("no generated text: these tasks score given choices, so there is nothing to compare")


def _about(doc: Mapping[str, Any]) -> dict[str, Any]:
    choices, gold = doc.get("choices") or [], doc.get("gold_index")
    first = next(iter(gold), None) if isinstance(gold, list) else gold
    return {
        "task": f"{doc.get('task_name') or 'task'}/{doc.get('id')}",
        "prompt": doc.get("query"),
        "reference": str(choices[first]) if isinstance(first, int) and 0 <= first < len(choices) else None,
    }
