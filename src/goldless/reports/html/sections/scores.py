"""Scores in detail: differences between agents, scores by peer, and scores by task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import polars as pl

from goldless.audit.peer_graph import PeerGraph
from goldless.reports.controls import comparative, direction
from goldless.reports.document import cells
from goldless.reports.html.blocks import (
    Block,
    Figure,
    Inline,
    Name,
    Table,
    Term,
    counts,
    each_metric,
    names,
    number,
    section,
    signed,
    texts,
)
from goldless.reports.html.charts.heat_map import WRITTEN_UP_TO, HeatCell, Legend, heat_map, strength
from goldless.reports.html.charts.peer_circle import MOST_AGENTS, peer_circle
from goldless.reports.html.charts.row_plots import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.evidence import TextLinks
from goldless.reports.html.labels import decimals_for, label, numeral, plural
from goldless.reports.leaderboard import Leaderboard
from goldless.reports.report_table import Column
from goldless.reports.run_folder import RunFolder
from goldless.statistics.comparisons import Comparison
from goldless.statistics.deciding import outlook
from goldless.statistics.influence import Influence

NEAREST = 3
"""Undecided differences that are named."""


@section("comparisons", "Which agents differ")
def comparisons_section(run: RunFolder) -> Iterator[Block]:
    """Paired differences over common tasks, corrected for multiple comparisons; None if nothing was compared."""
    links = TextLinks(run)
    return each_metric(run, lambda metric, board: [_differences(links, metric, board)] if board.comparisons else [])


def _differences(links: TextLinks, metric: str, board: Leaderboard) -> Figure:
    agents, word = [row.agent for row in board.rows], comparative(metric)
    by_pair: dict[tuple[str, str], tuple[Comparison, float]] = {}
    for row in board.comparisons:
        by_pair[row.first, row.second] = (row, 1.0)
        by_pair[row.second, row.first] = (row, -1.0)
    largest = max((abs(row.difference or 0.0) for row in board.comparisons), default=0.0) or 1.0
    decimals = min(2, decimals_for([largest])) if largest >= 2 else decimals_for([largest]) - 1
    picture = heat_map(
        agents,
        [
            [
                _difference(by_pair.get((one, other)), largest, decimals, links.behind(metric, one, other))
                for other in agents
            ]
            for one in agents
        ],
        title=f"{metric}: differences between agents, row minus column",
        corner="row minus column",
        legend=Legend(
            ((0.8, f"row is {word} ▲"), (-0.8, f"column is {word} ▼"), (0.0, "not decided ·"))
            if len(agents) > WRITTEN_UP_TO
            else ((0.8, f"row is {word}"), (-0.8, f"column is {word}"), (0.0, "not decided"))
        ),
    )
    columns = (
        *names(first="first", second="second"),
        signed("difference", "difference", decimals + 1),
        Column("p", "p", "probability"),
        Column("corrected", "p (corrected)", "probability"),
        *counts(n="tasks"),
        *texts(decided="decided"),
    )
    caption = (
        "Difference of the scores, tested on the tasks that both agents have. ",
        f"Coloured and bold: significant at {board.comparisons[0].alpha:g}, ",
        Term("corrected", "corrected for all comparisons"),
        ". Without colour: the data do not decide.",
        *_linked(links),
    )
    rows = [
        cells(
            row,
            decided=_decided(row, word),
            corrected=row.p_adjusted,
            behind=links.behind(metric, row.first, row.second),
        )
        for row in board.comparisons
    ]
    table = Table("All comparisons", columns, rows)
    finding = _told(board.comparisons)
    return Figure("comparisons", ("Differences: ", Name(metric)), caption, [picture], [table], finding)


def _told(comparisons: Sequence[Comparison]) -> str:
    """How many differences are decided, and what would decide the nearest of the others."""
    undecided = [row for row in comparisons if not row.decided and row.difference is not None]
    many = f"{len(comparisons) - len(undecided):,} of {plural(len(comparisons), 'difference')}"
    begin = f"{many} {'is' if len(comparisons) == 1 else 'are'} decided."
    known = sorted((row for row in undecided if row.more_tasks), key=lambda row: row.more_tasks or 0)
    nearest = (f"{label(row.first)} or {label(row.second)} ({_outlook(row)})" for row in known[:NEAREST])
    open_ = "; ".join(nearest) or ", ".join(f"{label(row.first)} or {label(row.second)}" for row in undecided[:NEAREST])
    return f"{begin} Not decided: {open_}{' and others' * (len(undecided) > NEAREST)}." if undecided else begin


def _outlook(row: Comparison) -> str:
    return outlook(row.n, row.more_tasks, row.more_tasks_high, skewed=row.skewed)


def _decided(row: Comparison, word: str = "better") -> str:
    if row.difference is None:
        return "no common task"
    if row.p_adjusted is None:
        return "one common task" if row.n == 1 else "no test"
    if not row.decided:
        return "no" if row.more_tasks is None else f"no; {_outlook(row)}"
    return f"first is {word}" if row.difference > 0 else f"second is {word}"


def _linked(links: TextLinks) -> tuple[Inline, ...]:
    """What a click does, where there are texts."""
    return (" A click on a cell, or on a number in the table below, shows texts behind it.",) * bool(links)


def _difference(
    found: tuple[Comparison, float] | None, largest: float, decimals: int, behind: str | None
) -> HeatCell | None:
    if found is None:
        return None
    row, sign = found
    if row.difference is None:
        return HeatCell(0.0, "-", "-", "no common task", sure=False)
    value = sign * row.difference
    sure = row.decided
    first, second = (row.first, row.second) if sign > 0 else (row.second, row.first)
    said = "decided" if sure else _decided(row) if row.p_adjusted is None else "undecided"
    numbers = f"{numeral(value, decimals + 1, signed=True)}, p (corrected) {numeral(row.p_adjusted, absent='none')}"
    mark = ("▲" if value > 0 else "▼") if sure else "·"
    text = numeral(value, decimals, signed=True)
    hint = f"{first} minus {second}: {numbers}: {said}"
    return HeatCell(strength(value, largest) if sure else 0.0, text, mark, hint, sure=sure, behind=behind)


# --- pairs: how much each agent's responses tell about the others' ---------------------------------------------------


@section("pairs", "Scores by pair", appendix=True)
def pair_scores_section(run: RunFolder) -> Iterator[Block]:
    """The pair matrix of each metric; None if no metric scores pairs."""
    return each_metric(run, partial(_pair_blocks, TextLinks(run)))


def _pair_blocks(links: TextLinks, metric: str, board: Leaderboard) -> Iterator[Block]:
    if board.matrix.values:
        yield (_pair_table if _apart(board) else _pair_figure)(links, metric, board)
    graph = board.peer_graph
    if graph is not None and graph.links and len(graph.agents) <= MOST_AGENTS:
        yield _graph_figure(metric, board, graph)


def _graph_figure(metric: str, board: Leaderboard, graph: PeerGraph) -> Figure:
    """Who is predictable from whom, beyond what each predicts in general."""
    largest = max(link.excess or 0.0 for link in graph.links) or 1.0
    decimals = decimals_for([largest])
    links = [
        (
            link.first,
            link.second,
            max(0.0, link.excess or 0.0) / largest,
            f"{link.first} and {link.second}: {numeral(link.excess, decimals, signed=True)} {board.unit}",
        )
        for link in graph.links
        if {link.first, link.second} <= set(graph.agents)
    ]
    blocks = {agent: place for place, block in enumerate(graph.blocks) for agent in block.agents}
    alarm = " Squares: agents that share more with each other than with anyone else." if blocks else ""
    caption = (
        "A line joins two agents that predict each other more than their levels explain; the thicker, the more.",
        alarm,
    )
    columns = (*names(first="first", second="second"), signed("excess", f"excess ({board.unit})", decimals))
    table = Table("Every link", columns, [cells(link) for link in graph.links])
    title = f"{metric}: which agents predict which"
    drawn = pictures(peer_circle, graph.agents, links, blocks, title=title)
    most = max(graph.links, key=lambda link: link.excess or 0.0)
    finding = f"{label(most.first)} and {label(most.second)} predict each other most beyond their levels."
    return Figure("peer-graph", ("Peer graph under ", Name(metric)), caption, drawn, [table], finding)


def _apart(board: Leaderboard) -> bool:
    """Whether agents are compared with others than each other, such as references that are not ranked."""
    ranked = {row.agent for row in board.rows}
    agents = board.matrix.agents
    return any(v is not None and agents[j] not in ranked for line in board.matrix.means for j, v in enumerate(line))


Pair = tuple[str, str, float | None]


def _pairs(board: Leaderboard, peers: Sequence[str] | None = None) -> list[list[Pair]]:
    """Agent, peer and mean score: a line for each agent in the order of the leaderboard."""
    place = {name: i for i, name in enumerate(board.matrix.agents)}
    order = [row.agent for row in board.rows if row.agent in place]
    means = board.matrix.means
    return [
        [(one, other, means[place[one]][place[other]]) for other in (order if peers is None else peers)]
        for one in order
    ]


def _table_of_pairs(
    caption: str | tuple[Inline, ...],
    pairs: Sequence[Sequence[Pair]],
    decimals: int,
    behind: Callable[[str, str], str | None],
) -> Table:
    columns = (*names(agent="agent", peer="peer"), number("score", "mean score", decimals))
    rows = [
        {"agent": one, "peer": other, "score": mean, "behind": behind(one, other)}
        for line in pairs
        for one, other, mean in line
    ]
    return Table(caption, columns, rows)


def _pair_table(links: TextLinks, metric: str, board: Leaderboard) -> Table:
    """Each agent with each peer it was compared with."""
    compared = [[pair for pair in line if pair[2] is not None] for line in _pairs(board, board.matrix.agents)]
    title = ("Mean score with each ", Term("peer"), ": ", Name(metric))
    return _table_of_pairs(title, compared, 3, partial(links.behind, metric))


def _pair_figure(links: TextLinks, metric: str, board: Leaderboard) -> Figure:
    values = board.matrix.values
    least, most = min(values), max(values)
    decimals = decimals_for(values) - (1 if max(abs(least), abs(most)) >= 10 else 0)
    pairs = _pairs(board)

    def share(value: float) -> float:
        """The value as a share of the range: signed if zero is within it, else from 0 at the least to 1 at the most."""
        if least < 0 < most:
            return value / max(-least, most)
        return (value - least) / (most - least) if most > least else 0.5

    def cell(pair: Pair) -> HeatCell | None:
        one, other, value = pair
        if not _is_asked(pair):
            return None
        if value is None:
            return HeatCell(0.0, "-", "-", f"{one} with {other}: missing", sure=False)
        hint, behind = f"{one} with {other}: {numeral(value, decimals + 1)}", links.behind(metric, one, other)
        return HeatCell(share(value), numeral(value, decimals), "", hint, behind=behind)

    middle = 0.0 if least < 0 < most else (least + most) / 2
    legend = [(share(value), numeral(value, decimals)) for value in (least, middle)]
    picture = heat_map(
        [line[0][0] for line in pairs],
        [[cell(pair) for pair in line] for line in pairs],
        title=f"{metric}: mean score of each agent (row) with each peer (column)",
        corner="row: agent; column: peer",
        legend=Legend((*legend, (share(most), f"{numeral(most, decimals)} {board.unit}"))),
    )
    caption = (
        f"Mean score over tasks ({board.unit}) of the agent in the row with the ",
        Term("peer"),
        " in the column, in the order of the leaderboard. ",
        "With nothing missing, an agent's score is the mean of its row with the mean of its column in its own place.",
        *_linked(links),
    )
    asked = [list(filter(_is_asked, line)) for line in pairs]
    table = _table_of_pairs("All pairs", asked, decimals + 1, partial(links.behind, metric))
    known = [pair for line in pairs for pair in line if pair[2] is not None]
    one, other, value = max(known, key=lambda pair: pair[2] or 0.0)
    finding = (
        f"The highest score is that of {label(one)} with {label(other)}: {numeral(value, decimals + 1)} {board.unit}."
    )
    return Figure("pairs", ("Pairs: ", Name(metric)), caption, [picture], [table], finding)


def _is_asked(pair: Pair) -> bool:
    """Whether there could be a score; an agent is not scored with itself unless requested."""
    return pair[0] != pair[1] or pair[2] is not None


# --- tasks: how an agent's scores spread over them, and which of them move its mean most ------------------------------

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@section("tasks", "Scores by task", appendix=True)
def task_scores_section(run: RunFolder) -> Iterator[Block]:
    """The spread of scores over tasks; None if the folder has no scores of responses."""
    links = TextLinks(run)

    def one(metric: str, board: Leaderboard) -> Iterator[Block]:
        scores = None if run.scores is None else run.scores.filter(pl.col("metric") == metric)
        if scores is not None and len(scores):
            yield _tasks_figure(metric, board, scores, partial(links.behind, metric))

    return each_metric(run, one)


def _tasks_figure(metric: str, board: Leaderboard, scores: pl.DataFrame, behind: Callable[[str], str | None]) -> Figure:
    decimals, score = decimals_for(board.ends), pl.col("score")
    spread = scores.group_by("agent").agg(
        score.count().alias("n"),
        score.null_count().alias("missing"),
        score.min().alias("least"),
        *(score.quantile(share, "linear").alias(f"q{place}") for place, share in enumerate(QUANTILES)),
        score.max().alias("most"),
    )
    by_agent = {row["agent"]: row for row in spread.iter_rows(named=True)}
    rows = [
        {**by_agent.get(row.agent, {"agent": row.agent, "n": 0}), "behind": behind(row.agent)} for row in board.rows
    ]
    drawn = [
        IntervalRow(row["agent"], row["q2"], row["q0"], row["q4"], shape="stroke", inner=(row["q1"], row["q3"]))
        if row["n"]
        else IntervalRow(row["agent"], None)
        for row in rows
    ]
    shares = [(f"q{place}", f"{share * 100:g}\u202f%") for place, share in enumerate(QUANTILES)]
    columns = (
        *names(agent="agent"),
        *counts(n="tasks", missing="missing"),
        *(number(*one, decimals, absent="-") for one in (("least", "least"), *shares, ("most", "most"))),
    )
    total = plural(sum(row["n"] for row in rows), "score")
    finding, known = "", [row for row in rows if row["n"] > 1]
    if known:
        widest = max(known, key=lambda row: row["q3"] - row["q1"])
        ends = f"{numeral(widest['q1'], decimals)} to {numeral(widest['q3'], decimals)}"
        finding = f"The scores of {label(widest['agent'])} vary most: the middle half of its tasks is from {ends}."
    return Figure(
        "tasks",
        ("Scores on single tasks: ", Name(metric)),
        "Boxes show the middle half of the tasks, lines 90\u202f% of them; the vertical stroke is the median.",
        pictures(
            interval_plot,
            drawn,
            title=f"{metric}: scores of each agent on single tasks",
            axis=f"{board.unit}, {direction(metric)}",
        ),
        [
            *[_influence(board.influence, scores, decimals, behind)] * bool(board.influence),
            Table((f"Quantiles over {total}: ", Name(metric)), columns, rows),
        ],
        finding,
    )


def _influence(
    influence: Sequence[Influence], scores: pl.DataFrame, decimals: int, behind: Callable[[str], str | None]
) -> Table:
    values = {(task, agent): score for task, agent, score in scores.select("task", "agent", "score").iter_rows()}
    rows = [
        cells(
            row,
            score=values.get((row.task, row.agent)),
            ranks=f"{row.rank} → {row.rank_without}",
            moved="yes" if row.ranking_changes else "no",
            behind=behind(row.agent),
        )
        for row in influence
    ]
    columns = (
        *names(task="task", agent="agent"),
        number("score", "score", decimals),
        signed("change", "change of mean", decimals + 1),
        *texts(ranks="rank", moved="ranking changes"),
    )
    caption = ("Tasks with the most ", Term("influence"), ": change of the agent's mean when the task is left out")
    return Table(caption, columns, rows)
