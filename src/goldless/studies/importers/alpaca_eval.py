"""AlpacaEval: outputs of models, and annotators' preferences between them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from goldless.studies.checking import Problems
from goldless.studies.importers.log import Log, LogImporter, Row


class AlpacaEval(LogImporter):
    """Responses of models to instructions, and which of two responses an annotator preferred."""

    description = "AlpacaEval's model_outputs.json and annotations.json"
    patterns = ("model_outputs.json", "annotations.json", "*_model_outputs.json", "*_annotations.json")
    kinds: Mapping[str, set[str]] = {
        "annotation": {"instruction", "output_1", "generator_1", "output_2", "generator_2", "preference"},
        "output": {"instruction", "output", "generator"},
    }
    row_must = "an item must have instruction, output and generator, or both outputs and generators and preference"
    task_columns = ("dataset",)

    def add(self, kind: str, row: Row, log: Log, path: Path, number: int | None) -> None:
        """Add responses by instruction; a preference of 1 is for the first, 2 for the second, 1.5 a tie."""
        task = hashlib.sha256(str(row["instruction"]).encode()).hexdigest()[:12]
        made = {"task": task, "prompt": row["instruction"], "dataset": row.get("dataset")}
        made["source"] = f"{path.name}:{number}"
        if kind == "output":
            log.samples.append(made | {"agent": row["generator"], "text": row["output"]})
            return
        log.samples += [made | {"agent": row[f"generator_{n}"], "text": row[f"output_{n}"]} for n in (1, 2)]
        try:
            preference = float(row["preference"])
        except (TypeError, ValueError):
            preference = 0.0
        if 1 <= preference <= 2:
            judged = (task, str(row["generator_1"]), str(row["generator_2"]), 2 - preference)
            log.compared[str(row.get("annotator") or "annotator")].append(judged)
        else:
            log.counted["comparisons without a preference are missing"] += 1

    def finish(self, log: Log, problems: Problems) -> None:  # noqa: ARG002
        """Keep each output once: one that is compared is also in the file of outputs, and is compared many times."""
        once = {(one["task"], one["agent"], one["text"]): one for one in reversed(log.samples)}
        log.samples = list(once.values())[::-1]
