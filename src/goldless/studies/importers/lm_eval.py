"""Samples of lm-evaluation-harness: ``--log_samples`` writes ``samples_TASK_DATE.jsonl`` into a folder per model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from goldless.files import POLARS_FAILED
from goldless.studies.checking import Problems, as_json
from goldless.studies.importers.log import Log, first_line, listed, log_files

PATTERN = "samples_*.jsonl"
NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
KEYS = {"doc_id", "doc", "arguments", "resps"}
METRIC = "metric "
"""How the columns of metrics' values begin."""
PROMPT = pl.Struct({"gen_args_0": pl.Struct({"arg_0": pl.String})})


@dataclass(frozen=True, slots=True)
class _Run:
    """What the results file beside the samples says about the model."""

    agent: str
    model: str | None = None
    template: str | None = None
    shots: Mapping[str, Any] | None = None


class LmEval:
    """One row per document and filter; the model is named in the results file beside the samples, or by the folder."""

    description = "samples of lm-evaluation-harness (--log_samples)"

    def recognises(self, path: Path) -> bool:
        return any(first_line(file).keys() >= KEYS for file in log_files([path], PATTERN))

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        """The samples of generation tasks, by their first filter; tasks with log-likelihoods are left out."""
        frames: list[pl.DataFrame] = []
        notes: dict[str, None] = {}
        likelihoods, templates = [], set()
        for path in log_files(paths, PATTERN):
            first = first_line(path)
            if not first.keys() >= KEYS:
                got = "an empty file" if not path.stat().st_size else "another first line"
                problems.add(f"samples must have {', '.join(sorted(KEYS))} on every line, got {got}", path.name)
            elif not _is_generation(first):
                likelihoods.append(path.name)
            else:
                run = _run(path)
                templates.add(run.template)
                frames += _samples(path, first, run, problems, notes)
        if likelihoods and frames:
            notes[f"left out, log-likelihoods of given answers without text: {listed(likelihoods)}"] = None
        elif likelihoods and not problems.total:
            said = "only log-likelihoods of given answers, no texts. Import tasks that generate"
            problems.add(f"{listed(likelihoods)}: {said}")
        if len(templates) > 1:
            notes["prompts are left out: each has its model's chat template. The documents are the same"] = None
            frames = [frame.drop("prompt") for frame in frames]
        samples = pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame({"task": [], "agent": []})
        metrics = [name for name in samples.columns if name.startswith(METRIC)]
        rows = samples.with_row_index("row").select("row", pl.col(metrics).name.replace(METRIC, ""))
        scores = rows.unpivot(index="row", variable_name="metric", value_name="score").drop_nulls() if metrics else None
        return Log(samples.drop(metrics), scores=scores, notes=tuple(notes), same=("prompt", "reference", "document"))


def _is_generation(first: Mapping[str, Any]) -> bool:
    """Whether the responses are texts; log-likelihoods are pairs of a number and whether it is greedy."""
    try:
        return isinstance(first["resps"][0][0], str)
    except (IndexError, KeyError, TypeError):
        return False


def _run(path: Path) -> _Run:
    """The model of a file of samples: from the results file of the same date, or of any, or the name of the folder."""
    named = NAME.fullmatch(path.name)
    same = path.with_name(f"results_{named['date']}.json") if named else path
    files = [same] if named and same.exists() else sorted(path.parent.glob("results_*.json"), reverse=True)[:1]
    folder = path.resolve().parent.name.replace("__", "/")
    try:
        found = orjson.loads(files[0].read_bytes()) if files else {}
    except orjson.JSONDecodeError:
        found = {}
    config = found.get("config") or {}
    model = as_json([found.get("model_source"), config.get("model_args")]).decode() if config else None
    return _Run(found.get("model_name") or folder, model, found.get("chat_template_sha"), found.get("n-shot"))


def _samples(
    path: Path, first: Mapping[str, Any], run: _Run, problems: Problems, notes: dict[str, None]
) -> list[pl.DataFrame]:
    """The samples of one file, in columns; none if it cannot be read."""
    named = NAME.fullmatch(path.name)
    task = named["task"] if named else path.stem
    metrics = {name: type(first.get(name)) for name in first.get("metrics") or ()}
    kinds = {name: pl.Boolean if kind is bool else pl.Float64 for name, kind in metrics.items() if kind in _NUMBERS}
    has_prompt = isinstance(first["arguments"], dict)
    schema = {
        "doc_id": pl.Int64 if isinstance(first["doc_id"], int) else pl.String,
        "target": pl.String,
        "resps": pl.List(pl.List(pl.String)),
        "filter": pl.String,
        "doc_hash": pl.String,
        **({"arguments": PROMPT} if has_prompt else {}),
        **kinds,
    }
    try:
        frame = pl.read_ndjson(path, schema=schema)
    except POLARS_FAILED:
        data = _without_nan(path, problems)
        if data is None:
            return []
        try:
            frame = pl.read_ndjson(data, schema=schema)
        except POLARS_FAILED as error:
            problems.add(f"cannot be read: {str(error).splitlines()[0]}", path.name)
            return []
    filters = frame["filter"].unique(maintain_order=True).to_list()
    if len(filters) > 1:
        said = f"scores are by the filter {filters[0]} of {', '.join(map(str, filters))}; texts are unfiltered"
        notes[f"{task}: {said}"] = None
    place, shots = f"{path.parent.name}/{path.name}:", (run.shots or {}).get(task)
    frame = frame.with_row_index("line", offset=1).filter(pl.col("filter").eq_missing(pl.lit(filters[0])))
    lost = frame.filter(pl.col("resps").list.len().fill_null(0) == 0)["line"].to_list()
    for line in lost:
        problems.add("resps must be a list of lists of texts", path.name, line)
    chosen = frame.select(
        task=pl.concat_str(pl.lit(f"{task}/"), pl.col("doc_id").cast(pl.String)),
        agent=pl.lit(run.agent),
        text=pl.col("resps").list.first(),
        prompt=pl.col("arguments").struct.field("gen_args_0").struct.field("arg_0") if has_prompt else pl.lit(None),
        reference=pl.col("target"),
        model=pl.lit(run.model, pl.String),
        source=pl.concat_str(pl.lit(place), pl.col("line").cast(pl.String)),
        document=pl.concat_str(pl.col("doc_hash"), pl.lit(f" {shots}-shot")),
        **{f"{METRIC}{name}": pl.col(name).cast(pl.Float64) for name in kinds},
    )
    several = chosen.explode("text")
    if several.height > chosen.height and kinds:  # a score is of the first response
        is_first = pl.int_range(pl.len()).over("source") == 0
        scores = [f"{METRIC}{name}" for name in kinds]
        several = several.with_columns(pl.when(is_first).then(name).alias(name) for name in scores)
    return [several]


def _without_nan(path: Path, problems: Problems) -> bytes | None:
    """The lines with null for NaN and infinity, which Python writes; None, with problems, if one is not JSON."""
    lines: list[bytes] = []
    before = problems.total
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            lines.append(orjson.dumps(json.loads(line)) if line.strip() else b"")
        except ValueError as error:
            problems.add(f"not JSON: {error}", path.name, number)
    return b"\n".join(lines) if problems.total == before else None


_NUMBERS = (int, float, bool, type(None))
