"""The labels table of a study folder: rows are added and taken back, and the file is always whole."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from goldless.errors import UserError
from goldless.files import write_whole
from goldless.records import Preference

NAME = "labels"
SEPARATORS = {".csv": ",", ".tsv": "\t"}


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
        names = [self.folder / f"{NAME}{suffix}" for suffix in (".jsonl", *SEPARATORS, ".parquet")]
        return next((path for path in names if path.is_file()), names[0])

    def add(self, label: Preference) -> None:
        """Add a row."""
        row = {name: value for name, value in asdict(label).items() if value is not None}
        if self.path.suffix == ".jsonl":
            self._write_lines([*self._lines(), json.dumps(row, ensure_ascii=False)])
        else:
            self._write(pl.concat([self._frame(), self._as_row(row)], how="diagonal_relaxed"))

    def remove(self, label: Preference) -> bool:
        """Take the last such row out again; False: it is not there any more."""
        row = {name: value for name, value in asdict(label).items() if value is not None}
        if self.path.suffix == ".jsonl":
            lines = self._lines()
            places = [place for place, line in enumerate(lines) if _parsed(line) == row]
            if places:
                self._write_lines([line for place, line in enumerate(lines) if place != places[-1]])
            return bool(places)
        frame, new = self._frame().with_row_index("_place"), self._as_row(row)
        same = pl.all_horizontal(pl.col(name).eq_missing(new[name][0]) for name in row if name in frame.columns)
        last = frame.filter(same)["_place"].max()
        if last is not None:
            self._write(frame.filter(pl.col("_place") != last).drop("_place"))
        return last is not None

    def _lines(self) -> list[str]:
        path = self.path
        text = path.read_text(encoding="utf-8", errors="surrogatepass") if path.is_file() else ""
        return [line for line in text.split("\n") if line]

    def _write_lines(self, lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
        write_whole(self.path, lambda fresh: fresh.write_bytes(text))

    def _frame(self) -> pl.DataFrame:
        path = self.path
        if path.suffix == ".parquet":
            return pl.read_parquet(path)
        return pl.read_csv(path, separator=SEPARATORS[path.suffix], infer_schema=False)

    def _as_row(self, row: dict[str, Any]) -> pl.DataFrame:
        frame = pl.DataFrame([row])
        return frame if self.path.suffix == ".parquet" else frame.cast(pl.String)

    def _write(self, frame: pl.DataFrame) -> None:
        path = self.path
        if path.suffix == ".parquet":
            write_whole(path, frame.write_parquet)
        else:
            write_whole(path, lambda fresh: frame.write_csv(fresh, separator=SEPARATORS[path.suffix]))


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None
