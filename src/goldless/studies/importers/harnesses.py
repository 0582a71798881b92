"""Harnesses that run models: lm-evaluation-harness, AlpacaEval, what Every Eval Ever converts, and promptfoo."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from goldless.errors import listed
from goldless.studies.checking import Problems, Row, as_json, as_text
from goldless.studies.importers.log import Log, LogImporter, expecting, first_keys, log_files
from goldless.studies.tables import file_rows, first_row

# --- lm-evaluation-harness -------------------------------------------------------------------------------------------

NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")


class LmEval(LogImporter):
    """One row per document and filter; the model is named in the results file beside the samples, or by the folder."""

    description = "samples of lm-evaluation-harness (--log_samples)"
    patterns = ("samples_*.jsonl",)
    kinds: Mapping[str, set[str]] = {"sample": {"doc_id", "doc", "arguments", "resps"}}
    row_must = "samples must have arguments, doc, doc_id, resps on every line"
    same = ("prompt", "reference", "document")

    def read_file(self, path: Path, log: Log, problems: Problems) -> None:
        """Add the samples of a generation task, by their first filter; tasks with log-likelihoods are left out."""
        first = first_row(path)
        if not first.keys() >= self.kinds["sample"]:
            got = "an empty file" if not path.stat().st_size else "another first line"
            problems.add(f"{self.row_must}, got {got}", path.name)
            return
        if not any(isinstance(text, str) for text in _texts(first)):  # but pairs of a number and whether it is greedy
            log.about.setdefault("left out", []).append(path.name)
            return
        named, run = NAME.fullmatch(path.name), _results(path)
        task, config = named["task"] if named else path.stem, run.get("config") or {}
        about = {
            "agent": run.get("model_name") or path.resolve().parent.name.replace("__", "/"),
            "model": as_json([run.get("model_source"), config.get("model_args")]).decode() if config else None,
            "chat template": run.get("chat_template_sha"),
        }
        shots, filters = (run.get("n-shot") or {}).get(task), dict[Any, None]()
        for line, row in file_rows(path, problems):
            filters[row.get("filter")] = None
            if row.get("filter") != first.get("filter"):
                continue
            if not (texts := _texts(row)):
                problems.add("resps must be a list of lists of texts", path.name, line)
            for metric in first.get("metrics") or ():  # a score is of the first response
                log.score(log.row, metric, row.get(metric))
            arguments, target, hashed = row.get("arguments"), row.get("target"), row.get("doc_hash")
            asked = arguments.get("gen_args_0") if isinstance(arguments, dict) else None
            document = {
                "task": f"{task}/{row.get('doc_id')}",
                "prompt": asked.get("arg_0") if isinstance(asked, dict) else None,
                "reference": None if target is None else as_text(target),
                "source": f"{path.parent.name}/{path.name}:{line}",
                "document": None if hashed is None else f"{hashed} {shots}-shot",
            }
            log.samples += [{**about, **document, "text": text} for text in texts]
        note = f"{task}: scores are by the filter {first.get('filter')} of {', '.join(map(str, filters))}"
        if len(filters) > 1 and (note := f"{note}; texts are unfiltered") not in log.notes:
            log.notes.append(note)

    def finish(self, log: Log, problems: Problems) -> None:
        left_out = listed(log.about.get("left out", ()))
        if left_out and log.samples:
            log.notes.append(f"left out, log-likelihoods of given answers without text: {left_out}")
        elif left_out and not problems.total:
            said = "only log-likelihoods of given answers, no texts. Import tasks that generate"
            problems.add(f"{left_out}: {said}")
        if len({sample.pop("chat template") for sample in log.samples}) > 1:
            log.notes.append("prompts are left out: each has its model's chat template. The documents are the same")
            for sample in log.samples:
                del sample["prompt"]


def _texts(row: Mapping[str, Any]) -> list[Any]:
    given = row.get("resps")
    first = given[0] if isinstance(given, list) and given else None
    return first if isinstance(first, list) else []


def _results(path: Path) -> dict[str, Any]:
    """The results file beside a file of samples: that of the same date, or of any."""
    named = NAME.fullmatch(path.name)
    same = path.with_name(f"results_{named['date']}.json") if named else path
    files = [same] if named and same.exists() else sorted(path.parent.glob("results_*.json"), reverse=True)[:1]
    try:
        found = orjson.loads(files[0].read_bytes()) if files else {}
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


# --- AlpacaEval -------------------------------------------------------------------------------------------------------


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


# --- Every Eval Ever -------------------------------------------------------------------------------------------------


class EveryEvalEver(LogImporter):
    """One line per model and sample, of whatever tool was converted to the schema."""

    description = "instance-level results of Every Eval Ever (.jsonl)"
    patterns = ("*.jsonl",)
    kinds: Mapping[str, set[str]] = {
        "instance": {"evaluation_id", "model_id", "evaluation_name", "sample_id", "interaction_type", "input"}
    }
    row_must = "an instance must have evaluation_id, evaluation_name, input, interaction_type, model_id, sample_id"

    def is_ours(self, path: Path) -> bool:
        aggregate = {"evaluation_id", "evaluation_results", "source_metadata"}
        return super().is_ours(path) or (path.suffix.lower() == ".json" and first_keys(path) >= aggregate)

    def read_file(self, path: Path, log: Log, problems: Problems) -> None:
        if path.suffix.lower() == ".json":
            said = "the file has aggregate results without responses. Give the .jsonl file of its instances"
            problems.add(said, path.name)
            return
        log.about = {"lines": {}, "results": Counter()}  # a sample is in one file
        super().read_file(path, log, problems)

    def add(self, kind: str, row: Row, log: Log, path: Path, number: int | None) -> None:  # noqa: ARG002
        """Add the response, the final turn of a conversation, and the score under the name of its evaluation.

        A sample has one line per result of its evaluation; the same result again is another sample.
        """
        result = row.get("evaluation_result_id")
        key = tuple(str(row[name]) for name in ("evaluation_id", "model_id", "sample_id"))
        lines, before = log.about["lines"].setdefault(key, []), log.about["results"][(*key, str(result))]
        log.about["results"][(*key, str(result))] += 1
        if result is None or before >= len(lines):
            references = [as_text(one) for one in row["input"].get("reference") or ()]
            place = {"source": f"{path.name}:{number}", "reference": next(iter(references), None)}
            lines.append(log.row)
            log.samples.append(_instance(row) | place)
            log.counted["samples have several references; the first is used"] += len(references) > 1
        score, at = (row.get("evaluation") or {}).get("score"), lines[-1 if result is None else before]
        log.score(at, str(result or row["evaluation_name"]), score)


def _instance(row: Row) -> dict[str, Any]:
    """The output of a single turn, or the last thing that the model says; reasoning is not part of it."""
    error, output = row.get("error"), (row.get("output") or {}).get("raw")
    said = [one.get("content") for one in row.get("messages") or () if one.get("role") == "assistant"]
    text = (output[0] if isinstance(output, list) else output) if output else next(filter(None, reversed(said)), None)
    return {
        "task": f"{row['evaluation_name']}/{row['sample_id']}",
        "agent": str(row["model_id"]),
        "text": None if error or text is None else as_text(text),
        "missing": "error" if error else None,
        "message": as_text(error) if error else None,
        "prompt": as_text(row["input"]["raw"]) if row["input"].get("raw") else None,
        "interaction": row["interaction_type"],
    }


# --- promptfoo -------------------------------------------------------------------------------------------------------

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
