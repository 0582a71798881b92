"""Results of promptfoo: ``promptfoo eval -o results.json`` (version 3) or ``.jsonl``."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from goldless.studies.checking import Problems, as_json, as_text
from goldless.studies.importers.log import Log, LogImporter, Row, expecting, first_keys, log_files

VERSION = 3
FAILED = 2
"""``failureReason`` of a call that failed; 1 is an assertion that failed."""
BY_MODELS = (
    *("llm-rubric", "g-eval", "model-graded", "factuality", "answer-relevance", "context-", "select-best", "pi"),
    *("search-rubric", "agent-rubric", "conversation-relevance", "moderation", "trajectory:goal-success"),
)
"""Beginnings of the types of assertions that a model grades."""


class Promptfoo(LogImporter):
    """One result per test, prompt and provider; people's grades are labels, models' grades judgements and scores."""

    description = "results of promptfoo (.json of version 3, .jsonl)"
    patterns = ("*.json", "*.jsonl")
    kinds: Mapping[str, set[str]] = {"result": {"promptIdx", "testIdx", "testCase", "provider"}}
    documents = True
    row_must = "a result must have promptIdx, provider, testCase, testIdx"

    def is_ours(self, path: Path) -> bool:
        if path.suffix.lower() == ".json":
            return first_keys(path) >= {"evalId", "results"}
        return super().is_ours(path)

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        """The results of all files; in a folder, other files are left out."""
        files = log_files(paths, *self.patterns)
        return super().read([file for file in files if file in paths or self.is_ours(file)], problems)

    def held(self, found: Any, path: Path, problems: Problems) -> Iterable[Any]:
        held = found.get("results") if isinstance(found, dict) else None
        version = held.get("version") if isinstance(held, dict) else None
        results = held.get("results") if isinstance(held, dict) and version == VERSION else None
        if isinstance(results, list):
            return results
        problems.add(
            f"results of promptfoo must be of version {VERSION}, got {version or 'none'}. Export them with a current "
            "promptfoo: promptfoo export eval ID -o results.json",
            path.name,
        )
        return []

    def add(self, kind: str, row: Row, log: Log, path: Path, number: int | None) -> None:  # noqa: ARG002
        """Keep a result as it is, with its place, until all prompts are known."""
        place = f"{path.name}:{number or row.get('id') or row['testIdx']}"
        log.about.setdefault("results", []).append((place, row))

    def finish(self, log: Log, problems: Problems) -> None:
        """Name tasks by their variables, and agents by provider and, if there are several, prompt."""
        results = log.about.get("results", ())
        labels = [str((row.get("prompt") or {}).get("label") or "") for _, row in results]
        prompts = {label: number for number, label in enumerate(dict.fromkeys(labels), 1)}
        tasks: dict[str, str] = {}
        for (place, row), label in zip(results, labels, strict=True):
            with expecting("a result of promptfoo", problems, place):
                given = row.get("vars") or (row["testCase"] or {}).get("vars") or {}
                digest = hashlib.sha256(as_json(given or row["testIdx"])).hexdigest()[:8]
                by, prompt = row["provider"], (row.get("prompt") or {}).get("raw")
                agent = str(by.get("label") or by.get("id")) if isinstance(by, dict) else str(by)
                if len(prompts) > 1:
                    agent += f" | {label if 0 < len(label) <= 40 else f'prompt {prompts[label]}'}"
                    prompt = row.get("vars") or {}
                task = tasks.setdefault(digest, f"{row['testIdx']}-{digest}")
                about = {"task": task, "agent": agent, "prompt": None if prompt is None else as_text(prompt)}
                _add_grades(log, row)
                log.samples.append(about | {"source": place} | _sample(row))
        if len(prompts) > 1:
            log.notes.append("several prompts: each is an agent, and a task is its variables")


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


def _add_grades(log: Log, row: Row) -> None:
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
            log.counted["grades are missing because the grader failed"] += 1
        elif kind == "human":
            log.labels.append({"row": log.row, "rater": kind, "score": float(score)})
        else:
            if by_model:
                said = {"reviewer": kind, "format": "promptfoo", "output": str(one.get("reason") or "")}
                criterion = as_text(assertion.get("value") or "")
                log.judgements.append({"row": log.row, **said, "value": float(score), "criterion": criterion})
            log.score(log.row, kind if used[kind] == 1 else f"{kind}#{used[kind]}", float(score))
