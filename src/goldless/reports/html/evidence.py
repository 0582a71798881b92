"""The texts in a report: of the tasks that decide between the leading two agents, and of each agent's best and worst.

Only a bounded number of them is embedded, so that a report stays small however large the run is.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from goldless.files import POLARS_FAILED
from goldless.reports.html.blocks import Words
from goldless.reports.html.labels import decimals_for, excerpt, label, numeral
from goldless.reports.leaderboard import Leaderboard
from goldless.reports.run_folder import RunFolder

MOST_CHARACTERS, MOST_OF_PROMPT = 1000, 500
"""Of a response and of a prompt; the rest is left out, and its length is said."""
EACH_WAY = 2
"""Tasks per metric that speak most for the leader, and as many for the second."""
MOST_TEXTS = 88


def has_texts(run: RunFolder) -> bool:
    """Whether the folder has texts and scores of single responses."""
    return run.all_scores is not None and bool(run.files("responses"))


class TextLinks:
    """Which texts are behind a number of a report."""

    def __init__(self, run: RunFolder) -> None:
        self._agents = _agents(run) if has_texts(run) else {}
        self._metrics = {metric: place for place, metric in enumerate(run.standings)}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._agents)

    def behind(self, metric: str, agent: str, other: str | None = None) -> str | None:
        """The texts of an agent, or of two, under a metric, as the page's script reads it; None: the page has none."""
        agents = [self._agents.get(name) for name in (agent, other) if name is not None]
        return None if None in agents else " ".join(map(str, (self._metrics[metric], *agents)))


@dataclass(slots=True)
class _Chosen:
    """What is shown of one task."""

    agents: dict[str, list[int]] = field(default_factory=dict)
    """With the metrics under which it is one of the two leading agents."""
    said: dict[int, Words] = field(default_factory=dict)


def deciding_cards(run: RunFolder) -> list[dict[str, Any]]:
    """The cards of all metrics, those that decide first; empty without texts or scores of responses."""
    scores = run.all_scores
    if scores is None or not has_texts(run):
        return []
    chosen: dict[str, _Chosen] = {}
    for place, (metric, board) in enumerate(run.standings.items()):
        mine = scores.filter((pl.col("metric") == metric) & pl.col("score").is_not_null())
        for task, first, second, said in _between_leaders(board, mine):
            one = chosen.setdefault(task, _Chosen())
            for agent in (first, second):
                one.agents.setdefault(agent, []).append(place)
            one.said[place] = said
    texts = sum(len(one.agents) for one in chosen.values())
    for task, agent in itertools.chain(_best_and_worst(run, scores), _apart(run, scores, chosen)):
        if texts >= MOST_TEXTS:
            break
        one = chosen.setdefault(task, _Chosen())
        texts += agent not in one.agents
        one.agents.setdefault(agent, [])
    return _cards(run, chosen, scores)


def _between_leaders(board: Leaderboard, scores: pl.DataFrame) -> Iterator[tuple[str, str, str, Words]]:
    """Tasks where the two leading agents differ most, and what is said of each."""
    leaders = [row.agent for row in board.rows if row.score is not None][:2]
    if len(leaders) < 2:
        return
    first, second = leaders
    of = [
        scores.filter(pl.col("agent") == agent).select("task", pl.col("score").alias(name))
        for agent, name in ((first, "a"), (second, "b"))
    ]
    both = of[0].join(of[1], on="task", maintain_order="left").with_columns((pl.col("a") - pl.col("b")).alias("by"))
    ordered = both.sort("by", descending=True, maintain_order=True)
    ahead = ordered.filter(pl.col("by") > 0).head(EACH_WAY)
    behind = ordered.filter(pl.col("by") < 0).reverse().head(EACH_WAY)
    decimals = decimals_for(board.ends)
    for row in pl.concat([ahead, behind]).iter_rows(named=True):
        values = f"{label(first)} {numeral(row['a'], decimals)}, {label(second)} {numeral(row['b'], decimals)}"
        yield row["task"], first, second, f"{values} ({numeral(row['by'], decimals, signed=True)})"


def _best_and_worst(run: RunFolder, scores: pl.DataFrame) -> list[tuple[str, str]]:
    """By metric and agent, the task where it scored highest and the one where it scored lowest, beside the others."""
    there = scores.filter(pl.col("score").is_not_null() & pl.col("metric").is_in(list(run.standings)))
    apart = pl.col("score") - pl.col("score").mean().over("metric", "task")
    found = (
        there.with_columns(apart.alias("apart"))
        .group_by("metric", "agent", maintain_order=True)
        .agg(
            pl.col("task").sort_by("apart").last().alias("best"), pl.col("task").sort_by("apart").first().alias("worst")
        )
    )
    rows = list(found.iter_rows(named=True))
    return [(row[which], row["agent"]) for which in ("best", "worst") for row in rows]


def _apart(run: RunFolder, scores: pl.DataFrame, chosen: Mapping[str, _Chosen]) -> Iterator[tuple[str, str]]:
    """For every two agents that were compared and have no task on a card yet, that on which they differ most."""
    for metric, board in run.standings.items():
        mine = scores.filter((pl.col("metric") == metric) & pl.col("score").is_not_null())
        by_task = mine.pivot("agent", index="task", values="score", aggregate_function="first")
        place = {row.agent: at for at, row in enumerate(board.rows) if row.agent in by_task.columns}
        compared = [(row.first, row.second) for row in board.comparisons if {row.first, row.second} <= set(place)]
        for first, second in sorted(compared, key=lambda pair: sorted((place[pair[0]], place[pair[1]]), reverse=True)):
            if any({first, second} <= set(one.agents) for one in chosen.values()):
                continue
            by = (by_task[first] - by_task[second]).abs()
            at = by.arg_max()
            if at is not None and by[at] is not None:
                yield from ((by_task["task"][at], agent) for agent in (first, second))


def _cards(run: RunFolder, chosen: dict[str, _Chosen], scores: pl.DataFrame) -> list[dict[str, Any]]:
    texts = {(str(row["task"]), str(row["agent"])): row.get("text") for row in _rows(run, "responses", chosen)}
    tasks = _rows(run, "tasks", chosen)
    prompts = {str(row["task"]): row.get("prompt") for row in tasks}
    numbers = {str(row["task"]): int(row["number"]) for row in tasks}
    places = _agents(run)
    by_response: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    decimals = {metric: decimals_for(board.ends) for metric, board in run.standings.items()}
    values = scores.filter(pl.col("task").is_in(list(chosen)) & pl.col("metric").is_in(list(decimals)))
    for metric, task, agent, score in values.select("metric", "task", "agent", "score").iter_rows():
        by_response[task, agent].append(f"{label(metric, 24)} {numeral(score, decimals[metric])}")
    cards: list[dict[str, Any]] = []
    for task, one in chosen.items():
        shown = [
            {
                "agent": places[agent],
                "name": agent,
                "scores": " · ".join(by_response[task, agent]),
                "text": excerpt(text, MOST_CHARACTERS),
                "leads": led,
            }
            for agent, led in one.agents.items()
            if agent in places and (text := texts.get((task, agent))) is not None
        ]
        if shown:
            prompt = excerpt(prompts.get(task) or "", MOST_OF_PROMPT)
            card = {"number": numbers.get(task), "task": task, "prompt": prompt, "texts": shown, "said": one.said}
            cards.append({**card, "opened": not cards})
    return cards


def _agents(run: RunFolder) -> dict[str, int]:
    """The agents with their places."""
    names = dict.fromkeys(row.agent for board in run.standings.values() for row in board.rows)
    return {name: place for place, name in enumerate(names)}


def _rows(run: RunFolder, table: str, tasks: Iterable[str]) -> list[dict[str, Any]]:
    """The rows of these tasks, with their numbers in the table; none if it cannot be read."""
    try:
        frame = run.scan(table)
        if frame is None:
            return []
        wanted = [name for name in ("task", "agent", "text", "prompt") if name in frame.collect_schema()]
        rows = frame.with_row_index("number").select("number", *wanted)
        return rows.filter(pl.col("task").is_in(list(tasks))).collect().to_dicts()
    except (OSError, ValueError, *POLARS_FAILED):
        return []
