"""The table of raters: how much each one's labels tell about the others', beside what chance would give."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

HEADER = ("criterion", "rater", "TVD-MI", "chance", "excess", "p", "partners")


@dataclass(frozen=True, slots=True)
class RaterRow:
    """One rater on one criterion, or the mean over all pairs of raters."""

    criterion: str
    rater: str | None
    """None: the mean over all pairs of raters."""
    value: float | None
    """None: no other rater labelled the same items."""
    null: float | None
    """Mean of the value after shuffling each rater's labels."""
    p: float | None
    partners: int

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        if self.value is None or self.null is None or self.p is None:
            return self.criterion, self.rater or "mean over pairs", "missing", "", "", "", str(self.partners)
        numbers = (f"{self.value:.3f}", f"{self.null:.3f}", f"{self.value - self.null:.3f}", f"{self.p:.2g}")
        return self.criterion, self.rater or "mean over pairs", *numbers, str(self.partners)


@dataclass(frozen=True, slots=True)
class RaterTable:
    """Raters by criterion, with how the numbers were made."""

    metric: str
    signature: str
    rows: tuple[RaterRow, ...]

    def to_markdown(self) -> str:
        """A Markdown table and the signature below it."""
        lines: list[Sequence[str]] = [HEADER, ("---",) * len(HEADER), *(row.cells() for row in self.rows)]
        table = [
            "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |" for line in lines
        ]
        return "\n".join([*table, "", f"`{self.signature}`", ""])

    def to_csv(self) -> str:
        """Comma-separated values with the signature in every row."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["metric", *RaterRow.__slots__, "signature"])
        for row in self.rows:
            writer.writerow([self.metric, *(getattr(row, name) for name in RaterRow.__slots__), self.signature])
        return out.getvalue()

    def to_rich(self) -> Table:
        """A table for the terminal."""
        title = f"{self.metric} (total variation; chance: mean after shuffling each rater's labels)"
        table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for i, name in enumerate(HEADER):
            table.add_column(name, justify="left" if i < 2 else "right")
        for row in self.rows:
            table.add_row(*(Text("".join(ch for ch in cell if ch.isprintable())) for cell in row.cells()))
        return table
