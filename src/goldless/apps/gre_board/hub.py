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


def write_hub_files(found: Recomputed, folder: Path, *, dataset: str, url: str | None) -> list[str]:
    """Write the benchmark's dataset and each model's results; returns the commands that upload them.

    The files have no texts of papers or reviews. Results of models are pull requests to their repositories.
    """
    run, result = scored_run(found.edition.run_folder()), found.result
    (board,) = run.chosen(found.metric).values()
    board = replace(board, rows=tuple(row for row in board.rows if not is_person(row.agent)))
    # the task of an edition: its name and the metric that ranks
    task = re.sub(r"[^a-z0-9]+", "_", f"{found.name}_{found.metric}".lower()).strip("_")
    models = folder / "models"
    write_results(board, models, dataset=dataset, task_id=task, date=run.made_at[:10], url=url)
    said = (
        f"{result.demonstration or ''} Which model writes the most informative peer reviews? {result.papers} papers "
        f"from {result.source}, scored by {found.metric}."
    ).strip()
    benchmark = {
        "name": f"GRE-bench {found.name}",
        "description": said,
        "evaluation_framework": "goldless",
        "tasks": [{"id": task, "config": "default", "split": "test"}],
    }
    data = [{"split": "test", "path": "papers.jsonl"}]
    card = {"pretty_name": benchmark["name"], "configs": [{"config_name": "default", "data_files": data}]}
    extras = {paper: found.study.task(paper).extra for paper in found.study.tasks}
    papers = [{"paper": paper, **{key: of.get(key) for key in KNOWN}} for paper, of in extras.items()]
    below = "The table lists the papers, without their texts. Scores and evidence:"
    signed = "".join(f"    {scored.signature}\n" for scored in found.scored)
    made = {
        # JSON is YAML
        "eval.yaml": [json.dumps(benchmark, ensure_ascii=False, indent=2) + "\n"],
        "README.md": [
            f"---\n{json.dumps(card, indent=2)}\n---\n\n# {benchmark['name']}\n\n{said}\n\n{below}\n\n{signed}"
        ],
        "papers.jsonl": [json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in papers],
    }
    write_folder(folder / "dataset", made)
    commands = [f"hf upload {shlex.quote(dataset)} {shlex.quote(str(folder / 'dataset'))} . --repo-type dataset"]
    for agent in [row.agent for row in board.rows if row.score is not None]:
        model = found.edition.config.models.get(agent)
        named = re.fullmatch(r"hf:([\w.-]+/[\w.-]+)", model.model) if model else None
        repository = named[1] if named else f"OWNER/REPOSITORY-OF-{agent}"
        own = shlex.quote(str(models / path_name(agent)))
        commands.append(f"hf upload {shlex.quote(repository)} {own} . --create-pr")
    return commands
