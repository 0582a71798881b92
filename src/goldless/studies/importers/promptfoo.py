"""Results of promptfoo: ``promptfoo eval -o results.json`` (version 3) or ``.jsonl``."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goldless.studies.checking import Problems, as_json, as_text
from goldless.studies.importers import log
from goldless.studies.importers.log import Found, Log, LogImporter

Row = Mapping[str, Any]
KEYS = {"promptIdx", "testIdx", "testCase", "provider"}
VERSION = 3
FAILED = 2
"""``failureReason`` of a call that failed; 1 is an assertion that failed."""
HUMAN = "human"
BY_MODELS = (
    *("llm-rubric", "g-eval", "model-graded", "factuality", "answer-relevance", "context-", "select-best", "pi"),
    *("search-rubric", "agent-rubric", "conversation-relevance", "moderation", "trajectory:goal-success"),
)
"""How the types of assertions begin that a model grades."""


class Promptfoo(LogImporter):
    """One result per test, prompt and provider; people's grades are labels, models' grades judgements and scores."""

    description = "results of promptfoo (.json of version 3, .jsonl)"
    patterns = ("*.json", "*.jsonl")

    def is_ours(self, path: Path) -> bool:
        if path.suffix.lower() == ".jsonl":
            return log.first_line(path).keys() >= KEYS
        return path.suffix.lower() == ".json" and log.first_keys(path) >= {"evalId", "results"}

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        """The results of all files; in a folder, other files are left out."""
        files = log.log_files(paths, *self.patterns)
        return super().read([file for file in files if file in paths or self.is_ours(file)], problems)

    def read_file(self, path: Path, found: Found, problems: Problems) -> None:
        """Results as they are, each with its place."""
        rows = log.numbered_rows(path, problems) if path.suffix.lower() == ".jsonl" else _results(path, problems)
        for number, row in rows:
            if isinstance(row, dict) and row.keys() >= KEYS:
                place = number or row.get("id") or row["testIdx"]
                found.samples.append({"place": f"{path.name}:{place}", "result": row})
            else:
                problems.add(f"a result must have {', '.join(sorted(KEYS))}", path.name, number)

    def finish(self, found: Found, problems: Problems) -> None:
        """Name tasks by their variables, and agents by provider and, if there are several, prompt."""
        results, found.samples = found.samples, []
        labels = [str((one["result"].get("prompt") or {}).get("label") or "") for one in results]
        prompts = {label: number for number, label in enumerate(dict.fromkeys(labels), 1)}
        tasks: dict[str, str] = {}
        for one, label in zip(results, labels, strict=True):
            row = one["result"]
            with log.expecting("a result of promptfoo", problems, one["place"]):
                given = row.get("vars") or (row["testCase"] or {}).get("vars") or {}
                digest = hashlib.sha256(as_json(given or row["testIdx"])).hexdigest()[:8]
                by, prompt = row["provider"], (row.get("prompt") or {}).get("raw")
                agent = str(by.get("label") or by.get("id")) if isinstance(by, dict) else str(by)
                if len(prompts) > 1:
                    agent += f" | {label if 0 < len(label) <= 40 else f'prompt {prompts[label]}'}"
                    prompt = row.get("vars") or {}
                task = tasks.setdefault(digest, f"{row['testIdx']}-{digest}")
                about = {"task": task, "agent": agent, "prompt": None if prompt is None else as_text(prompt)}
                _add_grades(found, row)
                found.samples.append(about | {"source": one["place"]} | _sample(row))
        if len(prompts) > 1:
            found.notes.append("several prompts: each is an agent, and a task is its variables")


def _results(path: Path, problems: Problems) -> list[tuple[None, Any]]:
    """The results in a JSON file."""
    found = log.read_json(path, problems)
    given = found.get("results") if isinstance(found, dict) else None
    results: dict[str, Any] = given if isinstance(given, dict) else {}
    version = results.get("version")
    if version == VERSION and isinstance(results.get("results"), list):
        return [(None, row) for row in results["results"]]
    if found is not None:
        problems.add(
            f"results of promptfoo must be of version {VERSION}, got {'none' if version is None else version}. Export "
            "them with a current promptfoo: promptfoo export eval ID -o results.json",
            path.name,
        )
    return []


def _sample(row: Row) -> dict[str, Any]:
    """The response, or why it is missing, and its cost."""
    response = row.get("response") or {}
    output, error = response.get("output"), response.get("error") or row.get("error")
    missing = None
    if row.get("failureReason") == FAILED or (output is None and error):
        missing = "error"
    elif response.get("isRefusal"):
        missing = "refusal"
    elif response.get("finishReason") == "length":
        missing = "limit"
    provider = row["provider"]
    return {
        "text": None if output is None or missing else as_text(output),
        "missing": missing,
        "message": None if error is None or missing != "error" else as_text(error),
        "model": provider.get("id") if isinstance(provider, dict) else None,
        "cost_usd": row.get("cost"),
        "latency_ms": row.get("latencyMs"),
    }


def _add_grades(found: Found, row: Row) -> None:
    """Add the grades of the next sample, by whoever gave them."""
    used: Counter[str] = Counter()
    for one in (row.get("gradingResult") or {}).get("componentResults") or ():
        assertion = (one or {}).get("assertion") or {}
        kind, score = assertion.get("type"), (one or {}).get("score")
        if kind is None or score is None:
            continue
        used[kind] += 1
        by_model = kind.removeprefix("not-").startswith(BY_MODELS)
        if by_model and (one.get("metadata") or {}).get("graderError"):
            found.counted["grades are missing because the grader failed"] += 1
            continue
        if kind == HUMAN:
            found.labels.append({"row": found.row, "rater": HUMAN, "score": float(score)})
            continue
        if by_model:
            said = {"reviewer": kind, "format": "promptfoo", "output": str(one.get("reason") or "")}
            criterion = as_text(assertion.get("value") or "")
            found.judgements.append({"row": found.row, **said, "value": float(score), "criterion": criterion})
        found.score(found.row, kind if used[kind] == 1 else f"{kind}#{used[kind]}", float(score))
