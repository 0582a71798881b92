"""The texts in a report: of the tasks that decide between the leading two agents, and of each agent's best and worst.

Only a bounded number of them is embedded, so that a report stays small however large the run is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from goldless.arrays import FloatArray
from goldless.files import POLARS_FAILED
from goldless.reports.html.blocks import Block, note, rendered, section, words
from goldless.reports.html.labels import decimals_for, excerpt, label, numeral, plural
from goldless.reports.leaderboard import Leaderboard
from goldless.reports.run_folder import RunFolder

MOST_CHARACTERS, MOST_OF_PROMPT = 1000, 500
"""Of a response and of a prompt; the rest is left out, and its length is said."""
EACH_WAY = 2
"""Tasks per metric that speak most for the leader, and as many for the second."""
MOST_TEXTS = 88
Grid = tuple[list[str], dict[str, FloatArray]]
"""Tasks, and the scores of each agent that has any on them; NaN: missing."""
Shown = Mapping[str, Mapping[str, list[int]]]
"""By task, the agents whose texts are shown, each with the metrics under which it is one of the leading two."""


def has_texts(run: RunFolder) -> bool:
    """True if the folder has texts and scores of single responses."""
    return run.all_scores is not None and bool(run.files("responses"))


def agents_of(run: RunFolder) -> list[str]:
    """The agents of all metrics, in order."""
    return list(dict.fromkeys(row.agent for board in run.standings.values() for row in board.rows))


class TextLinks:
    """Links to the texts behind a number under a metric, as the page's script reads them."""

    def __init__(self, run: RunFolder, metric: str) -> None:
        self._metric = list(run.standings).index(metric)
        self._agents = {name: place for place, name in enumerate(agents_of(run))} if has_texts(run) else {}
        self.said = " A click on a cell, or on a number in its data, shows texts behind it." * bool(self._agents)
        """A sentence on what a click does, where there are texts."""

    def __call__(self, agent: str, other: str | None = None) -> str | None:
        """The texts of an agent, or of two; None: the page has none."""
        agents = [self._agents.get(name) for name in (agent, other) if name is not None]
        return None if None in agents else " ".join(map(str, (self._metric, *agents)))


@section("texts", "What they differ about")
def texts_section(run: RunFolder) -> Iterator[Block]:
    """The tasks that decide between the leading two agents, with both texts; None if the folder has no texts."""
    scores = run.all_scores
    if scores is None or not has_texts(run):
        return
    shown: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
    said: defaultdict[str, dict[int, str]] = defaultdict(dict)
    grids = {metric: _grid(scores.filter(pl.col("metric") == metric)) for metric in run.standings}
    for place, (metric, board) in enumerate(run.standings.items()):
        for task, leaders, values in _between_leaders(board, grids[metric], agents_of(run)):
            said[task][place] = values
            for agent in leaders:
                shown[task].setdefault(agent, []).append(place)
    many = sum(map(len, shown.values()))
    for task, agent in chain(_best_and_worst(grids), _apart(run.standings, grids, shown)):
        if many >= MOST_TEXTS:
            break
        many += agent not in shown[task]
        shown[task].setdefault(agent, [])
    cards = list(_cards(run, scores, shown, said))
    if not cards:
        return
    yield words(
        "The tasks on which the two leading agents differ most, either way, with both responses. Choose an agent, or "
        "follow a score in the table above, to see where that agent did best and worst."
    )
    yield rendered("texts.html", agents=agents_of(run), cards=cards)
    yield note(
        f"This file has texts of {plural(len(cards), 'task')} of {scores['task'].n_unique():,}, at most "
        f"{MOST_CHARACTERS:,} characters of each. All of them are in the viewer: goldless view."
    )


def _grid(scores: pl.DataFrame) -> Grid:
    tasks = {name: place for place, name in enumerate(scores["task"].unique(maintain_order=True))}
    found: Grid = [*tasks], defaultdict(lambda: np.full(len(tasks), np.nan))
    for task, agent, score in scores.select("task", "agent", "score").drop_nulls().iter_rows():
        found[1][agent][tasks[task]] = score
    return found


def _between_leaders(board: Leaderboard, grid: Grid, agents: Sequence[str]) -> Iterator[tuple[str, list[str], str]]:
    """Tasks where the two leading agents differ most either way, the two in the page's order, and their scores."""
    tasks, of = grid
    leaders = sorted([row.agent for row in board.rows if row.score is not None][:2], key=agents.index)
    if len(leaders) < 2 or not of.keys() >= set(leaders):
        return
    by, decimals = of[leaders[0]] - of[leaders[1]], decimals_for(board.ends)
    order = [int(at) for at in np.argsort(-by, kind="stable") if not np.isnan(by[at])]
    ahead = [at for at in order if by[at] > 0][:EACH_WAY]
    behind = [at for at in reversed(order) if by[at] < 0][:EACH_WAY]
    for at in (*ahead, *behind):
        told = ", ".join(f"{label(agent)} {numeral(of[agent][at], decimals)}" for agent in leaders)
        yield tasks[at], leaders, f"{told} ({numeral(by[at], decimals, signed=True)})"


def _best_and_worst(grids: Mapping[str, Grid]) -> Iterator[tuple[str, str]]:
    """By metric and agent, the task where it scored highest, then the one where it scored lowest, beside the others."""
    for choose in (np.nanargmax, np.nanargmin):
        for tasks, of in grids.values():
            if of:
                mean = np.ma.masked_invalid([*of.values()]).mean(axis=0).filled(0.0)
            yield from ((tasks[int(choose(own - mean))], agent) for agent, own in of.items())


def _apart(boards: Mapping[str, Leaderboard], grids: Mapping[str, Grid], shown: Shown) -> Iterator[tuple[str, str]]:
    """For every two agents that were compared and have no task on a card yet, that on which they differ most."""
    for metric, board in boards.items():
        tasks, of = grids[metric]
        place = {row.agent: at for at, row in enumerate(board.rows) if row.agent in of}
        compared = [(row.first, row.second) for row in board.comparisons if {row.first, row.second} <= set(place)]
        for one, other in sorted(compared, key=lambda pair: sorted((place[pair[0]], place[pair[1]]), reverse=True)):
            by = np.abs(of[one] - of[other])
            if not np.isnan(by).all() and not any({one, other} <= set(on) for on in shown.values()):
                yield from ((tasks[int(np.nanargmax(by))], agent) for agent in (one, other))


def _cards(
    run: RunFolder, scores: pl.DataFrame, shown: Shown, said: Mapping[str, Mapping[int, str]]
) -> Iterator[dict[str, Any]]:
    texts = {(str(row["task"]), str(row["agent"])): row.get("text") for row in _rows(run, "responses", shown)}
    tasks = {str(row["task"]): row for row in _rows(run, "tasks", shown)}
    places = {name: place for place, name in enumerate(agents_of(run))}
    by_response: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    decimals = {metric: decimals_for(board.ends) for metric, board in run.standings.items()}
    values = scores.filter(pl.col("task").is_in(list(shown)) & pl.col("metric").is_in(list(decimals)))
    for metric, task, agent, score in values.select("metric", "task", "agent", "score").iter_rows():
        by_response[task, agent].append(f"{label(metric, 24)} {numeral(score, decimals[metric])}")
    for task, agents in shown.items():
        found = []
        for agent, led in sorted(agents.items(), key=lambda one: places.get(one[0], 0)):
            if agent in places and (text := texts.get((task, agent))) is not None:
                about = {"agent": places[agent], "name": agent, "scores": " · ".join(by_response[task, agent])}
                found.append({**about, "text": excerpt(text, MOST_CHARACTERS), "leads": led})
        if found:
            asked = tasks.get(task, {})
            prompt = excerpt(asked.get("prompt") or "", MOST_OF_PROMPT)
            about = {"number": asked.get("number"), "task": task, "prompt": prompt}
            yield {**about, "texts": found, "said": said.get(task, {})}


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
