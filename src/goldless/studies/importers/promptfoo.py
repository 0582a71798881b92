"""Results of promptfoo: ``promptfoo eval -o results.json`` (version 3) or ``.jsonl``."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from goldless.studies.checking import Problems, as_json, as_text
from goldless.studies.importers.files import expecting, first_keys, first_line, log_files, numbered_rows, read_json
from goldless.studies.importers.log import Log, samples_frame

PATTERNS = ("*.json", "*.jsonl")
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


class _Result(NamedTuple):
    place: str
    row: Mapping[str, Any]


class Promptfoo:
    """One result per test, prompt and provider."""

    description = "results of promptfoo (.json of version 3, .jsonl)"

    def recognises(self, path: Path) -> bool:
        """Whether it is a file of results, or a folder with one."""
        return any(map(_is_results, log_files([path], *PATTERNS)))

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        """Responses with their costs; people's grades are labels, models' grades judgements and scores."""
        files = [file for file in log_files(paths, *PATTERNS) if file in paths or _is_results(file)]
        results = [result for file in files for result in _results(file, problems)]
        tasks, agents = _Tasks(), _agents(results)
        graded = _Graded()
        samples: list[dict[str, Any]] = []
        for (place, row), agent in zip(results, agents.names, strict=True):
            with expecting("a result of promptfoo", problems, place):
                prompt = _prompt(row) if agents.one_prompt else as_text(row.get("vars") or {})
                task = {"task": tasks.name(row), "agent": agent, "prompt": prompt, "source": place}
                graded.add(len(samples), row)
                samples.append(task | _sample(row))
        notes = ["several prompts: each is an agent, and a task is its variables"] * (not agents.one_prompt)
        notes += [f"{graded.failed} grades are missing because the grader failed"] * bool(graded.failed)
        return Log(
            samples_frame(samples),
            labels=graded.frame("labels"),
            judgements=graded.frame("judgements"),
            scores=graded.frame("scores"),
            notes=notes,
        )


def _is_results(path: Path) -> bool:
    if path.suffix.lower() == ".jsonl":
        return first_line(path).keys() >= KEYS
    return path.suffix.lower() == ".json" and first_keys(path) >= {"evalId", "results"}


def _results(path: Path, problems: Problems) -> Iterator[_Result]:
    """The results in a file, each with its place."""
    if path.suffix.lower() == ".jsonl":
        for number, row in numbered_rows(path, problems):
            if row.keys() >= KEYS:
                yield _Result(f"{path.name}:{number}", row)
            else:
                problems.add(f"a result must have {', '.join(sorted(KEYS))}", path.name, number)
        return
    found = read_json(path, problems)
    if found is None:
        return
    given = found.get("results") if isinstance(found, dict) else None
    results: dict[str, Any] = given if isinstance(given, dict) else {}
    version = results.get("version")
    if version != VERSION or not isinstance(results.get("results"), list):
        got = "none" if version is None else version
        problems.add(
            f"results of promptfoo must be of version {VERSION}, got {got}. Export them with a current promptfoo: "
            "promptfoo export eval ID -o results.json",
            path.name,
        )
    else:
        for row in results["results"]:
            if isinstance(row, dict) and row.keys() >= KEYS:
                yield _Result(f"{path.name}:{row.get('id') or row['testIdx']}", row)
            else:
                problems.add(f"a result must have {', '.join(sorted(KEYS))}", path.name)


class _Tasks:
    """Names of tests: those with the same variables are one task, named by the number of the first and a hash."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, row: Mapping[str, Any]) -> str:
        given = row.get("vars") or (row["testCase"] or {}).get("vars") or {}
        digest = hashlib.sha256(as_json(given or row["testIdx"])).hexdigest()[:8]
        return self._names.setdefault(digest, f"{row['testIdx']}-{digest}")


class _Agents(NamedTuple):
    names: list[str]
    one_prompt: bool


def _agents(results: Sequence[_Result]) -> _Agents:
    """The provider of each result, with its prompt if there are several."""
    labels = [str((row.get("prompt") or {}).get("label") or "") for _, row in results]
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels), 1)}
    providers = [_provider(row["provider"]) for _, row in results]
    if len(numbers) < 2:
        return _Agents(providers, one_prompt=True)
    short = {label: label if 0 < len(label) <= 40 else f"prompt {number}" for label, number in numbers.items()}
    return _Agents([f"{who} | {short[label]}" for who, label in zip(providers, labels, strict=True)], one_prompt=False)


def _provider(given: Any) -> str:
    return str(given.get("label") or given.get("id")) if isinstance(given, dict) else str(given)


def _prompt(row: Mapping[str, Any]) -> str | None:
    raw = (row.get("prompt") or {}).get("raw")
    return None if raw is None else as_text(raw)


def _sample(row: Mapping[str, Any]) -> dict[str, Any]:
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


class _Graded:
    """Grades by whoever gave them."""

    def __init__(self) -> None:
        self.failed = 0
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def add(self, sample: int, row: Mapping[str, Any]) -> None:
        """Sort the grades of one result."""
        used: Counter[str] = Counter()
        for one in (row.get("gradingResult") or {}).get("componentResults") or ():
            assertion = (one or {}).get("assertion") or {}
            kind, score = assertion.get("type"), (one or {}).get("score")
            if kind is None or score is None:
                continue
            used[kind] += 1
            by_model = kind.removeprefix("not-").startswith(BY_MODELS)
            if by_model and (one.get("metadata") or {}).get("graderError"):
                self.failed += 1
                continue
            if kind == HUMAN:
                self._rows["labels"].append({"row": sample, "rater": HUMAN, "score": float(score)})
            elif by_model:
                given = {"reviewer": kind, "format": "promptfoo", "output": str(one.get("reason") or "")}
                criterion = as_text(assertion.get("value") or "")
                found = {"row": sample, **given, "value": float(score), "criterion": criterion}
                self._rows["judgements"].append(found)
            if kind != HUMAN:
                metric = kind if used[kind] == 1 else f"{kind}#{used[kind]}"
                self._rows["scores"].append({"row": sample, "metric": metric, "score": float(score)})

    def frame(self, name: str) -> pl.DataFrame | None:
        """The grades of one sort."""
        return pl.DataFrame(self._rows[name]) if name in self._rows else None
