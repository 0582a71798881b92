"""HELM: folders of runs, each with ``scenario_state.json``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from goldless.studies.checking import Problems
from goldless.studies.importers.files import first_keys, log_files, read_json
from goldless.studies.importers.log import Log, samples_frame

STATE = "scenario_state.json"
STATS = "per_instance_stats.json"
HIDDEN = re.compile(r"\[?(encrypted|redacted)[^\]]*\]?")
"""What HELM publishes in place of the texts of some scenarios."""


class Helm:
    """Requests and completions of runs."""

    description = "runs of HELM (scenario_state.json)"

    def recognises(self, path: Path) -> bool:
        """Whether it is the state of a run, or a folder with one."""
        return any(first_keys(file) >= {"adapter_spec"} for file in log_files([path], STATE) if file.name == STATE)

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        """Responses and scores by instance; perturbed instances are left out and counted."""
        samples: list[dict[str, Any]] = []
        scores: list[dict[str, Any]] = []
        perturbed = 0
        for path in log_files(paths, STATE):
            state = read_json(path, problems)
            if state is None:
                continue
            if not isinstance(state, dict) or not {"adapter_spec", "request_states"} <= state.keys():
                problems.add("the state of a run must have adapter_spec and request_states", path.name)
                continue
            model, scenario = str(state["adapter_spec"].get("model")), _scenario(path, problems)
            rows: dict[tuple[str, int], int] = {}
            for one in state["request_states"]:
                if (one.get("instance") or {}).get("perturbation"):
                    perturbed += 1
                    continue
                found = _sample(one)
                trial = int(one.get("train_trial_index") or 0)
                rows.setdefault((str(one["instance"].get("id")), trial), len(samples))
                task = f"{scenario}/{one['instance'].get('id')}"
                place = f"{path.parent.name}/{path.name}:{one['instance'].get('id')}"
                samples.append({**found, "task": task, "agent": model, "trial": str(trial), "source": place})
            scores += _scores(path.with_name(STATS), rows, problems)
        notes = [f"{perturbed:,} perturbed instances are left out"] * bool(perturbed)
        return Log(samples_frame(samples), scores=pl.DataFrame(scores) if scores else None, notes=notes)


def _scenario(path: Path, problems: Problems) -> str:
    """The name of the run without the model's."""
    spec = path.with_name("run_spec.json")
    found = read_json(spec, problems) if spec.exists() else None
    name = str(found.get("name")) if isinstance(found, dict) else path.parent.name
    return re.sub(r"(?<=[:,])model=[^,]*,?|,?model=[^,]*$", "", name).strip(",:") or name


def _sample(one: Mapping[str, Any]) -> dict[str, Any]:
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


def _scores(path: Path, rows: Mapping[tuple[str, int], int], problems: Problems) -> Iterator[dict[str, Any]]:
    """Means of the instances' statistics."""
    found = read_json(path, problems) if path.exists() else None
    for one in found if isinstance(found, list) else ():
        row = rows.get((str(one.get("instance_id")), int(one.get("train_trial_index") or 0)))
        for stat in (one.get("stats") or ()) if row is not None and not one.get("perturbation") else ():
            if isinstance(stat.get("mean"), int | float):
                yield {"row": row, "metric": str(stat["name"].get("name")), "score": float(stat["mean"])}
