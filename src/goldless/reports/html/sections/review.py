"""The peer review: what reviewers showed in the exam, who may vote, and the ranking of agents by their votes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldless.reports.html.blocks import (
    Block,
    Column,
    Figure,
    Name,
    Section,
    Table,
    Term,
    listed,
    note,
    sentence,
    words,
)
from goldless.reports.html.charts.intervals import IntervalRow, Shape, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.interval_words import interval_source
from goldless.reports.html.numerals import count, decimals_for, number, numeral, plural

Row = Mapping[str, Any]
RANKINGS = {
    "bradley-terry": Term("bradley-terry"),
    "mean": Term("mean of ratings", "mean"),
    "win rate": Term("win rate"),
}
"""What agents are ranked by, by the name of the ranking."""


def review_section(run: RunDocuments) -> Section | None:
    """The section; None where there was no review."""
    review = run.get("review")
    if review is None:
        return None
    reviewers: Sequence[Row] = review["reviewers"]
    blocks: list[Block] = [_summary(review), _reviewers(reviewers)]
    if any(row.get("traits") for row in reviewers):
        blocks.append(_exam(reviewers))
    blocks += [_ranking(name, ranking) for name, ranking in (review.get("rankings") or {}).items()]
    blocks += [note(sentence(text)) for text in review.get("notes") or ()]
    return Section("review", "Peer review", tuple(blocks))


def _summary(review: Row) -> Block:
    panel = review.get("panel") or {}
    voters = [str(name) for name in panel.get("reviewers") or ()]
    exams = ", ".join(map(str, review.get("exams") or ())) or "none"
    begin = f"Scale: {review.get('scale')}; exam: {exams}. "
    if not voters:
        return words(begin, "Nobody may vote. ", str(review.get("nobody_passed") or ""))
    accuracy = number(panel, "accuracy")
    agrees = ""
    if accuracy is not None:
        low, high = (numeral(number(panel, f"accuracy_{end}"), absent="none") for end in ("low", "high"))
        agrees = (
            f" Together they agree with people on {numeral(accuracy)} ({low} to {high}) of "
            f"{plural(count(panel, 'pairs_used'), 'pair')} that people decided."
        )
    return words(begin, "The votes of ", *listed(voters, 12), " count.", agrees)


def _reviewers(reviewers: Sequence[Row]) -> Table:
    rows = [{**row, "vote": "yes" if row.get("passed") else "no"} for row in reviewers]
    judged = any(number(row, "accuracy") is not None for row in reviewers)
    columns = (
        Column("name", "reviewer", "name"),
        Column("vote", "may vote"),
        Column("weight", "weight", "number", absent="none"),
        Column("asked", "asked", "count", absent="-"),
        Column("used", "used", "count", absent="-"),
        Column("missing", "missing", "count", absent="-"),
        *([Column("accuracy", "agrees with people", "number", absent="-")] if judged else []),
        *([Column("spearman", "Spearman", "number", 2, absent="-")] if judged else []),
        Column("why", "why"),
    )
    return Table(("Reviewers",), columns, tuple(rows))


def _exam(reviewers: Sequence[Row]) -> Figure:
    rows = list(_traits(reviewers))
    drawn = [
        IntervalRow(
            str(row["reviewer"]),
            row["value"],
            row["low"],
            row["high"],
            aside=f"{numeral(row['value'], absent='')} {row['outcome']}",
            shape=_shape(row["outcome"]),
            tone="vermilion" if row["outcome"] == "not above" else "blue",
            group=str(row["trait"]),
            limit=row["threshold"],
            hint=str(row["note"] or ""),
        )
        for row in sorted(rows, key=lambda row: str(row["trait"]))
    ]
    columns = (
        Column("reviewer", "reviewer", "name"),
        Column("trait", "trait"),
        Column("value", "value", "number"),
        Column("low", "low", "number", absent="none"),
        Column("high", "high", "number", absent="none"),
        Column("threshold", "limit", "number", absent="none"),
        Column("outcome", "outcome"),
        Column("asked", "asked", "count"),
        Column("n", "used", "count"),
        Column("note", "note", absent=""),
    )
    return Figure(
        "exam",
        ("The exam",),
        (
            "What each reviewer showed: ",
            Term("consistency"),
            ", ",
            Term("pertinence"),
            " and ",
            Term("self-confidence"),
            (
                ", with intervals. The upright stroke is the limit it must exceed: a dot does, a cross does not, and a "
                "ring has no limit."
            ),
        ),
        pictures(interval_plot, drawn, title="Traits of reviewers in the exam, with limits", axis="share"),
        (Table(("Traits of the reviewers",), columns, tuple(rows)),),
    )


def _traits(reviewers: Sequence[Row]) -> Iterator[dict[str, Any]]:
    for row in reviewers:
        for name, trait in (row.get("traits") or {}).items():
            value, limit = number(trait, "value"), number(trait, "threshold")
            outcome = (
                "missing"
                if value is None
                else "no limit"
                if limit is None
                else "above"
                if value > limit
                else "not above"
            )
            # of self-confidence the interval is that of a difference, not of the value
            bounded = trait.get("difference") is None
            yield {
                "reviewer": row["name"],
                "trait": name,
                "value": value,
                "low": number(trait, "low") if bounded else None,
                "high": number(trait, "high") if bounded else None,
                "threshold": limit,
                "outcome": outcome,
                "asked": count(trait, "asked"),
                "n": count(trait, "n"),
                "note": trait.get("note"),
            }


def _shape(outcome: str) -> Shape:
    shapes: dict[str, Shape] = {"above": "dot", "not above": "cross"}
    return shapes.get(outcome, "ring")


def _ranking(name: str, ranking: Row) -> Figure:
    agents = ranking["agents"]
    decimals = decimals_for(number(row, key) for row in agents for key in ("score", "low", "high"))
    unit = str(ranking.get("unit") or "score")
    drawn = [
        IntervalRow(
            str(row["agent"]),
            number(row, "score"),
            number(row, "low"),
            number(row, "high"),
            aside=numeral(number(row, "score"), decimals, absent=""),
            hint=f"{row['agent']}: {numeral(number(row, 'score'), decimals)}",
        )
        for row in agents
    ]
    rows = [{**row, "missing": count(row, "asked") - count(row, "used")} for row in agents]
    columns = (
        Column("rank", "#", "count", absent="-"),
        Column("agent", "agent", "name"),
        Column("score", "score", "number", decimals),
        Column("low", "low", "number", decimals, absent="none"),
        Column("high", "high", "number", decimals, absent="none"),
        Column("n_tasks", "tasks", "count"),
        Column("asked", "asked", "count"),
        Column("used", "used", "count"),
        Column("missing", "missing", "count"),
    )
    bounded = [count(row, "n_tasks") for row in agents if number(row, "low") is not None]
    # strengths are fitted anew to resampled tasks however few there are
    source = interval_source([] if name == "bradley-terry" else bounded)
    intervals = f"with intervals {source}" if bounded else "without intervals"
    return Figure(
        "ranking",
        ("Ranking by ", Name(name)),
        ("Agents by the panel's votes: ", RANKINGS.get(name, Name(name)), f" ({unit}, higher is better), {intervals}."),
        pictures(interval_plot, drawn, title=f"Ranking of agents by {name}", axis=f"{unit}, higher is better"),
        (Table((f"Ranking by {name}",), columns, tuple(rows)),),
    )
