"""A benchmark's dataset on the Hugging Face Hub: ``eval.yaml``, a card, and the list of papers.

The format of ``eval.yaml`` is that of https://huggingface.co/docs/hub/eval-results: name, description,
evaluation_framework and tasks, each with an id that results of models refer to. The Hub knows a framework by its name
only after it is listed in huggingface.js (packages/tasks/src/eval.ts), and a benchmark after it is on its allow-list.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from goldless.apps.gre.papers import is_person
from goldless.apps.gre.scoring import Recomputed
from goldless.exporting.hub_results import write_results
from goldless.exporting.scored_run import path_name, scored_run, write_folder

PAPERS = "papers.jsonl"


def write_hub_files(found: Recomputed, folder: Path, *, dataset: str, url: str | None) -> list[str]:
    """Write the benchmark's dataset and each model's results; returns the commands that upload them.

    The files have no texts of papers or reviews. Results of models are pull requests to their repositories.
    """
    run = scored_run(found.edition.run_folder())
    (board,) = run.chosen(found.metric).values()
    board = replace(board, rows=tuple(row for row in board.rows if not is_person(row.agent)))
    # the task of an edition: its name and the metric that ranks
    task = re.sub(r"[^a-z0-9]+", "_", f"{found.name}_{found.metric}".lower()).strip("_")
    models = folder / "models"
    write_results(board, models, dataset=dataset, task_id=task, date=run.made_at[:10], url=url)
    files = {"eval.yaml": _eval_yaml(found, task), "README.md": _card(found), PAPERS: _papers(found)}
    write_folder(folder / "dataset", {name: list(lines) for name, lines in files.items()})
    commands = [f"hf upload {shlex.quote(dataset)} {shlex.quote(str(folder / 'dataset'))} . --repo-type dataset"]
    for agent in [row.agent for row in board.rows if row.score is not None]:
        listed = found.edition.config.models.get(agent)
        named = re.fullmatch(r"hf:([\w.-]+/[\w.-]+)", listed.model) if listed else None
        repository = named[1] if named else f"OWNER/REPOSITORY-OF-{agent}"
        own = shlex.quote(str(models / path_name(agent)))
        commands.append(f"hf upload {shlex.quote(repository)} {own} . --create-pr")
    return commands


def _eval_yaml(found: Recomputed, task: str) -> Iterator[str]:
    # what JSON quotes, YAML reads
    yield f"name: {json.dumps(f'GRE-bench {found.name}')}\n"
    yield f"description: {json.dumps(_description(found), ensure_ascii=False)}\n"
    yield "evaluation_framework: goldless\n"
    yield f"tasks:\n  - id: {json.dumps(task)}\n    config: default\n    split: test\n"


def _description(found: Recomputed) -> str:
    result = found.result
    invented = f"{result.demonstration} " if result.demonstration else ""
    return (
        f"{invented}Which model writes the most informative peer reviews? {result.papers} papers from "
        f"{result.source}, scored by {found.metric}."
    )


def _card(found: Recomputed) -> Iterator[str]:
    yield f"---\npretty_name: {json.dumps(f'GRE-bench {found.name}')}\nconfigs:\n  - config_name: default\n"
    yield f"    data_files:\n      - split: test\n        path: {PAPERS}\n---\n\n# GRE-bench {found.name}\n\n"
    yield f"{_description(found)}\n\nThe table lists the papers, without their texts. Scores and evidence:\n\n"
    for scored in found.scored:
        yield f"    {scored.signature}\n"


def _papers(found: Recomputed) -> Iterator[str]:
    for task in found.study.tasks:
        known = found.study.task(task).extra
        row = {"paper": task, **{key: known.get(key) for key in ("title", "public_date", "anchor")}}
        yield json.dumps(row, ensure_ascii=False, default=str) + "\n"
