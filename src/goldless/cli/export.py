"""``goldless export``: scores and studies in other tools' formats."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from goldless.cli.command import verb
from goldless.cli.console import echo, say
from goldless.cli.output import OUTPUT
from goldless.errors import UserError
from goldless.runs.option_forms import LINES, argument, option, values

FORMATS = "eee, inspect, hf-eval-results, markdown, csv, dpo-pairs, otel, schema, jsonl, parquet, or a plugin's."
HUB, EVERY, INSPECT, PAIRS = "hf-eval-results", "eee", "inspect", "dpo-pairs"


@dataclass(frozen=True, kw_only=True)
class Exporting:
    exporter: str = argument("FORMAT", f"What to write: {FORMATS}")
    source: str = argument("RUN_OR_STUDY", "A run folder, or a study.")
    path: Path | None = option(
        None, "Write to this file or folder.", "--out PATH", group=OUTPUT, shown="print, if it is one file"
    )
    metric: str | None = option(
        None, "Metric to export (default: all; dpo-pairs and hf-eval-results: the first).", "NAME"
    )
    margin: float | None = option(None, "Smallest difference between two responses that makes a pair.", group=PAIRS)
    decided: bool = option(
        False,
        "Only pairs of agents whose difference over all tasks is decided, the better one chosen.",
        "--decided/--no-decided",
    )
    scale: str | None = option(None, "Make pairs from judgements on this scale.", "NAME")
    logs: Sequence[str] = option(
        (), "Inspect log that the responses are from. Repeat it for several.", "FILE", group=INSPECT, form=LINES
    )
    dataset: str | None = option(None, "The benchmark's dataset on the Hub.", "OWNER/NAME", group=HUB)
    task_id: str | None = option(None, "The benchmark's task, as in the dataset's eval.yaml.", "ID")
    url: str | None = option(None, "Where the results are published.")
    organization: str | None = option(None, "Who ran the evaluation.", "NAME", group=EVERY)
    relationship: str | None = option(
        None, "Evaluator's relation to the models: first_party, third_party, collaborative, other."
    )


@verb(first=("path", "metric"))
def export(own: Exporting) -> None:
    """Write the scores of a run, or a study, in another tool's format.

    Examples:
      goldless export markdown runs/first
      goldless export eee runs/first --out every_eval_ever
      goldless export dpo-pairs runs/first --margin 20 --out pairs.jsonl
    """
    from goldless.exporting.catalogue import check_options, export, exported_thing, find_exporter, writes_file
    from goldless.files import temporary_prefix

    given = {**values(own, "exporter", "source", "path"), "decided": own.decided or None, "logs": own.logs or None}
    options = {name: value for name, value in given.items() if value is not None}
    chosen = find_exporter(own.exporter)
    check_options(own.exporter, options)
    thing = exported_thing(own.source, own.exporter)
    if own.path is not None:
        say(f"{own.exporter}: {export(thing, own.path, exporter=own.exporter, **options)}")
        return
    if not writes_file(chosen, thing):
        raise UserError(f"{own.exporter} writes a folder. Name it with --out")
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        made = export(thing, Path(folder) / f"out{chosen.suffix}", exporter=own.exporter, **options)
        echo(made.read_text(encoding="utf-8"))
