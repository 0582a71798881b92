"""Samples of lm-evaluation-harness: ``--log_samples`` writes ``samples_TASK_DATE.jsonl`` into a folder per model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson

from goldless.studies.checking import Problems, as_json, as_text
from goldless.studies.importers.log import Found, LogImporter, first_line, listed, numbered_rows

NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
KEYS = {"doc_id", "doc", "arguments", "resps"}


class LmEval(LogImporter):
    """One row per document and filter; the model is named in the results file beside the samples, or by the folder."""

    description = "samples of lm-evaluation-harness (--log_samples)"
    patterns = ("samples_*.jsonl",)
    same = ("prompt", "reference", "document")

    def is_ours(self, path: Path) -> bool:
        return first_line(path).keys() >= KEYS

    def read_file(self, path: Path, found: Found, problems: Problems) -> None:
        """The samples of a generation task, by their first filter; tasks with log-likelihoods are left out."""
        first = first_line(path)
        if not first.keys() >= KEYS:
            got = "an empty file" if not path.stat().st_size else "another first line"
            problems.add(f"samples must have {', '.join(sorted(KEYS))} on every line, got {got}", path.name)
            return
        if not any(isinstance(text, str) for text in _texts(first)):  # but pairs of a number and whether it is greedy
            found.left_out.append(path.name)
            return
        named, run = NAME.fullmatch(path.name), _results(path)
        task, config = named["task"] if named else path.stem, run.get("config") or {}
        about = {
            "agent": run.get("model_name") or path.resolve().parent.name.replace("__", "/"),
            "model": as_json([run.get("model_source"), config.get("model_args")]).decode() if config else None,
            "chat template": run.get("chat_template_sha"),
        }
        shots, filters = (run.get("n-shot") or {}).get(task), dict[Any, None]()
        for line, row in numbered_rows(path, problems):
            filters[row.get("filter")] = None
            if row.get("filter") != first.get("filter"):
                continue
            if not (texts := _texts(row)):
                problems.add("resps must be a list of lists of texts", path.name, line)
            for metric in first.get("metrics") or ():  # a score is of the first response
                found.score(found.row, metric, row.get(metric))
            arguments, target, hashed = row.get("arguments"), row.get("target"), row.get("doc_hash")
            asked = arguments.get("gen_args_0") if isinstance(arguments, dict) else None
            document = {
                "task": f"{task}/{row.get('doc_id')}",
                "prompt": asked.get("arg_0") if isinstance(asked, dict) else None,
                "reference": None if target is None else as_text(target),
                "source": f"{path.parent.name}/{path.name}:{line}",
                "document": None if hashed is None else f"{hashed} {shots}-shot",
            }
            found.samples += [{**about, **document, "text": text} for text in texts]
        if len(filters) > 1:
            said = f"scores are by the filter {first.get('filter')} of {', '.join(map(str, filters))}"
            found.note(f"{task}: {said}; texts are unfiltered")

    def finish(self, found: Found, problems: Problems) -> None:
        """Say what is left out."""
        if found.left_out and found.samples:
            found.note(f"left out, log-likelihoods of given answers without text: {listed(found.left_out)}")
        elif found.left_out and not problems.total:
            said = "only log-likelihoods of given answers, no texts. Import tasks that generate"
            problems.add(f"{listed(found.left_out)}: {said}")
        if len({sample.pop("chat template") for sample in found.samples}) > 1:
            found.note("prompts are left out: each has its model's chat template. The documents are the same")
            for sample in found.samples:
                del sample["prompt"]


def _texts(row: dict[str, Any]) -> list[Any]:
    """The responses in a row."""
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
