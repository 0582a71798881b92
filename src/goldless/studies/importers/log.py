"""The contents of another tool's log, its files, and the rules by which every log becomes the tables of a study."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from goldless.errors import listed
from goldless.studies.checking import Problems, Row
from goldless.studies.frames import Repeats, without_repeats
from goldless.studies.study import Study
from goldless.studies.tables import BOM, FORMATS, UNREADABLE, check_parquet, file_rows, first_row, is_parquet

IMPORTED = "imported"
"""The table with where each sample is from and why it is missing; each importer may add columns, such as its cost."""
OWN = ("task", "agent", "text", "missing", "message", "prompt", "reference", "model", "source")
"""Columns of a log's samples that have a meaning here; a log need not have them all."""
COMPARED = {"task": pl.String, "first": pl.String, "second": pl.String, "first_wins": pl.Float64}
HEAD_BYTES = 1 << 16


@dataclass
class Log:
    """Records of one or several files, in that order: samples and what refers to them, each as rows or as a frame."""

    samples: Any = field(default_factory=list)
    """One row per sample. ``task``, ``agent``; ``text``: the response without reasoning, null if there is none;
    ``missing``: why not, in a word such as error, limit, refusal; ``message``: the details; ``prompt``, ``reference``;
    ``model``: the model that the agent's name means, if the log says more than the name; ``source``: FILE:LINE or
    FILE:SAMPLE. Any other column is kept in the table ``imported``."""
    task_columns: Sequence[str] = ()
    """Other columns of ``samples`` that describe the task; they go to the tasks table."""
    labels: Any = field(default_factory=list)
    """Scores by people: ``row`` (of ``samples``), ``rater``, ``score``, optionally ``criterion``."""
    judgements: Any = field(default_factory=list)
    """Scores by models: ``row``, ``reviewer``, ``format``, ``output``, optionally ``value``."""
    scores: Any = field(default_factory=list)
    """Scores by programs: ``row``, ``metric``, ``score``; ``goldless agree --scores`` reads the table."""
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Tables that are complete, such as ``judge_NAME``."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user about the reading, such as which of several filters was kept."""
    same: Sequence[str] = ("prompt", "reference")
    """Columns that must be the same under every agent."""
    compared: dict[str, list[tuple[str, str, str, float]]] = field(default_factory=lambda: defaultdict(list))
    """Comparisons by judge: task, first, second, and 1 if the first is better, 0 the second, 0.5 a tie."""
    preferences: list[Row] = field(default_factory=list)
    """People's, in the columns of a study's labels."""
    about: dict[str, Any] = field(default_factory=dict)
    """Facts that an importer must remember until all files are read."""
    counted: Counter[str] = field(default_factory=Counter)
    """Notes that begin with a number."""

    @property
    def row(self) -> int:
        """The place of the next sample, to which labels and scores refer."""
        return len(self.samples)

    def score(self, row: int, metric: str, score: Any) -> None:
        """Add a program's score, if it is a number."""
        if isinstance(score, int | float) and not math.isnan(score):
            self.scores.append({"row": row, "metric": metric, "score": float(score)})

    def all_tables(self) -> dict[str, pl.DataFrame]:
        """The tables that are complete; each judge's comparisons are a table ``judge_NAME``."""
        found = dict(self.tables)
        for judge, rows in self.compared.items():
            found["judge_" + re.sub(r"[^\w.-]", "_", judge)] = pl.DataFrame(rows, COMPARED, orient="row")
        if self.preferences:
            found["labels"] = pl.DataFrame(self.preferences)
        return {name: table for name, table in found.items() if table.height}


# --- files -----------------------------------------------------------------------------------------------------------


class LogImporter:
    """An importer of files that are recognised and read one by one; most are rows of one or several kinds."""

    description: str
    patterns: tuple[str, ...] = ()
    """Names of its files in a folder."""
    kinds: Mapping[str, set[str]]
    """The keys by which rows are known, by kind."""
    row_must: str
    """The message about any other row."""
    task_columns: tuple[str, ...] = ()
    same: tuple[str, ...] = ("prompt", "reference")
    documents = False
    """True if a .json file is one document, in which ``held`` finds the rows."""

    def is_ours(self, path: Path) -> bool:
        suffixes = {Path(pattern).suffix for pattern in self.patterns} or FORMATS
        there = first_keys(path) if path.suffix.lower() in suffixes else set()
        return any(there >= keys for keys in self.kinds.values())

    def recognises(self, path: Path) -> bool:
        return any(map(self.is_ours, log_files([path], *self.patterns)))

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        log = Log(task_columns=self.task_columns, same=self.same)
        for path in log_files(paths, *self.patterns):
            self.read_file(path, log, problems)
        self.finish(log, problems)
        log.notes += [f"{count:,} {what}" for what, count in log.counted.items() if count]
        return log

    def read_file(self, path: Path, log: Log, problems: Problems) -> None:
        rows: Iterable[tuple[int | None, Any]] = file_rows(path, problems)
        if self.documents and path.suffix.lower() == ".json":
            found = read_json(path, problems)
            rows = ((None, row) for row in ([] if found is None else self.held(found, path, problems)))
        for number, row in rows:
            keys = row.keys() if isinstance(row, Mapping) else set()
            kind = next((kind for kind, known in self.kinds.items() if keys >= known), None)
            if kind is None:
                problems.add(self.row_must, path.name, number)
                continue
            with expecting(f"this kind of {kind}", problems, path.name, number):
                self.add(kind, row, log, path, number)

    def held(self, found: Any, path: Path, problems: Problems) -> Iterable[Any]:  # noqa: ARG002
        return [found]

    def add(self, kind: str, row: Row, log: Log, path: Path, number: int | None) -> None:
        raise NotImplementedError

    def finish(self, log: Log, problems: Problems) -> None:
        """Add what can be said once all files are read."""


def log_files(paths: Sequence[Path], *patterns: str) -> list[Path]:
    """The files, and those in folders, at any depth, whose names fit a pattern."""
    found: dict[Path, None] = {}
    for path in paths:
        fitting = [file for pattern in patterns for file in path.rglob(pattern)] if path.is_dir() else [path]
        found |= dict.fromkeys(sorted(fitting))
    return list(found)


def first_keys(path: Path) -> set[str]:
    """The columns of a table's first row; of a .json file, the keys in its first bytes, at any depth."""
    try:
        if is_parquet(path):
            return set(check_parquet(path))
        if path.suffix.lower() != ".json":
            return set(first_row(path))
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES).removeprefix(BOM).lstrip()
    except UNREADABLE:
        return set()
    return {key.decode() for key in re.findall(rb'"(\w+)"\s*:', head)} if head[:1] in {b"{", b"["} else set()


def read_json(path: Path, problems: Problems) -> Any:
    """The whole of a JSON file; None, with a problem, if it cannot be read."""
    data = path.read_bytes().removeprefix(BOM)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        said = f"{error.msg} at character {error.pos + 1:,}" if data.strip() else "the file is empty"
        problems.add(f"not JSON: {said}. Is the file complete?", path.name)
        return None


@contextmanager
def expecting(what: str, problems: Problems, file: str, line: int | None = None) -> Iterator[None]:
    """Report a row that does not have the form of its format, and go on."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        problems.add(f"not in the form of {what}: {type(error).__name__}: {error}", file, line)


# --- the rules -------------------------------------------------------------------------------------------------------


def study_tables(log: Log, problems: Problems, repeats: Repeats = "samples") -> dict[str, Any]:
    """The tables of a study; whatever breaks a rule is added to ``problems``, with counts and examples."""
    # every column that has a meaning is there, as text, and a blank text is missing
    given = pl.DataFrame(log.samples, infer_schema_length=None, strict=False)
    lacking = [(pl.col(name) if name in given.columns else pl.lit(None).alias(name)).cast(pl.String) for name in OWN]
    blank = pl.col("text").is_null() | (pl.col("text").str.strip_chars() == "")
    cause = pl.when(blank).then(pl.coalesce("missing", pl.lit("empty"))).otherwise("missing")
    samples = given.with_columns(lacking).with_row_index("row").with_columns(missing=cause)
    _check_models(samples, problems)
    named = without_repeats(samples, repeats)
    for column in log.same:
        if column in samples.columns:
            _check_same(samples, column, problems)
    present, tables = named.filter(pl.col("missing").is_null()), log.all_tables()
    if present.is_empty() and not tables and not problems.total:
        causes = listed(f"{cause} {count:,}" for cause, count in cause_counts(samples).items())
        problems.add(f"no response among {samples.height:,} samples{causes and f': {causes}'}")
    if problems.total:
        return {}
    other = [name for name in log.task_columns if name in samples.columns]
    kept = named.drop("row", "text", "prompt", "reference", *other)
    about = [name for name in ("prompt", "reference", *other) if named[name].null_count() < named.height]
    full_name = pl.col("agent")  # as a study names it, with its sample if it has several
    if "sample" in named.columns:
        full_name = pl.coalesce(pl.format("{}#{}", "agent", "sample"), "agent").alias("agent")
    found: dict[str, Any] = {
        "tasks": named.group_by("task", maintain_order=True).agg(pl.col(n).drop_nulls().first() for n in about),
        "agents": named.select(pl.col("agent").unique(maintain_order=True)),
        "responses": present.select("task", "agent", *(["sample"] if "sample" in named.columns else []), "text"),
        # without columns of nulls, but with the cause of what is missing
        IMPORTED: kept.select(c for c in kept if c.name == "missing" or c.null_count() < len(c)),
    }
    for name, rows in (("labels", log.labels), ("judgements", log.judgements), ("scores", log.scores)):
        if rows is not None and len(rows):
            keys = present.select(pl.col("row").cast(pl.Int64), "task", full_name)
            frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col("row").cast(pl.Int64))
            placed = frame.join(keys, on="row", maintain_order="left")
            if placed.height:
                found[name] = placed.select("task", "agent", pl.exclude("row", "task", "agent"))
    if present.is_empty():
        del found["responses"]
    return found | tables


def _several(samples: pl.DataFrame, of: str, column: str) -> pl.DataFrame:
    """The first row of each value of a column, where one task or agent has several."""
    given = samples.select(of, "source", value=column).drop_nulls("value")
    return given.unique([of, "value"], keep="first", maintain_order=True).filter(pl.col(of).is_duplicated())


def _check_models(samples: pl.DataFrame, problems: Problems) -> None:
    """One name must mean one model."""
    for (agent,), rows in _several(samples, "agent", "model").group_by("agent", maintain_order=True):
        used = listed(f"{model} ({source})" for _, source, model in rows.iter_rows())
        problems.add(f"agent {agent!r} is the name of {rows.height} models: {used}. Import these runs one by one")


def _check_same(samples: pl.DataFrame, column: str, problems: Problems) -> None:
    """The same task must be the same text under every agent."""
    several = _several(samples, "task", column)
    for task in several["task"].head(1):
        where = " and ".join(several.filter(pl.col("task") == task)["source"].drop_nulls().head(2))
        asked = samples.drop_nulls(column)["task"].n_unique()
        problems.add(
            f"{several['task'].n_unique():,} of {asked:,} tasks have a different {column} under different agents, such "
            f"as {task!r}{f' ({where})' if where else ''}. Import runs that were given the same tasks"
        )


def cause_counts(samples: pl.DataFrame) -> dict[str, int]:
    """The number of missing texts by cause, most frequent first."""
    counts = samples["missing"].drop_nulls().value_counts()
    return dict(counts.sort("count", "missing", descending=[True, False]).iter_rows())


def import_summary(study: Study) -> dict[str, Any]:
    """Counts of what was read, as plain JSON data."""
    table = study.table(IMPORTED)
    causes = {} if table is None else cause_counts(table)
    along = {
        "agents with several samples": len(set(study.samples.values())),
        "prompts": study.task_table["prompt"].count(),
        "references": study.task_table["reference"].count(),
        "ratings": study.n_ratings,
        "preferences": study.n_preferences,
    }
    tables = {name: study.table(name) for name in study.recorded if name != IMPORTED}
    along |= {name: frame.height for name, frame in tables.items() if frame is not None}
    origin = study.origin
    others = len(study.tasks) * len(study.agents) - study.n_responses - sum(causes.values())
    if others > 0 and study.n_responses and not study.samples:
        causes |= {"not in the files": others}
    return {
        "format": None if origin is None else origin.importer,
        "files": None if origin is None else origin.files,
        "tasks": len(study.tasks),
        "agents": len({agent.sample_of or agent.agent for agent in study.agents}),
        "responses": study.n_responses,
        "missing": causes,
        "also": {name: count for name, count in along.items() if count},
        "notes": [] if origin is None else list(origin.notes),
    }
