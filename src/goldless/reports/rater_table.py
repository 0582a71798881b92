"""The table of raters: how much each one's labels tell about the others', beside what chance would give."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from goldless.reports.markdown import code_line
from goldless.reports.report_table import Column, ReportTable

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = (
    Column("criterion", "criterion"),
    Column("rater", "rater", absent="mean over pairs"),
    Column("value", "TVD-MI", "number", "missing", 3),
    Column("null", "chance", "number", "", 3),
    Column("excess", "excess", "number", "", 3),
    Column("p", "p", "probability", ""),
    Column("partners", "partners", "figure"),
)


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

    @property
    def excess(self) -> float | None:
        """What the value has above chance."""
        return None if self.value is None or self.null is None else self.value - self.null


@dataclass(frozen=True, slots=True)
class RaterTable:
    """Raters by criterion, with how the numbers were made."""

    metric: str
    signature: str
    rows: tuple[RaterRow, ...]

    def table(self) -> ReportTable:
        """What people read of it."""
        title = f"{self.metric} (total variation; chance: mean after shuffling each rater's labels)"
        rows = tuple({**asdict(row), "excess": row.excess} for row in self.rows)
        return ReportTable(title, COLUMNS, rows, self.signature)

    def to_markdown(self) -> str:
        """A Markdown table and the signature below it."""
        return "\n".join([*self.table().markdown_lines(), "", code_line(self.signature), ""])

    def to_latex(self) -> str:
        """A LaTeX table in the style of booktabs; the signature is a comment and stands in the caption."""
        return self.table().to_latex()

    def to_csv(self) -> str:
        """Comma-separated values with the signature in every row."""
        columns = tuple(Column(name, name) for name in ("metric", *RaterRow.__slots__))
        rows = tuple({"metric": self.metric, **asdict(row)} for row in self.rows)
        return ReportTable("", columns, rows, self.signature).to_csv()

    def to_rich(self) -> Table:
        """A table for the terminal; print the signature below it."""
        return self.table().to_rich()
