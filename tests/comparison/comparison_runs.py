"""Run folders with known scores, and runs judged by scripted models, for tests of comparisons and gates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

import goldless
from goldless.models.scripted import ScriptedModel
from goldless.signature import Signature

SIGNATURE = "rouge-l|tokens:words|against:reference|seed:0|study:s"


def written_run(
    folder: Path,
    scores: Mapping[str, Sequence[float | None]],
    *,
    metric: str = "rouge-l",
    unit: str = "points",
    signature: str = SIGNATURE,
    texts: Mapping[str, str] | None = None,
    tasks: Sequence[str] | None = None,
    prompts: Mapping[str, str] | None = None,
    board: Mapping[str, object] | None = None,
) -> Path:
    """A score run with these scores per agent, task by task; None: missing. ``texts``: what each agent says."""
    folder.mkdir(parents=True)
    names = list(tasks or (f"t{i}" for i in range(len(next(iter(scores.values()))))))
    cells = [
        (task, agent, score) for agent, column in scores.items() for task, score in zip(names, column, strict=True)
    ]
    said = {agent: agent for agent in scores} | dict(texts or {})
    responses = [{"task": task, "agent": agent, "text": f"{said[agent]} on {task}"} for task, agent, _ in cells]
    pl.DataFrame(responses).write_parquet(folder / "responses.parquet")
    asked = [{"task": task, "prompt": (prompts or {}).get(task, f"What of {task}?")} for task in names]
    pl.DataFrame(asked).write_parquet(folder / "tasks.parquet")
    rows = [(metric, task, agent, score, 1, int(score is not None), signature) for task, agent, score in cells]
    columns = ["metric", "task", "agent", "score", "asked", "used", "signature"]
    pl.DataFrame(rows, schema=columns, orient="row").write_csv(folder / "response_scores.csv")
    found = {"metric": metric, "unit": unit, "level": 0.95, "rows": [], "settings": Signature.parse(signature).parts}
    document = {"metrics": {metric: found}, **(board or {})}
    (folder / "leaderboard.json").write_text(json.dumps(document))
    return folder


def noisy(n: int, shift: float, seed: int = 1) -> dict[str, list[float]]:
    """Scores of ``old`` and ``new`` on n tasks, ``new`` higher by about ``shift`` with a spread of 1."""
    random = np.random.default_rng(seed)
    old = random.normal(10, 2, n)
    return {"old": old.tolist(), "new": (old + shift + random.normal(0, 1, n)).tolist()}


def judge(*, flips: int = 0, name: str = "judge", rates: bool = False) -> ScriptedModel:
    """Prefers the larger number, or rates by it; asked a second time, it changes its mind ``flips`` times."""
    asked: dict[str, int] = {}
    changed: set[str] = set()

    def answer(request) -> str:
        question = request.messages[-1].content
        asked[question] = asked.get(question, 0) + 1
        numbers = [int(n) for n in re.findall(r"worth (\d+)", question)]
        other = asked[question] > 1 and (question in changed or len(changed) < flips)
        if other:
            changed.add(question)
        if rates:
            return str(6 - numbers[-1]) if other else str(numbers[-1])
        return "one" if (numbers[-2] > numbers[-1]) != other else "two"

    return ScriptedModel(answers=answer, name=name)


def worths(n: int = 40, *, old: int = 2, new: int = 4, other: int = 3) -> pl.DataFrame:
    """Responses that say what they are worth."""
    return pl.DataFrame(
        [
            {"task": f"t{i}", "agent": agent, "text": f"item {i} is worth {worth}"}
            for i in range(n)
            for agent, worth in {"old": old, "new": new, "other": other}.items()
        ]
    )


def reviewed(folder: Path, model: ScriptedModel, study: pl.DataFrame, **options) -> Path:
    """A review of a study by one reviewer called judge."""
    found = goldless.review(study, reviewers={"judge": model}, **{"resamples": 200, "verdicts": "labels", **options})
    return goldless.save_review(found, folder)
