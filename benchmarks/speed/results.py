"""How fast a leaderboard is written and read, as a multiple of ``json.loads`` on the same file.

    python benchmarks/speed/results.py [AGENTS] [TIMES]

A leaderboard of AGENTS agents (60 by default) with every pair compared, the matrix of mean scores with each peer and
the tasks that matter most. Each step runs TIMES times (20 by default) in turn with the others; the fastest counts.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

from goldless.files import write_json
from goldless.reports.document import read_document, write
from goldless.reports.leaderboard import Leaderboard, Leaderboards, PairMeans
from goldless.statistics.bootstrap import Estimate
from goldless.statistics.comparisons import Comparison
from goldless.statistics.influence import Influence
from goldless.statistics.standings import LeaderboardRow


def board(metric: str, agents: tuple[str, ...], draw: random.Random) -> Leaderboard:
    """One metric's leaderboard, of random numbers."""
    rows = []
    for rank, agent in enumerate(agents, 1):
        value = draw.random()
        estimate = Estimate(value, value - 0.1, value + 0.1, n=200, method="bootstrap-t")
        peers = Estimate(value, value - 0.2, value + 0.2, n=200, method="t")
        rows.append(LeaderboardRow(rank, agent, None, estimate, 10_000, 9_990, agents[rank:], None, peers))
    comparisons = tuple(
        Comparison(first, second, draw.random() - 0.5, draw.random(), draw.random(), 200, draw.random(), 12)
        for first, second in combinations(agents, 2)
    )
    influence = tuple(Influence(agent, "task", draw.random(), 1, 2, ranking_changes=True) for agent in agents)
    means = tuple(tuple(None if agent == peer else draw.random() for peer in agents) for agent in agents)
    return Leaderboard(
        metric,
        "nats",
        0.95,
        tuple(rows),
        comparisons,
        {"metric": metric, "seed": "0"},
        influence=influence,
        matrix=PairMeans(agents, means),
    )


def fastest(times: int, steps: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of the fastest run of each step; the first round does not count."""
    seconds = dict.fromkeys(steps, float("inf"))
    for run in range(times + 1):
        for name, step in steps.items():
            begin = time.perf_counter()
            step()
            if run > 0:
                seconds[name] = min(seconds[name], time.perf_counter() - begin)
    return seconds


def main() -> None:
    agents_count, times = (int(number) for number in (*sys.argv[1:], 60, 20)[:2])
    if len(sys.argv) == 2:
        times = 20
    draw = random.Random(0)
    agents = tuple(f"agent {number}" for number in range(agents_count))
    boards = {metric: board(metric, agents, draw) for metric in ("gem-raw", "tvd-mi", "length")}
    result = Leaderboards(study="drawn", metrics=boards)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "leaderboard.json"
        write_json(path, write(result))
        assert write(read_document(path, Leaderboards)) == write(result)
        text = path.read_text(encoding="utf-8")
        seconds = fastest(
            times,
            {
                "json.loads": lambda: json.loads(text),
                "read": lambda: read_document(path, Leaderboards),
                "write": lambda: write(result),
            },
        )
    print(f"{len(agents)} agents, {len(boards)} metrics, {len(text):,} characters")
    for name, taken in seconds.items():
        print(f"{name:12} {1000 * taken:8.2f} ms   {taken / seconds['json.loads']:6.1f} x json.loads")


if __name__ == "__main__":
    main()
