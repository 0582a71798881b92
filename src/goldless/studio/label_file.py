"""The labels table of a study folder: rows are added and taken back, and the file is always whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from goldless.errors import UserError
from goldless.files import write_whole
from goldless.records import Preference

NAME = "labels"
SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (".jsonl", *SEPARATORS, ".parquet")


@dataclass(frozen=True, slots=True)
class LabelFile:
    """The file in its folder; every change writes a new file and moves it into place."""

    folder: Path

    @property
    def path(self) -> Path:
        """The table as it is, or ``labels.jsonl`` where there is none."""
        if (self.folder / NAME).is_dir():
            raise UserError(
                f"{self.folder / NAME} is a folder of parts, to which labels cannot be added. Put its rows into "
                f"{NAME}.jsonl"
            )
        there = [path for suffix in SUFFIXES if (path := self.folder / f"{NAME}{suffix}").is_file()]
        return there[0] if there else self.folder / f"{NAME}.jsonl"

    def add(self, label: Preference) -> None:
        """Add a row."""
        row, path = _row(label), self.path
        if path.suffix == ".jsonl":
            before = path.read_bytes() if path.is_file() else b""
            line = json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
            end = b"\n" * (bool(before) and not before.endswith(b"\n"))
            write_whole(path, partial(_write_lines, [before, end, line]))
        else:
            self._write(pl.concat([self._frame(), self._new(row)], how="diagonal_relaxed"))

    def remove(self, label: Preference) -> bool:
        """Take the last such row out again; False: it is not there any more."""
        row, path = _row(label), self.path
        if not path.is_file():
            return False
        if path.suffix == ".jsonl":
            return self._remove_line(row)
        frame = self._frame()
        new = self._new(row)
        same = pl.all_horizontal(pl.col(name).eq_missing(new[name][0]) for name in row if name in frame.columns)
        places = frame.with_row_index("_place").filter(same)["_place"]
        if not len(places):
            return False
        self._write(frame.with_row_index("_place").filter(pl.col("_place") != places[-1]).drop("_place"))
        return True

    def _remove_line(self, row: Mapping[str, Any]) -> bool:
        lines = self.path.read_bytes().splitlines(keepends=True)
        for number in range(len(lines) - 1, -1, -1):
            if _parsed(lines[number]) == row:
                left = lines[:number] + lines[number + 1 :]
                write_whole(self.path, partial(_write_lines, left))
                return True
        return False

    def _frame(self) -> pl.DataFrame:
        path = self.path
        if path.suffix == ".parquet":
            return pl.read_parquet(path)
        return pl.read_csv(path, separator=SEPARATORS[path.suffix], infer_schema=False)

    def _new(self, row: Mapping[str, Any]) -> pl.DataFrame:
        frame = pl.DataFrame([row])
        return frame if self.path.suffix == ".parquet" else frame.cast(pl.String)

    def _write(self, frame: pl.DataFrame) -> None:
        path = self.path
        if path.suffix == ".parquet":
            write_whole(path, frame.write_parquet)
        else:
            write_whole(path, lambda fresh: frame.write_csv(fresh, separator=SEPARATORS[path.suffix]))


def _write_lines(lines: list[bytes], path: Path) -> None:
    path.write_bytes(b"".join(lines))


def _row(label: Preference) -> dict[str, Any]:
    return {name: value for name, value in asdict(label).items() if value is not None}


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None
