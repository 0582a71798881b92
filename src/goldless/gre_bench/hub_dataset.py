"""A benchmark's dataset on the Hugging Face Hub: ``eval.yaml``, a card, and the list of papers.

The format of ``eval.yaml`` is that of https://huggingface.co/docs/hub/eval-results: name, description,
evaluation_framework and tasks, each with an id that results of models refer to. The Hub knows a framework by its name
only after it is listed in huggingface.js (packages/tasks/src/eval.ts), and a benchmark after it is on its allow-list.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from goldless.gre_bench.edition_scores import DEMONSTRATION
from goldless.gre_bench.recomputing import Recomputed

PAPERS = "papers.jsonl"


def task_id(found: Recomputed) -> str:
    """The task of an edition in ``eval.yaml``: its name and the metric that ranks."""
    return re.sub(r"[^a-z0-9]+", "_", f"{found.name}_{found.metric}".lower()).strip("_")


def dataset_files(found: Recomputed) -> dict[str, list[str]]:
    """The files of the dataset's repository. They have no texts of papers or reviews."""
    return {"eval.yaml": list(_eval_yaml(found)), "README.md": list(_card(found)), PAPERS: list(_papers(found))}


def _eval_yaml(found: Recomputed) -> Iterator[str]:
    # what JSON quotes, YAML reads
    yield f"name: {json.dumps(f'GRE-bench {found.name}')}\n"
    yield f"description: {json.dumps(_description(found), ensure_ascii=False)}\n"
    yield "evaluation_framework: goldless\n"
    yield f"tasks:\n  - id: {json.dumps(task_id(found))}\n    config: default\n    split: test\n"


def _description(found: Recomputed) -> str:
    invented = f"{DEMONSTRATION} " if found.scores.demonstration else ""
    return (
        f"{invented}Which model writes the most informative peer reviews? {found.scores.papers} papers from "
        f"{found.scores.source}, scored by {found.metric}."
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


def upload_commands(found: Recomputed, dataset: str, folder: Path, models: Mapping[str, Path]) -> Iterator[str]:
    """Commands that upload the files: to the dataset, and as pull requests to the models' repositories."""
    yield f"hf upload {shlex.quote(dataset)} {shlex.quote(str(folder))} . --repo-type dataset"
    for agent, files in models.items():
        listed = found.edition.config.models.get(agent)
        named = re.fullmatch(r"hf:([\w.-]+/[\w.-]+)", listed.model) if listed else None
        repository = named[1] if named else f"OWNER/REPOSITORY-OF-{agent}"
        yield f"hf upload {shlex.quote(repository)} {shlex.quote(str(files))} . --create-pr"
