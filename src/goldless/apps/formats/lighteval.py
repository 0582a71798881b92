"""Details of lighteval."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goldless.studies.checking import Problems
from goldless.studies.importers.log import Log, LogImporter


class Lighteval(LogImporter):
    """Documents and what a model said, each of several responses as a sample; metrics' values are scores."""

    description = "details of lighteval (.parquet)"
    patterns = ("details_*.parquet",)
    kinds: Mapping[str, set[str]] = {"details": {"doc", "model_response"}}
    row_must = "details must have doc, model_response"

    def add(self, kind: str, row: Mapping[str, Any], log: Log, path: Path, number: int | None) -> None:  # noqa: ARG002
        """Add responses without reasoning, where lighteval took it off."""
        # the folders between ``details`` and the date: a name may have a slash
        parts = path.parts[:-2]
        later = [i for i, part in enumerate(parts) if part == "details"]
        model = "/".join(parts[later[-1] + 1 :] if later else ()) or path.parent.name
        for name, value in (row.get("metric") or {}).items():
            log.score(log.row, name, value)
        doc, response = row["doc"], row["model_response"] or {}
        texts = response.get("text_post_processed") or response.get("text") or [None]
        choices, gold = doc.get("choices") or [], doc.get("gold_index")
        first = next(iter(gold), None) if isinstance(gold, list) else gold
        about = {
            "task": f"{doc.get('task_name') or 'task'}/{doc.get('id')}",
            "prompt": doc.get("query"),
            "reference": str(choices[first]) if isinstance(first, int) and 0 <= first < len(choices) else None,
            "agent": model,
            "source": f"{path.name}:{number}",
        }
        log.samples += [about | {"text": text} for text in ([texts] if isinstance(texts, str) else texts)]

    def finish(self, log: Log, problems: Problems) -> None:
        if log.samples and all(sample["text"] is None for sample in log.samples):
            problems.add("no generated text: these tasks score given choices, so there is nothing to compare")


LIGHTEVAL = Lighteval()
