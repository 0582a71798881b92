"""Scores of agents: the ranking, which agents differ, leaderboards, scores by pair, task and size; and of raters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import polars as pl

from goldless.errors import listed
from goldless.reports.decisions import comparison_table, nearest_first, outlook_of
from goldless.reports.document import cells
from goldless.reports.findings import comparative, direction, in_text, named
from goldless.reports.html import blocks, charts
from goldless.reports.html.blocks import (
    Block,
    Inline,
    Name,
    Words,
    each_metric,
    figure,
    interval_figure,
    note,
    section,
    term,
    words,
)
from goldless.reports.html.charts import HeatCell, IntervalRow
from goldless.reports.html.labels import decimals_for, label, numeral, percent, plural
from goldless.reports.html.texts import TextLinks, agents_of, has_texts
from goldless.reports.leaderboard import Leaderboard, metric_finding
from goldless.reports.report_table import Column
from goldless.reports.run_folder import RunFolder
from goldless.statistics.bootstrap import FEW_TASKS, Estimate
from goldless.statistics.comparisons import Comparison
from goldless.statistics.standings import LeaderboardRow

PLOT_WIDTHS = {1: 300.0, 2: 170.0, 3: 120.0}
"""Of a row of the ranking, by the number of metrics; else the least."""
LEAST_PLOT_WIDTH = 84.0
NAMED = 3
"""Beaten agents, and undecided differences, that are named."""
LONGEST_SAID = 60
"""Of a decision, which may be the name of an agent."""


def ranking_table(run: RunFolder, *, linked: bool = False) -> Block:
    """One table of agents by metrics, sorted by the first metric; ``linked``: with links to texts in the page."""
    boards = run.standings
    width = PLOT_WIDTHS.get(len(boards), LEAST_PLOT_WIDTH)
    metrics = [
        {
            "name": name,
            "what": f"{board.unit}, {direction(name)}",
            "above": {"better": "beats"}.get(word := comparative(name), f"{word} than"),
            "rows": {row.agent: row for row in board.rows},
            "decimals": decimals_for(board.ends),
            "plot": partial(charts.mini_interval, scale=charts.scale_over(board.ends, 5, width - 5)),
            "beats": partial(_beats, board),
        }
        for name, board in boards.items()
    ]
    return blocks.rendered("ranking.html", metrics=metrics, agents=agents_of(run), linked=linked)


def _beats(board: Leaderboard, row: LeaderboardRow) -> str:
    """The agents that this one is shown to be above."""
    if row.better_than is None:
        return "not tested"
    if len(row.better_than) > NAMED:
        return f"{len(row.better_than)} of {len(board.rows) - 1}"
    return listed(map(label, row.better_than), NAMED) or "none"


@section("ranking", "Ranking")
def ranking_section(run: RunFolder) -> Iterator[Block]:
    """The table and how to read it; None if nothing ranks agents."""
    if not run.standings:
        return
    yield ranking_table(run, linked=has_texts(run))
    levels = {board.level for board in run.standings.values()}
    yield note(
        f"Intervals of {' and '.join(percent(level) for level in sorted(levels))} over tasks. Agents with overlapping "
        "intervals can still differ, because they answered the same tasks: the table says which do."
    )


# --- which agents differ ---------------------------------------------------------------------------------------------


@section("comparisons", "Which agents differ")
@each_metric
def comparisons_section(run: RunFolder, metric: str, board: Leaderboard) -> Iterator[Block]:
    """Paired differences over common tasks, corrected for multiple comparisons; None if nothing was compared."""
    compared, links = board.comparisons, TextLinks(run, metric)
    if not compared:
        return
    agents, word = [row.agent for row in board.rows], comparative(metric)
    largest = max(abs(row.difference or 0.0) for row in compared) or 1.0
    decimals = min(2, decimals_for([largest])) if largest >= 2 else decimals_for([largest]) - 1
    drawn = {
        pair: _difference(row, sign, largest, decimals, links(*pair))
        for row in compared
        for pair, sign in (((row.first, row.second), 1.0), ((row.second, row.first), -1.0))
    }
    marks = ("▲", "▼", "·") if len(agents) > charts.WRITTEN_UP_TO else ("", "", "")
    meanings = (f"row is {word}", f"column is {word}", "not decided")
    picture = charts.heat_map(
        agents,
        [[drawn.get((one, other)) for other in agents] for one in agents],
        title=f"{metric}: differences between agents, row minus column",
        corner="row minus column",
        steps=[(at, f"{said} {mark}".strip()) for at, said, mark in zip((0.8, -0.8, 0), meanings, marks, strict=True)],
    )
    undecided = nearest_first([row for row in compared if not row.decided and row.difference is not None])
    many = f"{len(compared) - len(undecided):,} of {plural(len(compared), 'difference is', 'differences are')}"
    finding = f"{many} decided."
    if undecided:
        pairs = (f"{label(row.first)} or {label(row.second)} ({outlook_of(row)})" for row in undecided[:NAMED])
        finding += f" Not decided: {'; '.join(pairs)}{' and others' * (len(undecided) > NAMED)}."
    caption = (
        "Difference of the scores, tested on the tasks that both agents have. ",
        f"Coloured and bold: significant at {compared[0].alpha:g}, ",
        term("corrected", "corrected for all comparisons"),
        f". Without colour: the data do not decide.{links.said}",
    )
    all_of = comparison_table("All comparisons", compared)
    rows = [
        {**row, "said": label(row["said"], LONGEST_SAID), "behind": links(row["first"], row["second"])}
        for row in all_of.rows
    ]
    data = [blocks.table(all_of.title, all_of.columns, rows)]
    yield figure("comparisons", ("Differences: ", Name(metric)), caption, [picture], data, finding=finding)


def _difference(row: Comparison, sign: float, largest: float, decimals: int, behind: str | None) -> HeatCell:
    if row.difference is None:
        return HeatCell(0.0, "-", "-", "no common task", sure=False)
    value, sure = sign * row.difference, row.decided
    first, second = (row.first, row.second) if sign > 0 else (row.second, row.first)
    numbers = f"{numeral(value, decimals + 1, signed=True)}, p (corrected) {numeral(row.p_adjusted, absent='none')}"
    mark = ("▲" if value > 0 else "▼") if sure else "·"
    hint = f"{first} minus {second}: {numbers}: {'decided' if sure else 'undecided'}"
    strength = (0.3 + 0.7 * abs(value) / largest) * (1 if value > 0 else -1) if sure else 0.0  # never too faint to see
    return HeatCell(strength, numeral(value, decimals, signed=True), mark, hint, sure, behind)


# --- leaderboards in full --------------------------------------------------------------------------------------------


@section("leaderboard", "Scores in full", appendix=True)
@each_metric
def leaderboard_section(run: RunFolder, metric: str, board: Leaderboard) -> Iterator[Block]:
    """The leaderboards; None if no metric ranks agents."""
    links, shown = TextLinks(run, metric), board.table(full=True)
    level, decimals = percent(board.level), decimals_for(board.ends)
    tasks = max((row.estimate.n for row in board.rows if row.estimate.low is not None), default=None)
    intervals: tuple[Inline, ...] = ("No agent has an ", term("interval"), ".")
    if tasks is not None:
        few = f"by Student's t over fewer than {FEW_TASKS} tasks"
        source = "from resampling tasks" if tasks >= FEW_TASKS else few
        rest = "Agents with overlapping intervals can still differ; see the table of comparisons."
        intervals = ("Lines are ", term("interval", f"{level} intervals"), f" {source}. {rest}")
    drawn = []
    for row in board.rows:
        one = row.estimate
        said = f"{numeral(row.score, decimals)} ({_ends(one, decimals)}), {plural(one.n, 'task')}"
        hint = f"{row.agent}: {said if row.score is not None else one.note or 'missing'}"
        aside = numeral(row.score, decimals, absent="")
        drawn.append(IntervalRow(row.agent, one, aside, hint=hint))
    title = f"{metric}: score of each agent in {board.unit} with its {level} interval"
    counted = "pairs of responses" if board.counts_pairs else "responses"
    rows = [{**row, "behind": links(row["agent"])} for row in shown.rows]
    yield interval_figure(
        "leaderboard",
        ("Scores: ", Name(metric)),
        (f"Mean score over tasks ({board.unit}, {direction(metric)}). ", *intervals),
        drawn,
        [blocks.table((Name(metric), f": missing and asked count {counted}"), shown.columns, rows)],
        finding=in_text(metric_finding(metric, board), label),
        title=title,
        axis=board.scale,
    )
    summary = (f"{name.replace('_', ' ').capitalize()}: {numeral(value, 4)}" for name, value in board.summary.items())
    yield from blocks.remarks((*board.notes, *summary))
    if board.by_wording:
        columns = [
            Column(f"w{place}", name, "number", decimals=decimals) for place, name in enumerate(board.by_wording)
        ]
        found = list(enumerate(board.by_wording.values()))
        each = [{"agent": row.agent, **{f"w{at}": of.get(row.agent) for at, of in found}} for row in board.rows]
        yield blocks.table("Score by prompt", (*blocks.names(agent="agent"), *columns), each)
        yield note("± prompts is the standard deviation of a score between prompts: how much the prompt matters.")
    if board.groups is not None:
        of = board.groups
        difference = f"{numeral(of.difference.value, decimals, signed=True)} ({_ends(of.difference, decimals)})"
        yield words(
            f"Groups ({board.group_names or 'first and second'}): the means differ by ",
            f"{difference} on {plural(of.difference.n, 'task')}. ",
            "A response of the first group scores higher than one of the second with probability ",
            f"{numeral(of.auc)}; of two responses to the same task, {numeral(of.auc_by_task.value)} "
            f"({_ends(of.auc_by_task, 3)}); standardised difference {numeral(of.d_response, 2)}.",
        )


def _ends(found: Estimate, decimals: int) -> str:
    return " to ".join(numeral(end, decimals, absent="none") for end in (found.low, found.high))


# --- pairs: how much each agent's responses tell about the others' ---------------------------------------------------


@section("pairs", "Scores by pair", appendix=True)
@each_metric
def pair_scores_section(run: RunFolder, metric: str, board: Leaderboard) -> Iterator[Block]:
    """The pair matrix of each metric; None if no metric scores pairs."""
    yield from _pairs(TextLinks(run, metric), metric, board)
    graph = board.peer_graph
    if graph is not None and graph.links:
        decimals = decimals_for(one.excess for one in graph.links)
        excess = Column("excess", f"excess ({board.unit})", "signed", decimals=decimals)
        caption = ("Agents that predict each other more than their levels explain: ", Name(metric))
        columns = (*blocks.names(first="first", second="second"), excess)
        yield blocks.table(caption, columns, [cells(one) for one in graph.links])
    for block in () if graph is None else graph.blocks:
        yield blocks.warning(*named(block.agents, 6), " share more with each other than with anyone else.")


def _pairs(links: TextLinks, metric: str, board: Leaderboard) -> Iterator[Block]:
    """The mean score of each agent with each peer: drawn as a square, unless peers are not ranked themselves."""
    place = {name: at for at, name in enumerate(board.matrix.agents)}
    order = [row.agent for row in board.rows if row.agent in place]
    means = {(one, other): board.matrix.means[place[one]][at] for one in order for other, at in place.items()}
    values = [mean for mean in means.values() if mean is not None]
    if not values:
        return
    only_peers = any(mean is not None and peer not in order for (_, peer), mean in means.items())

    def table(caption: Words, decimals: int) -> Block:
        rows = [
            {"agent": one, "peer": other, "score": means[one, other], "behind": links(one, other)}
            for one in order
            for other in (place if only_peers else order)
            if means[one, other] is not None or (one != other and not only_peers)
        ]
        score = Column("score", "mean score", "number", decimals=decimals)
        return blocks.table(caption, (*blocks.names(agent="agent", peer="peer"), score), rows)

    if only_peers:
        yield table(("Mean score with each ", term("peer"), ": ", Name(metric)), 3)
        return
    least, most = min(values), max(values)
    decimals, signed = decimals_for(values) - (max(abs(least), abs(most)) >= 10), least < 0 < most

    def share(value: float) -> float:
        """The value as a share of the range: signed if zero is within it, else from 0 at the least to 1 at the most."""
        if signed:
            return value / max(-least, most)
        return (value - least) / (most - least) if most > least else 0.5

    def cell(one: str, other: str) -> HeatCell | None:
        value = means[one, other]
        if value is None:
            missing = HeatCell(0.0, "-", "-", f"{one} with {other}: missing", sure=False)
            return None if one == other else missing
        hint, behind = f"{one} with {other}: {numeral(value, decimals + 1)}", links(one, other)
        return HeatCell(share(value), numeral(value, decimals), "", hint, behind=behind)

    steps = [(share(end), numeral(end, decimals)) for end in (least, 0.0 if signed else (least + most) / 2)]
    picture = charts.heat_map(
        order,
        [[cell(one, other) for other in order] for one in order],
        title=f"{metric}: mean score of each agent (row) with each peer (column)",
        corner="row: agent; column: peer",
        steps=[*steps, (share(most), f"{numeral(most, decimals)} {board.unit}")],
    )
    caption = (
        f"Mean score over tasks ({board.unit}) of the agent in the row with the ",
        term("peer"),
        " in the column, in the order of the leaderboard. With nothing missing, an agent's score is the mean of ",
        f"its row with the mean of its column in its own place.{links.said}",
    )
    one, other = next(pair for pair, mean in means.items() if mean == most)
    highest = f"{label(one)} with {label(other)}: {numeral(most, decimals + 1)} {board.unit}"
    data, finding = [table("All pairs", decimals + 1)], f"The highest score is that of {highest}."
    yield figure("pairs", ("Pairs: ", Name(metric)), caption, [picture], data, finding=finding)


# --- tasks: how an agent's scores spread over them, and which of them move its mean most ------------------------------

QUANTILES = {"q0": 0.05, "q1": 0.25, "q2": 0.5, "q3": 0.75, "q4": 0.95}


@section("tasks", "Scores by task", appendix=True)
@each_metric
def task_scores_section(run: RunFolder, metric: str, board: Leaderboard) -> Iterator[Block]:
    """The spread of scores over tasks; None if the folder has no scores of responses."""
    scores = None if run.scores is None else run.scores.filter(pl.col("metric") == metric)
    if scores is None or not len(scores):
        return
    links, decimals, score = TextLinks(run, metric), decimals_for(board.ends), pl.col("score")
    spread = scores.group_by("agent").agg(
        score.count().alias("n"),
        score.null_count().alias("missing"),
        score.min().alias("least"),
        *(score.quantile(share, "linear").alias(name) for name, share in QUANTILES.items()),
        score.max().alias("most"),
    )
    by_agent = {row["agent"]: row for row in spread.iter_rows(named=True)}
    rows = [{**by_agent.get(row.agent, {"agent": row.agent, "n": 0}), "behind": links(row.agent)} for row in board.rows]
    drawn = []
    for row in rows:
        middle, inner, low, high = (row.get(name) for name in ("q2", "q1", "q0", "q4"))
        half = None if inner is None else (inner, row["q3"])
        drawn.append(IntervalRow(row["agent"], Estimate(middle, low, high), shape="stroke", inner=half))
    shares = {name: percent(share) for name, share in QUANTILES.items()}
    headings = {"least": "least", **shares, "most": "most"}
    columns = (
        *blocks.names(agent="agent"),
        *blocks.counts(n="tasks", missing="missing"),
        *(Column(name, heading, "number", "-", decimals) for name, heading in headings.items()),
    )
    caption = (f"Quantiles over {plural(sum(row['n'] for row in rows), 'score')}: ", Name(metric))
    finding, known = "", [row for row in rows if row["n"] > 1]
    if known:
        widest = max(known, key=lambda row: row["q3"] - row["q1"])
        ends = f"{numeral(widest['q1'], decimals)} to {numeral(widest['q3'], decimals)}"
        finding = f"The scores of {label(widest['agent'])} vary most: the middle half of its tasks is from {ends}."
    title = f"{metric}: scores of each agent on single tasks"
    yield interval_figure(
        "tasks",
        ("Scores on single tasks: ", Name(metric)),
        "Boxes show the middle half of the tasks, lines 90% of them; the vertical stroke is the median.",
        drawn,
        [*_influence(links, board, scores), blocks.table(caption, columns, rows)],
        finding=finding,
        title=title,
        axis=board.scale,
    )


def _influence(links: TextLinks, board: Leaderboard, scores: pl.DataFrame) -> Iterator[Block]:
    if not board.influence:
        return
    values = {(task, agent): score for task, agent, score in scores.select("task", "agent", "score").iter_rows()}
    decimals = decimals_for(board.ends)
    rows = [
        cells(
            row,
            score=values.get((row.task, row.agent)),
            ranks=f"{row.rank} → {row.rank_without}",
            moved="yes" if row.ranking_changes else "no",
            behind=links(row.agent),
        )
        for row in board.influence
    ]
    columns = (
        *blocks.names(task="task", agent="agent"),
        Column("score", "score", "number", decimals=decimals),
        Column("change", "change of mean", "signed", decimals=decimals + 1),
        *blocks.texts(ranks="rank", moved="ranking changes"),
    )
    caption = ("Tasks with the most ", term("influence"), ": change of the agent's mean when the task is left out")
    yield blocks.table(caption, columns, rows)


# --- raters ----------------------------------------------------------------------------------------------------------


@section("raters", "Raters")
def raters_section(run: RunFolder) -> Iterator[Block]:
    """The information in one rater's labels about another's; None if no metric scores raters."""
    scores = None if run.leaderboard is None else run.leaderboard.raters
    if scores is None:
        return
    yield words("TVD-MI between a rater's labels and those of the others; higher means more information.")
    yield blocks.result_table(scores.table())
