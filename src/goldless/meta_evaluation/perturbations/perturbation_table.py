"""The table of what was perturbed: how many texts were asked for, made and left unchanged."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from goldless.meta_evaluation.perturbations.catalogue import Must

HEADER = ("perturbation", "group", "must", "asked", "made", "missing", "unchanged")


@dataclass(frozen=True, slots=True)
class PerturbationRow:
    """One perturbation or strategy."""

    name: str
    group: str
    must: Must | None
    """None: a strategy."""
    asked: int
    made: int
    unchanged: int
    """Texts that the perturbation left as they were, but for white space."""

    @property
    def missing(self) -> int:
        """Texts that could not be made."""
        return self.asked - self.made

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        counts = (self.asked, self.made, self.missing, self.unchanged)
        return self.name, self.group, self.must or "", *(f"{count:,}" for count in counts)


@dataclass(frozen=True, slots=True)
class PerturbationTable:
    """What was made of a study."""

    study: str
    seed: int
    rows: tuple[PerturbationRow, ...]

    def as_json(self) -> dict[str, Any]:
        """The table as plain data."""
        rows = [{**asdict(row), "missing": row.missing} for row in self.rows]
        return {"study": self.study, "seed": self.seed, "perturbations": rows}

    def to_markdown(self) -> str:
        """A Markdown table."""
        lines: list[Sequence[str]] = [HEADER, ("---",) * len(HEADER), *(row.cells() for row in self.rows)]
        return "".join(
            "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |\n" for line in lines
        )

    def to_csv(self) -> str:
        """Comma-separated values."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(HEADER)
        for row in self.rows:
            writer.writerow([row.name, row.group, row.must, row.asked, row.made, row.missing, row.unchanged])
        return out.getvalue()

    def to_rich(self) -> Table:
        """A table for the terminal."""
        title = Text("Texts made (must: what a sound metric does)")
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for i, name in enumerate(HEADER):
            table.add_column(name, justify="left" if i < 3 else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*(Text("".join(ch for ch in cell if ch.isprintable())) for cell in row.cells()))
        return table
