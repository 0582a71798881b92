"""Consistency: whether agents come out in the same order whichever model scores."""

from __future__ import annotations

from goldless.reports.html.blocks import Column, Figure, Section, Table, note, sentence
from goldless.reports.html.charts.intervals import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.labels import label
from goldless.reports.html.numerals import number, numeral, percent


def consistency_section(run: RunDocuments) -> Section | None:
    """The section; None where no scorers were compared."""
    found = run.get("consistency")
    if found is None:
        return None
    rows = [{**row, "scorers": f"{label(row['first'], 24)} / {label(row['second'], 24)}"} for row in found["rows"]]
    drawn = [
        IntervalRow(
            str(row["coefficient"]),
            number(row, "value"),
            number(row, "low"),
            number(row, "high"),
            aside=numeral(number(row, "value"), absent=""),
            group=f"{row['metric']}: {row['scorers']}",
        )
        for row in rows
    ]
    columns = (
        Column("metric", "metric", "name"),
        Column("first", "first scorer", "name"),
        Column("second", "second scorer", "name"),
        Column("coefficient", "coefficient"),
        Column("value", "over agents", "number", absent="not defined"),
        Column("low", "low", "number", absent="none"),
        Column("high", "high", "number", absent="none"),
        Column("within_task", "within tasks", "number", absent="not defined"),
        Column("n_agents", "agents", "count"),
        Column("n_tasks", "tasks", "count"),
        Column("asked", "asked", "count"),
        Column("used", "used", "count"),
    )
    level = percent(number(found, "level") or 0.95)
    figure = Figure(
        "consistency",
        ("Agents under different scorers",),
        (f"Correlation of agents' mean scores under two scorers, with {level} intervals.",),
        pictures(
            interval_plot,
            drawn,
            title="Correlation of agents' scores under two scorers",
            axis="correlation",
            reference=0.0,
        ),
        (Table(("Every coefficient",), columns, tuple(rows)),),
    )
    return Section(
        "consistency", "Consistency over scorers", (figure, *(note(sentence(t)) for t in found.get("notes") or ()))
    )
