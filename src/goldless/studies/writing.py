"""Writing a study, completely or not at all; and what an exporter is."""

from __future__ import annotations

import csv
import json
import os
import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import orjson
import polars as pl

from goldless.errors import UserError
from goldless.files import filled_folder, write_whole
from goldless.records import Preference
from goldless.studies.checking import as_text
from goldless.studies.study import MADE, Study
from goldless.studies.tables import SEPARATORS, is_table

Format = Literal["jsonl", "csv", "parquet"]


class Exporter(Protocol):
    """A writer of studies or results in another tool's format."""

    @property
    def description(self) -> str:
        """A short description of what it writes."""

    @property
    def suffix(self) -> str:
        """Extension of its files, such as ".xlsx"; empty for a folder."""

    def exports(self, thing: Any) -> bool:
        """True if it can write this object: a ``Study``, a leaderboard or another result."""

    def write(self, thing: Any, path: Path) -> None:
        """Write the object to a free path; on an error, nothing may be left there.

        Its further keyword arguments, if any, are the options that ``goldless export`` and ``goldless.export`` pass on.
        """


def write_study(
    study: Study,
    path: str | os.PathLike[str],
    *,
    format: Format = "jsonl",  # noqa: A002 - the word the user knows
    overwrite: bool = False,
) -> Path:
    """Write the study to a folder and return its path.

    The folder is written under a temporary name and renamed when complete. Recorded evidence keeps its format; that of
    a subset is written as Parquet. Other columns of a task: JSONL keeps every value, Parquet keeps columns of one plain
    type, CSV keeps text; other values become JSON text.
    """
    path = Path(path)
    if format not in get_args(Format):
        raise UserError(f"format must be 'jsonl', 'csv' or 'parquet', got {format!r}")
    check_target(path, overwrite=overwrite)

    def fill(folder: Path) -> None:
        for table in MADE:
            _write_made(study, table, folder / f"{table}.{format}")
        for table in study.recorded:
            _write_recorded(study, table, folder)

    filled_folder(path, fill)
    return path


def write_texts(study: Study, folder: Path) -> None:
    """Add tasks, responses and labels to a folder as Parquet files, each complete or absent."""
    for table in ("tasks", "responses", "labels"):
        write_whole(folder / f"{table}.parquet", partial(_write_made, study, table))


def _label_file(folder: Path) -> Path:
    """The labels table of a study folder as it is, or ``labels.jsonl`` where there is none."""
    if (folder / "labels").is_dir():
        raise UserError(
            f"{folder / 'labels'} is a folder of parts, to which labels cannot be added. Put its rows into labels.jsonl"
        )
    names = [folder / f"labels{suffix}" for suffix in (".jsonl", *SEPARATORS, ".parquet")]
    return next((path for path in names if path.is_file()), names[0])


def change_labels(folder: Path, label: Preference, *, add: bool) -> None:
    """Add a row to the labels table, or take it out again; the new file is moved into place as a whole."""
    path = _label_file(folder)
    cells = {name: value for name, value in asdict(label).items() if value is not None}
    if path.suffix == ".jsonl":
        before = path.read_bytes() if path.is_file() else b""
        line = f"{json.dumps(cells, ensure_ascii=False)}\n".encode("utf-8", "surrogatepass")
        if add:
            after = before + b"\n" * (not before.endswith(b"\n") and bool(before)) + line
        else:
            after = b"".join(before.rpartition(line)[::2])
        write_whole(path, lambda fresh: fresh.write_bytes(after))
        return
    row = pl.DataFrame([asdict(label)], schema_overrides={"criterion": pl.String})
    if separator := SEPARATORS.get(path.suffix):
        frame, row = pl.read_csv(path, separator=separator, infer_schema=False), row.cast(pl.String)
    else:
        frame = pl.read_parquet(path)
    if add:
        frame = pl.concat([frame, row.select(list(cells))], how="diagonal_relaxed")
    else:
        known = [name for name in row.columns if name in frame.columns]
        frame = frame.join(row, on=known, how="anti", nulls_equal=True, maintain_order="left")
    write = (lambda fresh: frame.write_csv(fresh, separator=separator)) if separator else frame.write_parquet
    write_whole(path, write)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise if a study cannot be written to this path; hidden files in it are kept."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file. A study is written to a folder; choose another path")
    held = sorted(file for file in path.iterdir() if not file.name.startswith(".")) if path.exists() else []
    if held and not overwrite:
        raise UserError(f"{path} is not empty. Choose another folder, or allow overwriting")
    # Overwriting replaces the folder, so it must hold nothing but a study.
    if other := next((file for file in held if not is_table(file)), None):
        raise UserError(
            f"{path} has {other.name!r}, which is not a table of a study, so it is not overwritten. Choose another "
            "folder"
        )


def _write_made(study: Study, table: str, path: Path) -> None:
    frame = study.table(table)
    if frame is None:
        return
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    elif path.suffix == ".jsonl":
        with path.open("wb") as lines:
            lines.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in study.rows(table))
    else:
        with path.open("w", encoding="utf-8", newline="") as cells:
            # Everything quoted: a lone carriage return would else end the row for some readers.
            writer = csv.DictWriter(cells, frame.columns, quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writeheader()
            for row in study.rows(table):
                writer.writerow({column: as_text(value) for column, value in row.items()})


def _write_recorded(study: Study, table: str, folder: Path) -> None:
    data = study.recorded_tables[table]
    if isinstance(data, Path) and not study.part_of_whole:
        if data.is_dir():
            shutil.copytree(data, folder / data.name, ignore=shutil.ignore_patterns(".*"))
        else:
            shutil.copyfile(data, folder / data.name)
    elif (lazy := study.scan(table)) is not None:
        with study.reading(table):
            lazy.sink_parquet(folder / f"{table}.parquet")
