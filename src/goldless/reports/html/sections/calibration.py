"""Agents on the people's scale, from few labels."""

from __future__ import annotations

from collections.abc import Iterator

from goldless.reports.html.blocks import (
    Block,
    Figure,
    Table,
    counts,
    ends,
    names,
    number,
    remarks,
    section,
    signed,
    texts,
    words,
)
from goldless.reports.html.charts.row_plots import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import label, percent, plural
from goldless.reports.report_table import Column
from goldless.reports.run_folder import RunFolder

AGENT_COLUMNS = (
    *names(agent="agent"),
    number("mean", "mean", 2),
    ends(),
    number("label_mean", "labels alone", 2),
    *counts(labelled="labelled tasks"),
    number("labels_worth", "worth", 1),
    *counts(unlabelled="unlabelled", missing="missing"),
)
COMPARISON_COLUMNS = (
    *names(first="first", second="second"),
    signed("difference", "difference", 2),
    Column("low high", "", "signed interval", "none", 2),
    Column("p_holm", "p", "probability", "-"),
    *texts(verdict="decision"),
)
SHARE_COLUMNS = (
    *names(agent="agent", judge="judge"),
    number("judged", "passed", 2),
    number("share", "corrected", 2, absent="none"),
    ends(),
    number("sensitivity", "sensitivity", 2, absent="-"),
    number("specificity", "specificity", 2, absent="-"),
    *counts(good="good", bad="bad"),
)


@section("calibration", "Agents on the people's scale")
def calibration_section(run: RunFolder) -> Iterator[Block]:
    """Means estimated from few labels; None if nothing was calibrated."""
    found = run.calibration
    if found is None:
        return
    yield words(
        f"{found.labelled:,} of {plural(found.tasks, 'task')} are labelled; "
        f"{', '.join(found.proxies) or 'nothing'} predicts the labels of the others.",
    )
    if found.agents:
        drawn = [
            IntervalRow.of(row.agent, row.mean, row) for row in sorted(found.agents, key=lambda one: -(one.mean or 0))
        ]
        yield Figure(
            "calibration",
            "Mean label of each agent",
            f"Mean label over all tasks, with {percent(found.level)} intervals.",
            pictures(interval_plot, drawn, title="Mean label over all tasks", axis="mean label"),
            [
                Table("All agents", AGENT_COLUMNS, found.agents),
                *([Table("Comparisons", COMPARISON_COLUMNS, found.comparisons)] if found.comparisons else []),
            ],
            f"{label(drawn[0].label)} has the highest mean label: {drawn[0].aside}.",
        )
    if found.shares:
        yield Table("Share of good responses, corrected for the judge's errors", SHARE_COLUMNS, found.shares)
    if found.next_labels:
        columns = (*names(task="task"), number("chance", "chance", 3))
        yield Table("Tasks to label next", columns, found.next_labels)
    yield from remarks(found.notes)
