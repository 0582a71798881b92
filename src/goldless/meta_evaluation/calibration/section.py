"""The report's section on calibration: agents on the people's scale."""

from __future__ import annotations

from collections.abc import Iterator

from goldless.meta_evaluation.calibration.results import Calibration
from goldless.reports.findings import in_text
from goldless.reports.html.blocks import Block, Figure, remarks, result_table, section, words
from goldless.reports.html.charts.row_plots import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import label, percent, plural
from goldless.reports.run_folder import RunFolder


@section("calibration", "Agents on the people's scale")
def calibration_section(run: RunFolder) -> Iterator[Block]:
    """Means estimated from few labels; None if nothing was calibrated."""
    found: Calibration | None = run.others.get("calibration")
    if found is None:
        return
    yield words(
        f"{found.labelled:,} of {plural(found.tasks, 'task')} are labelled; "
        f"{', '.join(found.proxies) or 'nothing'} predicts the labels of the others.",
    )
    tables = list(map(result_table, found.tables()))
    if found.agents:
        ordered = sorted(found.agents, key=lambda one: -one.mean)
        with_figure = 1 + bool(found.comparisons)
        yield Figure(
            "calibration",
            "Mean label of each agent",
            f"Mean label over all tasks, with {percent(found.level)} intervals.",
            pictures(
                interval_plot,
                [IntervalRow.of(row.agent, row.mean, row) for row in ordered],
                title="Mean label over all tasks",
                axis="mean label",
            ),
            tables[:with_figure],
            " ".join(in_text(said, label) for said in found.findings()),
        )
        tables = tables[with_figure:]
    yield from tables
    yield from remarks(found.notes)
