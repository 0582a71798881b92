"""The report's section on consistency: whether scorers rank agents in the same order."""

from __future__ import annotations

from collections.abc import Iterator

from goldless.meta_evaluation.consistency import Consistency
from goldless.reports.findings import in_text
from goldless.reports.html.blocks import Block, Figure, remarks, result_table, section
from goldless.reports.html.charts.row_plots import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import label, percent
from goldless.reports.run_folder import RunFolder


@section("consistency", "Consistency between scorers")
def consistency_section(run: RunFolder) -> Iterator[Block]:
    """Correlations of agents' scores under two scorers; None if no scorers were compared."""
    found: Consistency | None = run.others.get("consistency")
    if found is None:
        return
    drawn = [
        IntervalRow.of(
            row.coefficient, row.value, row, group=f"{row.metric}: {label(row.first, 24)} / {label(row.second, 24)}"
        )
        for row in found.rows
    ]
    title = "Correlation of agents' scores under two scorers"
    yield Figure(
        "consistency",
        "Agents by scorer",
        f"Correlation of agents' mean scores under two scorers, with {percent(found.level)} intervals.",
        pictures(interval_plot, drawn, title=title, axis="correlation", reference=0.0),
        [result_table(found.table())],
        " ".join(in_text(said, label) for said in found.findings()),
    )
    yield from remarks(found.notes)
