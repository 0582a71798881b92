"""AlpacaEval: ``model_outputs.json`` and ``annotations.json``, arrays of objects."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goldless.studies.checking import Problems
from goldless.studies.importers.comparisons import Votes
from goldless.studies.importers.files import first_keys, log_files, numbered_rows
from goldless.studies.importers.log import Log, samples_frame

OUTPUTS = {"instruction", "output", "generator"}
ANNOTATIONS = {"instruction", "output_1", "generator_1", "output_2", "generator_2", "preference"}
PATTERNS = ("model_outputs.json", "annotations.json", "*_model_outputs.json", "*_annotations.json")


class AlpacaEval:
    """Responses of models to instructions, and which of two responses an annotator preferred."""

    description = "AlpacaEval's model_outputs.json and annotations.json"

    def recognises(self, path: Path) -> bool:
        """Whether it is such an array, or a folder with one."""
        return any(map(_is_ours, log_files([path], *PATTERNS)))

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        """Responses by instruction, and a table ``judge_ANNOTATOR`` per annotator."""
        samples: list[dict[str, Any]] = []
        votes: dict[str, list[dict[str, Any]]] = {}
        for path in log_files(paths, *PATTERNS):
            for number, row in numbered_rows(path, problems):
                keys = OUTPUTS if "output" in row else ANNOTATIONS
                if lacking := [key for key in sorted(keys) if key not in row]:
                    problems.add(f"an item must have {', '.join(lacking)}", path.name, number)
                    continue
                made = {"task": _task(row), "prompt": row["instruction"], "dataset": row.get("dataset")}
                made["source"] = f"{path.name}:{number}"
                if keys is OUTPUTS:
                    samples.append(made | {"agent": row["generator"], "text": row["output"]})
                    continue
                samples += [made | {"agent": row[f"generator_{n}"], "text": row[f"output_{n}"]} for n in (1, 2)]
                votes.setdefault(str(row.get("annotator") or "annotator"), []).append(row)
        # An output that is compared is also in the file of outputs, and is compared many times.
        frame = samples_frame(samples)
        if frame.height:
            frame = frame.unique(["task", "agent", "text"], keep="first", maintain_order=True)
        judges = _votes(votes).tables()
        lost = sum(len(rows) for rows in votes.values()) - sum(judge.height for judge in judges.values())
        notes = [f"{lost} comparisons without a preference are missing"] * bool(lost)
        return Log(frame, task_columns=("dataset",), tables=judges, notes=notes)


def _is_ours(path: Path) -> bool:
    keys = first_keys(path) if path.suffix.lower() == ".json" else set()
    return keys >= ANNOTATIONS or (keys >= OUTPUTS and "output_1" not in keys)


def _task(row: Mapping[str, Any]) -> str:
    return hashlib.sha256(str(row["instruction"]).encode()).hexdigest()[:12]


def _votes(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Votes:
    """Comparisons: a preference of 1 is for the first, 2 for the second, 1.5 a tie, anything between a probability."""
    votes = Votes()
    for annotator, compared in rows.items():
        for row in compared:
            try:
                preference = float(row["preference"])
            except (TypeError, ValueError):
                continue
            if 1 <= preference <= 2:
                votes.add(annotator, _task(row), str(row["generator_1"]), str(row["generator_2"]), 2 - preference)
    return votes
