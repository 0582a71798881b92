"""``goldless export``: scores and studies in other tools' formats."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from goldless.cli.command import OUTPUT, own, verb
from goldless.cli.console import echo, say
from goldless.errors import UserError

FORMATS = "eee, inspect, hf-eval-results, markdown, csv, dpo-pairs, otel, schema, jsonl, parquet, or a plugin's."
HUB, EVERY, INSPECT, PAIRS = "hf-eval-results", "eee", "inspect", "dpo-pairs"


@verb(first=("path", "metric"))
def export(
    exporter: Annotated[str, typer.Argument(metavar="FORMAT", help=f"What to write: {FORMATS}")],
    source: Annotated[str, typer.Argument(metavar="RUN_OR_STUDY", help="A run folder, or a study.")],
    *,
    path: Annotated[
        Path | None, own("Write to this file or folder.", OUTPUT, "--out PATH", default="print, if it is one file")
    ] = None,
    metric: Annotated[
        str | None, own("Metric to export (default: all; dpo-pairs and hf-eval-results: the first).", OUTPUT, "NAME")
    ] = None,
    margin: Annotated[
        float | None, own("Smallest difference between two responses that makes a pair.", PAIRS, "NUMBER")
    ] = None,
    decided: Annotated[
        bool, own("Only pairs of agents whose difference over all tasks is decided, the better one chosen.", PAIRS)
    ] = False,
    scale: Annotated[str | None, own("Make pairs from judgements on this scale.", PAIRS, "NAME")] = None,
    logs: Annotated[
        list[str] | None, own("Inspect log that the responses are from. Repeat it for several.", INSPECT, "FILE")
    ] = None,
    dataset: Annotated[str | None, own("The benchmark's dataset on the Hub.", HUB, "OWNER/NAME")] = None,
    task_id: Annotated[str | None, own("The benchmark's task, as in the dataset's eval.yaml.", HUB, "ID")] = None,
    url: Annotated[str | None, own("Where the results are published.", HUB)] = None,
    organization: Annotated[str | None, own("Who ran the evaluation.", EVERY, "NAME")] = None,
    relationship: Annotated[
        str | None, own("Evaluator's relation to the models: first_party, third_party, collaborative, other.", EVERY)
    ] = None,
) -> None:
    """Write the scores of a run, or a study, in another tool's format.

    Examples:
      goldless export markdown runs/first
      goldless export eee runs/first --out every_eval_ever
      goldless export dpo-pairs runs/first --margin 20 --out pairs.jsonl
    """
    from goldless.exporting.catalogue import check_options, export, exported_thing, find_exporter, writes_file
    from goldless.files import temporary_prefix

    given: dict[str, Any] = {
        "metric": metric,
        "margin": margin,
        "decided": decided or None,
        "scale": scale,
        "logs": logs,
        "dataset": dataset,
        "task_id": task_id,
        "url": url,
        "organization": organization,
        "relationship": relationship,
    }
    options = {name: value for name, value in given.items() if value is not None}
    chosen = find_exporter(exporter)
    check_options(exporter, options)
    thing = exported_thing(source, exporter)
    if path is not None:
        say(f"{exporter}: {export(thing, path, exporter=exporter, **options)}")
        return
    if not writes_file(chosen, thing):
        raise UserError(f"{exporter} writes a folder. Name it with --out")
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        made = export(thing, Path(folder) / f"out{chosen.suffix}", exporter=exporter, **options)
        echo(made.read_text(encoding="utf-8"))
