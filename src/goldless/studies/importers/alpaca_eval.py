"""AlpacaEval: ``model_outputs.json`` and ``annotations.json``, arrays of objects."""

from __future__ import annotations

import hashlib
from pathlib import Path

from goldless.studies.checking import Problems
from goldless.studies.importers.log import Found, LogImporter, first_keys, numbered_rows

OUTPUTS = {"instruction", "output", "generator"}
ANNOTATIONS = {"instruction", "output_1", "generator_1", "output_2", "generator_2", "preference"}


class AlpacaEval(LogImporter):
    """Responses of models to instructions, and which of two responses an annotator preferred."""

    description = "AlpacaEval's model_outputs.json and annotations.json"
    patterns = ("model_outputs.json", "annotations.json", "*_model_outputs.json", "*_annotations.json")
    task_columns = ("dataset",)

    def is_ours(self, path: Path) -> bool:
        keys = first_keys(path) if path.suffix.lower() == ".json" else set()
        return keys >= ANNOTATIONS or (keys >= OUTPUTS and "output_1" not in keys)

    def read_file(self, path: Path, found: Found, problems: Problems) -> None:
        """Responses by instruction; a preference of 1 is for the first, 2 for the second, 1.5 a tie."""
        for number, row in numbered_rows(path, problems):
            keys = OUTPUTS if "output" in row else ANNOTATIONS
            if lacking := [key for key in sorted(keys) if key not in row]:
                problems.add(f"an item must have {', '.join(lacking)}", path.name, number)
                continue
            task = hashlib.sha256(str(row["instruction"]).encode()).hexdigest()[:12]
            made = {"task": task, "prompt": row["instruction"], "dataset": row.get("dataset")}
            made["source"] = f"{path.name}:{number}"
            if keys is OUTPUTS:
                found.samples.append(made | {"agent": row["generator"], "text": row["output"]})
                continue
            found.samples += [made | {"agent": row[f"generator_{n}"], "text": row[f"output_{n}"]} for n in (1, 2)]
            try:
                preference = float(row["preference"])
            except (TypeError, ValueError):
                preference = 0.0
            if 1 <= preference <= 2:
                judged = (task, str(row["generator_1"]), str(row["generator_2"]), 2 - preference)
                found.compared[str(row.get("annotator") or "annotator")].append(judged)
            else:
                found.counted["comparisons without a preference are missing"] += 1

    def finish(self, found: Found, problems: Problems) -> None:  # noqa: ARG002
        """Keep each output once: one that is compared is also in the file of outputs, and is compared many times."""
        once = {(one["task"], one["agent"], one["text"]): one for one in reversed(found.samples)}
        found.samples[:] = list(once.values())[::-1]
