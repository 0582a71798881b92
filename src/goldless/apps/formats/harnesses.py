"""Harnesses that run models: HELM and lighteval."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from goldless.studies.checking import Problems, Row
from goldless.studies.importers.log import Log, LogImporter, first_keys


class Lighteval(LogImporter):
    """Documents and what a model said, each of several responses as a sample; metrics' values are scores."""

    description = "details of lighteval (.parquet)"
    patterns = ("details_*.parquet",)
    kinds: Mapping[str, set[str]] = {"details": {"doc", "model_response"}}
    row_must = "details must have doc, model_response"

    def add(self, kind: str, row: Row, log: Log, path: Path, number: int | None) -> None:  # noqa: ARG002
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


STATE = "scenario_state.json"
STATS = "per_instance_stats.json"
HIDDEN = re.compile(r"\[?(encrypted|redacted)[^\]]*\]?")
"""The marks that HELM publishes in place of the texts of some scenarios."""


class Helm(LogImporter):
    """Requests and completions of runs; perturbed instances are left out and counted."""

    description = "runs of HELM (scenario_state.json)"
    patterns = (STATE,)

    documents = True
    kinds: Mapping[str, set[str]] = {"run": {"adapter_spec", "request_states"}}
    row_must = "the state of a run must have adapter_spec and request_states"

    def is_ours(self, path: Path) -> bool:
        return path.name == STATE and "adapter_spec" in first_keys(path)

    def add(self, kind: str, row: Row, log: Log, path: Path, number: int | None) -> None:  # noqa: ARG002
        """Add the requests of a run with their statistics; the task is the run's name without its model."""
        about, given = (_beside(path, name) for name in ("run_spec.json", STATS))
        name = str(about["name"]) if about else path.parent.name
        scenario = re.sub(r"(?<=[:,])model=[^,]*,?|,?model=[^,]*$", "", name).strip(",:") or name
        rows: dict[tuple[str, int], int] = {}
        for one in row["request_states"]:
            if (one.get("instance") or {}).get("perturbation"):
                log.counted["perturbed instances are left out"] += 1
                continue
            instance, trial = one["instance"].get("id"), int(one.get("train_trial_index") or 0)
            rows.setdefault((str(instance), trial), log.row)
            made = {"task": f"{scenario}/{instance}", "agent": str(row["adapter_spec"].get("model"))}
            place = {"trial": str(trial), "source": f"{path.parent.name}/{path.name}:{instance}"}
            log.samples.append({**_completion(one), **made, **place})
        for one in given or ():
            at = rows.get((str(one.get("instance_id")), int(one.get("train_trial_index") or 0)))
            if at is not None and not one.get("perturbation"):
                for stat in one.get("stats") or ():
                    log.score(at, str(stat["name"].get("name")), stat.get("mean"))


def _beside(path: Path, name: str) -> Any:
    """The JSON file of this name in the run's folder; None if there is none."""
    file = path.with_name(name)
    return orjson.loads(file.read_bytes()) if file.exists() else None


def _completion(one: Row) -> dict[str, Any]:
    """The text of a request, or why it is missing, with its prompt and reference."""
    instance, result = one["instance"], one.get("result") or {}
    prompt = (one.get("request") or {}).get("prompt") or (instance.get("input") or {}).get("text")
    references = [
        (reference.get("output") or {}).get("text")
        for reference in instance.get("references") or ()
        if "correct" in (reference.get("tags") or ())
    ]
    text = next((one.get("text") for one in result.get("completions") or ()), None)
    hidden = any(isinstance(given, str) and HIDDEN.fullmatch(given.strip()) for given in (text, prompt))
    failed = not result.get("success", True)
    return {
        "text": None if hidden or failed else text,
        "missing": "encrypted" if hidden else "error" if failed else None,
        "message": str(result["error"]) if failed and result.get("error") else None,
        "prompt": None if hidden else prompt,
        "reference": None if hidden else next(iter(references), None),
    }


HELM = Helm()
LIGHTEVAL = Lighteval()
