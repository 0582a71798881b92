"""Files for the Hugging Face Hub: the benchmark's dataset and each model's results.

They are those of https://huggingface.co/docs/hub/eval-results; the Hub knows the framework after it is listed in
huggingface.js (packages/tasks/src/eval.ts), and a benchmark after it is on its allow-list.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

from goldless.apps.gre.papers import is_person
from goldless.apps.gre_board.recomputing import Recomputed
from goldless.apps.gre_board.site import KNOWN
from goldless.exporting.scored_run import path_name, scored_run, write_folder
from goldless.exporting.tables import write_results


def write_hub_files(recomputed: Recomputed, folder: Path, *, dataset: str, url: str | None) -> list[str]:
    """Write the benchmark's dataset and each model's results; returns the commands that upload them.

    The files have no texts of papers or reviews. Results of models are pull requests to their repositories.
    """
    run, result = scored_run(recomputed.edition.run_folder()), recomputed.result
    (board,) = run.chosen(recomputed.metric).values()
    board = replace(board, rows=tuple(row for row in board.rows if not is_person(row.agent)))
    # the task of an edition: its name and the metric that ranks
    task = re.sub(r"[^a-z0-9]+", "_", f"{recomputed.name}_{recomputed.metric}".lower()).strip("_")
    models = folder / "models"
    write_results(board, models, dataset=dataset, task_id=task, date=run.made_at[:10], url=url)
    description = (
        f"{result.demonstration or ''} Which model writes the most informative peer reviews? {result.papers} papers "
        f"from {result.source}, scored by {recomputed.metric}."
    ).strip()
    benchmark = {
        "name": f"GRE-bench {recomputed.name}",
        "description": description,
        "evaluation_framework": "goldless",
        "tasks": [{"id": task, "config": "default", "split": "test"}],
    }
    data = [{"split": "test", "path": "papers.jsonl"}]
    card = {"pretty_name": benchmark["name"], "configs": [{"config_name": "default", "data_files": data}]}
    extras = {paper: recomputed.study.task(paper).extra for paper in recomputed.study.tasks}
    papers = [{"paper": paper, **{key: of.get(key) for key in KNOWN}} for paper, of in extras.items()]
    introduction = "The table lists the papers, without their texts. Scores and evidence:"
    signatures = "".join(f"    {scored.signature}\n" for scored in recomputed.scored)
    files = {
        # JSON is YAML
        "eval.yaml": [json.dumps(benchmark, ensure_ascii=False, indent=2) + "\n"],
        "README.md": [
            f"---\n{json.dumps(card, indent=2)}\n---\n\n# {benchmark['name']}\n\n",
            f"{description}\n\n{introduction}\n\n{signatures}",
        ],
        "papers.jsonl": [json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in papers],
    }
    write_folder(folder / "dataset", files)
    commands = [f"hf upload {shlex.quote(dataset)} {shlex.quote(str(folder / 'dataset'))} . --repo-type dataset"]
    for agent in [row.agent for row in board.rows if row.score is not None]:
        model = recomputed.edition.config.models.get(agent)
        hub_name = re.fullmatch(r"hf:([\w.-]+/[\w.-]+)", model.model) if model else None
        repository = hub_name[1] if hub_name else f"OWNER/REPOSITORY-OF-{agent}"
        model_folder = shlex.quote(str(models / path_name(agent)))
        commands.append(f"hf upload {shlex.quote(repository)} {model_folder} . --create-pr")
    return commands
