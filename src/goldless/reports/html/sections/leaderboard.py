"""Scores of agents: the leaderboard of each metric, scores against size (GEM, figure 5), and raters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import polars as pl

from goldless.grouped import mean_in_order
from goldless.reports.controls import comparative, direction
from goldless.reports.documents.scores import AgentNote, AgentScore, Information, RankedMetric, RaterMetric
from goldless.reports.findings import in_text, of_one
from goldless.reports.html.blocks import (
    Block,
    Figure,
    Heading,
    Inline,
    Name,
    Row,
    Table,
    Term,
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
from goldless.reports.leaderboard import RATER_COLUMNS
from goldless.reports.report_table import Column, large_text
from goldless.reports.run_folder import RunFolder
from goldless.statistics.bootstrap import FEW_TASKS, Interval, task_intervals

AGENT = Column("agent", "agent", "name")
PEOPLE = frozenset({"human", "humans", "people", "person", "persons"})
"""Names of groups or families whose agents are people."""
FEWEST_SIZES = 2


@section("leaderboard", "Scores in full", appendix=True)
def leaderboard_section(run: RunFolder) -> Iterator[Block]:
    """The leaderboards; None if no metric ranks agents."""
    return each_metric(run, partial(_leaderboard, TextLinks(run)))


def _leaderboard(links: TextLinks, metric: str, board: RankedMetric) -> Iterator[Block]:
    yield _figure(links, metric, board)
    summary = (f"{name.replace('_', ' ').capitalize()}: {numeral(value, 4)}" for name, value in board.summary.items())
    yield from remarks((*board.notes, *summary))
    yield from _wordings(board)
    yield from _groups(board)


def interval_source(tasks: Iterable[int]) -> str:
    """How intervals were computed; ``tasks``: the number of tasks behind each."""
    most = max(tasks, default=FEW_TASKS)
    return "from resampling tasks" if most >= FEW_TASKS else f"by Student's t over tasks (fewer than {FEW_TASKS})"


def _figure(links: TextLinks, metric: str, board: RankedMetric) -> Figure:
    decimals, level = decimals_for(board.ends), percent(board.level)
    drawn = [
        IntervalRow.of(row.agent, row.score, row, decimals=decimals, hint=_hint(row, decimals)) for row in board.rows
    ]
    title = f"{metric}: score of each agent in {board.unit} with its {level} interval"
    return Figure(
        "leaderboard",
        ("Scores: ", Name(metric)),
        (f"Mean score over tasks ({board.unit}, {direction(metric)}). ", *_intervals(board.rows, level)),
        pictures(interval_plot, drawn, title=title, axis=f"{board.unit}, {direction(metric)}"),
        [_table(links, metric, board, decimals)],
        finding=in_text(of_one(metric, board), label),
    )


def _intervals(rows: Sequence[AgentScore], level: str) -> tuple[Inline, ...]:
    tasks = [row.n for row in rows if row.low is not None]
    if not tasks:
        return ("No agent has an ", Term("interval"), ".")
    rest = "Agents with overlapping intervals can still differ; see the table of comparisons."
    return ("Lines are ", Term("interval", f"{level} intervals"), f" {interval_source(tasks)}. {rest}")


def _hint(row: AgentScore, decimals: int) -> str:
    if row.score is None:
        return f"{row.agent}: missing; {row.note or ''}"
    low, high = (numeral(end, decimals, absent="none") for end in (row.low, row.high))
    return f"{row.agent}: {numeral(row.score, decimals)} ({low} to {high}), {row.n} tasks"


def _table(links: TextLinks, metric: str, board: RankedMetric, decimals: int) -> Table:
    rows = [row.cells(beats=len(row.better_than or ()), behind=links.behind(metric, row.agent)) for row in board.rows]
    spread = any(row.between_prompts is not None for row in board.rows)
    columns = (
        *counts("-", rank="#"),
        AGENT,
        *names("-", group="group") * any(row.group for row in board.rows),
        number("score", "score", decimals),
        ends(percent(board.level), decimals),
        *(
            Column(f"{name}_low {name}_high", heading, "interval", "-", decimals)
            for name, heading in (("new_peers", "with other peers"), ("worst", "worst case"))
            if any(row.get(f"{name}_low") is not None for row in rows)
        ),
        *[number("between_prompts", "± prompts", decimals, absent="-")] * spread,
        *counts(n="tasks", asked="asked", used="used", missing="missing", beats=f"{comparative(metric)} than"),
    )
    counted = "pairs of responses" if board.counts_pairs else "responses"
    said = f": asked, used and missing count {counted}; {comparative(metric)} than is a number of agents"
    return Table((Name(metric), said), columns, rows)


def _wordings(board: RankedMetric) -> Iterator[Block]:
    if not board.by_wording:
        return
    by_place = [(f"w{place}", name, found) for place, (name, found) in enumerate(board.by_wording.items())]
    rows = [{"agent": row.agent, **{key: found.get(row.agent) for key, _, found in by_place}} for row in board.rows]
    columns = [number(key, name, decimals_for(board.ends)) for key, name, _ in by_place]
    yield Table("Score by prompt", (AGENT, *columns), rows)
    yield note("± prompts is the standard deviation of a score between prompts: how much the prompt matters.")


def _groups(board: RankedMetric) -> Iterator[Block]:
    if "d_response" not in board.model_fields_set and board.groups is None:
        return
    decimals = decimals_for(board.ends)
    low, high = (numeral(end, decimals, absent="none") for end in (board.low, board.high))
    yield words(
        f"Groups ({board.groups or 'first and second'}): the means differ by ",
        f"{numeral(board.difference, decimals, signed=True)} ({low} to {high}) on {plural(board.n_tasks, 'task')}. ",
        "A response of the first group scores higher than one of the second with probability ",
        f"{numeral(board.auc)}; standardised difference {numeral(board.d_response, 2)}.",
    )


# --- size ------------------------------------------------------------------------------------------------------------


@section("sizes", "Score by size", appendix=True)
def sizes_section(run: RunFolder) -> Iterator[Block]:
    """Scores by number of parameters; None if fewer than two agents have a size and a score."""
    sized = {row.agent: row for row in run.agent_notes if (row.parameters or 0.0) > 0}

    def one(metric: str, board: RankedMetric) -> Iterator[Block]:
        found = [(row, sized[row.agent]) for row in board.rows if row.agent in sized and row.score is not None]
        if len(found) >= FEWEST_SIZES:
            yield _sizes(run, metric, board, found)

    return each_metric(run, one)


def _sizes(run: RunFolder, metric: str, board: RankedMetric, found: Sequence[tuple[AgentScore, AgentNote]]) -> Figure:
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
        band=None if people is None else Band(people.low, people.high, "people", middle=people.mean),
    )
    columns = (
        AGENT,
        *names("-", family="family"),
        Column("parameters", "parameters", "large", "-"),
        number("score", "score", decimals),
        ends(decimals=decimals),
        *counts(n="tasks"),
    )
    about_people, theirs = _people_note(people)
    rows = [row.cells(parameters=agent.parameters, family=agent.family) for row, agent in found]
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


def _people(run: RunFolder, metric: str, board: RankedMetric) -> Interval | None:
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
    return None if found.mean is None else found


def _people_note(people: Interval | None) -> tuple[str, tuple[Row, ...]]:
    """The sentence about people in the caption, and their row in the table."""
    if people is None:
        return "", ()
    row = {"agent": "people (mean)", "score": people.mean, "low": people.low, "high": people.high, "n": people.n}
    if people.low is None or people.high is None:
        return " The grey line is the mean of the human agents; it has no interval.", (row,)
    return " The grey band is the interval around the mean of the human agents.", (row,)


# --- raters ----------------------------------------------------------------------------------------------------------


@section("raters", "Raters")
def raters_section(run: RunFolder) -> Iterator[Block]:
    """How much one rater's labels say about another's; None if no metric scores raters."""
    metrics = {} if run.leaderboard is None else run.leaderboard.metrics
    for criteria in [metric.criteria for metric in metrics.values() if isinstance(metric, RaterMetric)]:
        for criterion, one in criteria.items():
            if len(criteria) > 1:
                yield Heading((Name(criterion or "labels"),))
            yield _raters(one)


def _raters(found: Information) -> Figure:
    rows = (found, *found.raters)
    drawn = [
        IntervalRow.of(row.rater, row.value, hint=f"{row.rater}: {numeral(row.value)}, chance {numeral(row.null)}")
        for row in sorted(rows, key=lambda row: -(row.value or 0.0))
    ]
    return Figure(
        "raters",
        "Information shared between raters",
        (
            "TVD-MI between a rater's labels and those of the others; higher means more information. ",
            "The line is the mean for shuffled labels.",
        ),
        pictures(interval_plot, drawn, title="Information between raters", axis="TVD-MI", reference=found.null),
        [Table("Raters", RATER_COLUMNS[1:], rows)],
        finding=f"{label(found.rater).capitalize()}: {numeral(found.value)}; by chance {numeral(found.null)}.",
    )
