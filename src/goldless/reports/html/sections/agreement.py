"""Agreement with people: accuracy on decided pairs and rank correlation, beside how far people agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldless.reports.html.blocks import (
    Block,
    Column,
    Figure,
    Fold,
    Heading,
    Inline,
    Name,
    Section,
    Table,
    Term,
    note,
    sentence,
    words,
)
from goldless.reports.html.charts.intervals import Band, IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.numerals import count, number, numeral, percent, plural

Row = Mapping[str, Any]
ONE_PERSON = "one person against the others"
NAMES = {"spearman": "Spearman", "kendall_tau_b": "Kendall's tau-b", "kendall_tau_a": "Kendall's tau-a"}


def agreement_section(run: RunDocuments) -> Section | None:
    """The section; None where nothing was held against people."""
    found = run.get("agreement")
    if found is None:
        return None
    level = percent(number(found, "level") or 0.95)
    blocks: list[Block] = []
    for one in found["criteria"]:
        if len(found["criteria"]) > 1:
            blocks.append(Heading((Name(str(one.get("criterion") or "labels")),)))
        blocks += [_labels(one), _accuracy(one, level), *_correlation(one, level), *_ceiling(one), *_comparisons(one)]
        notes = tuple(note(sentence(text)) for text in one.get("notes") or ())
        if notes:
            blocks.append(Fold((plural(len(notes), "note"),), notes))
    return Section("agreement", "Agreement with people", tuple(blocks))


def _labels(one: Row) -> Block:
    labels = one.get("labels") or {}
    return words(
        f"{plural(count(labels, 'raters'), 'rater')} gave {plural(count(labels, 'ratings'), 'rating')} and "
        f"{plural(count(labels, 'preferences'), 'preference')}: of {plural(count(labels, 'pairs'), 'pair')} they "
        f"decided {count(labels, 'decided'):,}, and {count(labels, 'tied'):,} are tied and leave the test."
    )


def _band(one: Row, key: str, value: str) -> Band | None:
    """How far people agree with each other, as a band."""
    found = (one.get("ceiling") or {}).get(key)
    if not found:
        return None
    middle, low, high = number(found, value), number(found, "low"), number(found, "high")
    if middle is None:
        return None
    return Band(low, high, ONE_PERSON, middle)


def _band_row(band: Band, key: str) -> dict[str, Any]:
    """The band as a row of the table below the figure."""
    return {"judge": ONE_PERSON, key: band.middle, "low": band.low, "high": band.high}


def _band_words(band: Band | None) -> tuple[Inline, ...]:
    """What the caption says of the band."""
    if band is None:
        return ()
    if band.low is None or band.high is None:
        return (" The grey line is the ", Term("ceiling", "human ceiling"), "; it has no interval.")
    return (" The band is the ", Term("ceiling", "human ceiling"), ".")


def _accuracy(one: Row, level: str) -> Figure:
    judges = sorted(one["judges"], key=lambda j: -(number(j["accuracy"], "accuracy") or 0.0))
    rows = [{"judge": j["name"], "kind": j.get("kind"), **j["accuracy"]} for j in judges]
    drawn = [_drawn(row["judge"], row["kind"], row, "accuracy") for row in rows]
    band = _band(one, "accuracy", "value")
    if band is not None:
        found = one["ceiling"]["accuracy"]
        counts = {"used": found.get("n"), "n_tasks": found.get("n_tasks")}
        rows.append({**_band_row(band, "accuracy"), "kind": "people", **counts})
    columns = (
        Column("judge", "judge", "name"),
        Column("kind", "kind"),
        Column("accuracy", "accuracy", "number"),
        Column("low", "low", "number", absent="none"),
        Column("high", "high", "number", absent="none"),
        Column("asked", "pairs asked", "count", absent="-"),
        Column("used", "used", "count"),
        Column("missing", "missing", "count", absent="-"),
        Column("tied", "ties", "count", absent="-"),
        Column("n_tasks", "tasks", "count"),
    )
    return Figure(
        "accuracy",
        ("Accuracy on pairs that people decided",),
        (
            (
                f"Share of pairs on which a judge finds the same response better as people do, with {level} intervals; "
                "a tie counts one half, and 0.5 is chance."
            ),
            *_band_words(band),
        ),
        pictures(
            interval_plot,
            drawn,
            title="Accuracy of each judge on pairs that people decided",
            axis="accuracy",
            reference=0.5,
            band=band,
        ),
        (Table(("Accuracy",), columns, tuple(rows)),),
    )


def _drawn(name: Any, kind: Any, row: Row, key: str) -> IntervalRow:
    value = number(row, key)
    ours = kind in {"reviewer", "reviewers", "panel"}
    return IntervalRow(
        str(name),
        value,
        number(row, "low"),
        number(row, "high"),
        aside=numeral(value, absent=""),
        shape="dot" if ours else "square",
        tone="blue" if ours else "green",
        hint=f"{name} ({kind}): {numeral(value)}",
    )


def _correlation(one: Row, level: str) -> Iterator[Figure]:
    rows = [
        {"judge": j["name"], "kind": j.get("kind"), **c, "name": NAMES.get(str(c["coefficient"]), c["coefficient"])}
        for j in one["judges"]
        for c in j.get("correlations") or ()
    ]
    main = [row for row in rows if (row["coefficient"], row["over"]) == ("spearman", "tasks")]
    if not main:
        return
    main.sort(key=lambda row: -(number(row, "value") or -2.0))
    drawn = [_drawn(row["judge"], row["kind"], row, "value") for row in main]
    band = _band(one, "spearman", "mean")
    if band is not None:
        found = one["ceiling"]["spearman"]
        what = {"name": NAMES["spearman"], "over": "tasks", "n": found.get("n"), "note": found.get("note")}
        rows.append({**_band_row(band, "value"), **what})
    columns = (
        Column("judge", "judge", "name"),
        Column("name", "coefficient"),
        Column("over", "over"),
        Column("value", "value", "number", absent="not defined"),
        Column("low", "low", "number", absent="none"),
        Column("high", "high", "number", absent="none"),
        Column("asked", "asked", "count", absent="-"),
        Column("n", "used", "count"),
        Column("undefined", "undefined", "count", absent="-"),
        Column("note", "note", absent=""),
    )
    yield Figure(
        "correlation",
        ("Rank correlation with people's ratings",),
        (
            Term("spearman", "Spearman's coefficient"),
            f" over the responses to a task, its mean over tasks, with {level} intervals.",
            *_band_words(band),
            " Other coefficients are in the table.",
        ),
        pictures(
            interval_plot,
            drawn,
            title="Rank correlation of each judge with people",
            axis="Spearman, mean over tasks",
            reference=0.0,
            band=band,
        ),
        (Table(("Every coefficient",), columns, tuple(rows)),),
    )


def _ceiling(one: Row) -> Iterator[Block]:
    ceiling = one.get("ceiling") or {}
    alpha = ceiling.get("alpha")
    if alpha:
        low, high = (numeral(number(alpha, key), 2, absent="none") for key in ("low", "high"))
        yield words(
            "People among themselves: ",
            Term("alpha", "Krippendorff's alpha"),
            f" is {numeral(number(alpha, 'alpha'), 2)} ({low} to {high}, {alpha.get('measurement')}) over "
            f"{plural(count(alpha, 'n_values'), 'label')}.",
        )
    if ceiling.get("note"):
        yield note(sentence(ceiling["note"]))


def _comparisons(one: Row) -> Iterator[Block]:
    rows: Sequence[Row] = one.get("comparisons") or ()
    if not rows:
        return
    columns = (
        Column("statistic", "of"),
        Column("first", "first", "name"),
        Column("second", "second", "name"),
        Column("difference", "difference", "signed", absent="nothing in common"),
        Column("low", "low", "signed", absent="none"),
        Column("high", "high", "signed", absent="none"),
        Column("p_holm", "p (Holm)", "p", absent="-"),
        Column("n", "n", "count"),
    )
    table = Table(("Two judges on what both judged",), columns, tuple(rows))
    yield Fold(("Which judge agrees more than which: ", plural(len(rows), "comparison")), (table,))
