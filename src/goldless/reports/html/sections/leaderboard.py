"""Scores of agents: the leaderboard of each metric, scores against size (GEM, figure 5), and raters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import polars as pl

from goldless.grouped import mean_in_order
from goldless.metrics.label_information import LabelInformation
from goldless.records import Agent
from goldless.reports.controls import direction
from goldless.reports.document import cells
from goldless.reports.findings import in_text, of_one
from goldless.reports.html.blocks import (
    Block,
    Figure,
    Heading,
    Inline,
    Name,
    Table,
    Term,
    Words,
    counts,
    each_metric,
    ends,
    names,
    note,
    number,
    remarks,
    section,
    words,
)
from goldless.reports.html.charts.row_plots import Band, IntervalRow, interval_plot
from goldless.reports.html.charts.scatter import Point, family_lines, scatter_plot
from goldless.reports.html.charts.svg import SERIES, SHAPES, pictures
from goldless.reports.html.evidence import TextLinks
from goldless.reports.html.labels import decimals_for, label, numeral, percent, plural
from goldless.reports.leaderboard import Leaderboard, LeaderboardRow, RaterScores, rater_rows
from goldless.reports.report_table import Column, large_text
from goldless.reports.run_folder import RunFolder
from goldless.statistics.bootstrap import FEW_TASKS, Estimate, task_intervals

AGENT = Column("agent", "agent", "name")
PEOPLE = frozenset({"human", "humans", "people", "person", "persons"})
"""Names of groups or families whose agents are people."""
FEWEST_SIZES = 2


@section("leaderboard", "Scores in full", appendix=True)
def leaderboard_section(run: RunFolder) -> Iterator[Block]:
    """The leaderboards; None if no metric ranks agents."""
    return each_metric(run, partial(_leaderboard, TextLinks(run)))


def _leaderboard(links: TextLinks, metric: str, board: Leaderboard) -> Iterator[Block]:
    counted = "pairs of responses" if board.counts_pairs else "responses"
    rows = [{**row, "behind": links.behind(metric, row["agent"])} for row in board.table(full=True).rows]
    table = Table((Name(metric), f": missing and asked count {counted}"), board.table(full=True).columns, rows)
    level = percent(board.level)
    tasks = [row.n for row in board.rows if row.low is not None]
    intervals: tuple[Inline, ...] = ("No agent has an ", Term("interval"), ".")
    if tasks:
        rest = "Agents with overlapping intervals can still differ; see the table of comparisons."
        intervals = ("Lines are ", Term("interval", f"{level} intervals"), f" {interval_source(tasks)}. {rest}")
    yield board_figure(
        "leaderboard",
        ("Scores: ", Name(metric)),
        (f"Mean score over tasks ({board.unit}, {direction(metric)}). ", *intervals),
        board,
        table,
        title=f"{metric}: score of each agent in {board.unit} with its {level} interval",
        axis=f"{board.unit}, {direction(metric)}",
        finding=in_text(of_one(metric, board), label),
    )
    summary = (f"{name.replace('_', ' ').capitalize()}: {numeral(value, 4)}" for name, value in board.summary.items())
    yield from remarks((*board.notes, *summary))
    yield from _wordings(board)
    yield from _groups(board)


def board_figure(
    slug: str,
    heading: Words,
    caption: Words,
    board: Leaderboard,
    table: Table,
    *,
    title: str,
    axis: str,
    finding: str,
) -> Figure:
    """The scores of a board with their intervals, above its table."""
    decimals = decimals_for(board.ends)
    drawn = []
    for row in board.rows:
        low, high = (numeral(end, decimals, absent="none") for end in (row.low, row.high))
        said = f"{numeral(row.score, decimals)} ({low} to {high}), {plural(row.n, 'task')}"
        hint = f"{row.agent}: {said if row.score is not None else row.note or 'missing'}"
        drawn.append(IntervalRow.of(row.agent, row.score, row, decimals=decimals, hint=hint))
    return Figure(slug, heading, caption, pictures(interval_plot, drawn, title=title, axis=axis), [table], finding)


def interval_source(tasks: Iterable[int]) -> str:
    """How intervals were computed; ``tasks``: the number of tasks behind each."""
    most = max(tasks, default=FEW_TASKS)
    return "from resampling tasks" if most >= FEW_TASKS else f"by Student's t over tasks (fewer than {FEW_TASKS})"


def _wordings(board: Leaderboard) -> Iterator[Block]:
    if not board.by_wording:
        return
    by_place = [(f"w{place}", name, found) for place, (name, found) in enumerate(board.by_wording.items())]
    rows = [{"agent": row.agent, **{key: found.get(row.agent) for key, _, found in by_place}} for row in board.rows]
    columns = [number(key, name, decimals_for(board.ends)) for key, name, _ in by_place]
    yield Table("Score by prompt", (AGENT, *columns), rows)
    yield note("± prompts is the standard deviation of a score between prompts: how much the prompt matters.")


def _groups(board: Leaderboard) -> Iterator[Block]:
    groups = board.groups
    if groups is None:
        return
    decimals = decimals_for(board.ends)
    low, high = (numeral(end, decimals, absent="none") for end in (groups.low, groups.high))
    yield words(
        f"Groups ({board.group_names or 'first and second'}): the means differ by ",
        f"{numeral(groups.difference, decimals, signed=True)} ({low} to {high}) on {plural(groups.n_tasks, 'task')}. ",
        "A response of the first group scores higher than one of the second with probability ",
        f"{numeral(groups.auc)}; standardised difference {numeral(groups.d_response, 2)}.",
    )


# --- size ------------------------------------------------------------------------------------------------------------


@section("sizes", "Score by size", appendix=True)
def sizes_section(run: RunFolder) -> Iterator[Block]:
    """Scores by number of parameters; None if fewer than two agents have a size and a score."""
    sized = {row.agent: row for row in run.agent_notes if (row.parameters or 0.0) > 0}

    def one(metric: str, board: Leaderboard) -> Iterator[Block]:
        found = [(row, sized[row.agent]) for row in board.rows if row.agent in sized and row.score is not None]
        if len(found) >= FEWEST_SIZES:
            yield _sizes(run, metric, board, found)

    return each_metric(run, one)


def _sizes(run: RunFolder, metric: str, board: Leaderboard, found: Sequence[tuple[LeaderboardRow, Agent]]) -> Figure:
    families = list(dict.fromkeys(agent.family or "other" for _, agent in found))
    decimals = decimals_for(board.ends)
    points = []
    for row, agent in found:
        family, size = agent.family or "other", agent.parameters or 0.0
        place = families.index(family)
        hint = f"{row.agent}: {large_text(size)} parameters, {numeral(row.score, decimals)}"
        shape, tone = SHAPES[place % len(SHAPES)], SERIES[place % len(SERIES)]
        points.append(Point(row.agent, size, row.score or 0.0, row.low, row.high, family, shape, tone, hint))
    people = _people(run, metric, board)
    largest = max(found, key=lambda one: one[0].score or 0.0)
    both = pictures(
        scatter_plot,
        points,
        title=f"{metric}: score by number of parameters",
        x_axis="parameters (log scale)",
        y_axis=board.unit,
        logarithmic=True,
        lines=family_lines(point for point in points if point.series != "other"),
        band=None if people is None else Band(people.low, people.high, "people", middle=people.value),
    )
    columns = (
        AGENT,
        *names("-", family="family"),
        Column("parameters", "parameters", "large", "-"),
        number("score", "score", decimals),
        ends(decimals=decimals),
        *counts(n="tasks"),
    )
    about_people, theirs = "", []
    if people is not None:
        theirs = [
            {"agent": "people (mean)", "score": people.value, "low": people.low, "high": people.high, "n": people.n}
        ]
        bounded = people.low is not None and people.high is not None
        what = "band is the interval around the mean" if bounded else "line is the mean"
        about_people = f" The grey {what} of the human agents{'' if bounded else '; it has no interval'}."
    rows = [cells(row, parameters=agent.parameters, family=agent.family) for row, agent in found]
    return Figure(
        "sizes",
        ("Score by size: ", Name(metric)),
        (
            f"Score ({board.unit}) by number of parameters, with ",
            Term("interval", f"{percent(board.level)} intervals"),
            f"; lines connect agents of one family.{about_people}",
        ),
        both,
        [Table("Agents with known size", columns, [*rows, *theirs])],
        finding=f"Of the agents with known size, {label(largest[0].agent)} ({large_text(largest[1].parameters or 0.0)} "
        "parameters) has the highest score.",
    )


def _people(run: RunFolder, metric: str, board: Leaderboard) -> Estimate | None:
    """The mean over people with its interval over tasks; None if no person has a score."""
    people = [
        row.agent
        for row in run.agent_notes
        if any((key or "").strip().lower() in PEOPLE for key in (row.group, row.family))
    ]
    if run.scores is None or not people:
        return None
    mine = run.scores.filter((pl.col("metric") == metric) & pl.col("agent").is_in(people))
    means = mine.group_by("task", maintain_order=True).agg(mean_in_order(pl.col("score")))["score"].drop_nulls()
    values = np.asarray(means.to_numpy(), dtype=np.float64)
    if not len(values):
        return None
    (found,) = task_intervals(values[:, None], tails=True, level=board.level)
    return None if found.value is None else found


# --- raters ----------------------------------------------------------------------------------------------------------


@section("raters", "Raters")
def raters_section(run: RunFolder) -> Iterator[Block]:
    """How much one rater's labels say about another's; None if no metric scores raters."""
    found = None if run.leaderboard is None else run.leaderboard.raters
    if found is None:
        return
    for criterion, one in found.criteria.items():
        if len(found.criteria) > 1:
            yield Heading((Name(criterion or "labels"),))
        yield _raters(found, criterion, one)


def _raters(scores: RaterScores, criterion: str, found: LabelInformation) -> Figure:
    rows = [{**row, "rater": row["rater"] or "mean over pairs of raters"} for row in rater_rows(found, criterion)]
    drawn = [
        IntervalRow.of(row["rater"], value, hint=f"{row['rater']}: {numeral(value)}, chance {numeral(row.get('null'))}")
        for row in sorted(rows, key=lambda row: -(row.get("value") or 0.0))
        for value in [row.get("value")]
    ]
    overall = found.overall
    return Figure(
        "raters",
        "Information shared between raters",
        (
            "TVD-MI between a rater's labels and those of the others; higher means more information. ",
            "The line is the mean for shuffled labels.",
        ),
        pictures(interval_plot, drawn, title="Information between raters", axis="TVD-MI", reference=overall.null),
        [Table("Raters", scores.table().columns[1:], rows)],
        finding=f"Mean over pairs of raters: {numeral(overall.value)}; by chance {numeral(overall.null)}.",
    )
