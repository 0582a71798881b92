"""HELM: folders of runs, each with ``scenario_state.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goldless.studies.checking import Problems
from goldless.studies.importers.log import Found, LogImporter, first_keys, read_json

STATE = "scenario_state.json"
STATS = "per_instance_stats.json"
HIDDEN = re.compile(r"\[?(encrypted|redacted)[^\]]*\]?")
"""What HELM publishes in place of the texts of some scenarios."""


class Helm(LogImporter):
    """Requests and completions of runs; perturbed instances are left out and counted."""

    description = "runs of HELM (scenario_state.json)"
    patterns = (STATE,)

    def is_ours(self, path: Path) -> bool:
        return path.name == STATE and first_keys(path) >= {"adapter_spec"}

    def read_file(self, path: Path, found: Found, problems: Problems) -> None:
        state = read_json(path, problems)
        if state is None:
            return
        if not isinstance(state, dict) or not {"adapter_spec", "request_states"} <= state.keys():
            problems.add("the state of a run must have adapter_spec and request_states", path.name)
            return
        model, scenario = str(state["adapter_spec"].get("model")), _scenario(path, problems)
        rows: dict[tuple[str, int], int] = {}
        for one in state["request_states"]:
            if (one.get("instance") or {}).get("perturbation"):
                found.counted["perturbed instances are left out"] += 1
                continue
            name, trial = one["instance"].get("id"), int(one.get("train_trial_index") or 0)
            rows.setdefault((str(name), trial), found.row)
            place = {"trial": str(trial), "source": f"{path.parent.name}/{path.name}:{name}"}
            found.samples.append({**_sample(one), "task": f"{scenario}/{name}", "agent": model, **place})
        stats = path.with_name(STATS)
        for one in (read_json(stats, problems) if stats.exists() else None) or ():
            instance = str(one.get("instance_id")), int(one.get("train_trial_index") or 0)
            for stat in (one.get("stats") or ()) if instance in rows and not one.get("perturbation") else ():
                found.score(rows[instance], str(stat["name"].get("name")), stat.get("mean"))


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
