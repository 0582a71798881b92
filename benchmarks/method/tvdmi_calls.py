"""How few critic calls rank the agents as all of them do (TVD-MI), on two recorded critics.

    python benchmarks/method/tvdmi_calls.py [--seeds 60]

The recordings hold a contrast (one matched and one shuffled critic call) for each of 200 tasks and each ordered pair of
30 agents. A design pays for part of them and sees no other; its scores are compared with those of all pairs by
Spearman's rank correlation: the mean over seeds, and in brackets the 5 % quantile. The folder of recordings is named
by GOLDLESS_RECORDED, or is ../shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.stats import rankdata

from goldless.judging.critic_questions import choose_design, chosen_pairs

Values = npt.NDArray[np.float64]
Cells = npt.NDArray[np.bool_]
Chance = np.random.Generator
Estimator = Callable[[Values], Values]
Cost = Callable[[Values, Chance], Cells]

NAMES = {"SamSum": "samsum_peer_prediction", "Reddit": "reddit_peer_prediction"}
ATTACKS = ("case_flip", "format", "padding", "pattern")
SHARE = 0.1
CALLS = 2
"""A contrast's calls: one matched, one shuffled."""
FIRST_PASS = 50
"""Rings that an adaptive design spends before it chooses."""


def recorded_folder() -> Path:
    """The folder of the recordings; it may not exist."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("GOLDLESS_RECORDED", beside))


def read_contrasts(folder: Path) -> Values:
    """Contrasts [tasks, first agents, second agents], NaN on the diagonal."""
    rows = pl.read_parquet(folder / "critic_contrasts.parquet")
    tasks = {name: place for place, name in enumerate(sorted(set(rows["task"])))}
    agents = {name: place for place, name in enumerate(sorted(set(rows["first"])))}
    values = np.full((len(tasks), len(agents), len(agents)), np.nan)
    at = ([tasks[t] for t in rows["task"]], [agents[a] for a in rows["first"]], [agents[a] for a in rows["second"]])
    values[at] = rows["contrast"].to_numpy()
    return values


# Estimators: one score an agent, from the contrasts that were paid for (NaN: not paid for).


def mean_of(values: Values, *, axis: int) -> Values:
    """Mean over an axis without the missing; NaN where all are missing."""
    counts = np.sum(~np.isnan(values), axis=axis)
    means = np.full(counts.shape, np.nan)
    np.divide(np.nansum(values, axis=axis), counts, out=means, where=counts > 0)
    return means


def plain(values: Values) -> Values:
    """Mean over tasks of the mean of the row and column averages."""
    return mean_of(mean_of(np.stack([mean_of(values, axis=2), mean_of(values, axis=1)]), axis=0), axis=0)


def additive(values: Values) -> Values:
    """Scores by least squares: a contrast is the sum of an effect of its first and one of its second agent.

    Both effects of an agent are the same number, as its score counts both directions; the least of several solutions.
    """
    paid = ~np.isnan(values)
    counts = paid.sum(axis=0) + paid.sum(axis=0).T
    sums = np.where(paid, values - values[paid].mean(), 0.0).sum(axis=0)
    products = np.diag(counts.sum(axis=1)) + counts
    effects: Values = np.linalg.pinv(products.astype(float), hermitian=True) @ (sums.sum(axis=1) + sums.sum(axis=0))
    return effects


# Designs: the cells that are paid for.


def draw_tasks(values: Values, chance: Chance, count: int) -> list[int]:
    return [int(task) for task in chance.permutation(len(values))[:count]]


def off_diagonal(cells: Cells) -> Cells:
    cells[:, np.arange(cells.shape[1]), np.arange(cells.shape[1])] = False
    return cells


def all_pairs(count: int) -> Cost:
    """Every pair of some tasks."""

    def pay(values: Values, chance: Chance) -> Cells:
        cells = np.zeros(values.shape, dtype=bool)
        cells[draw_tasks(values, chance, count)] = True
        return off_diagonal(cells)

    return pay


def common_panel(partners: int, *, directions: int = 2, share: float = SHARE) -> Cost:
    """The same partners for every agent and task, on as many tasks as the share pays for."""

    def pay(values: Values, chance: Chance) -> Cells:
        return on_panel(values, chance, chance.permutation(values.shape[1])[:partners], directions, share)

    return pay


def on_panel(values: Values, chance: Chance, panel: npt.NDArray[np.int64], directions: int, share: float) -> Cells:
    tasks, agents, _ = values.shape
    one = np.zeros((1, agents, agents), dtype=bool)
    one[0, :, panel] = True
    if directions == 2:
        one[0, panel] = True
    one = off_diagonal(one)
    cells = np.zeros(values.shape, dtype=bool)
    cells[draw_tasks(values, chance, int(share * tasks * agents * (agents - 1) / one.sum()))] = one
    return cells


def adaptive_panel(partners: int, choose: str) -> Cost:
    """A common panel chosen by the scores of a first pass; the first pass is paid for and not used again."""

    def pay(values: Values, chance: Chance) -> Cells:
        first = rings(FIRST_PASS)(values, chance)
        order = np.argsort(-plain(np.where(first, values, np.nan)))
        agents = len(order)
        middle = (agents - partners) // 2
        picked = {
            "best": order[:partners],
            "middle": order[middle : middle + partners],
            "spread": order[np.linspace(0, agents - 1, partners).round().astype(int)],
        }[choose]
        return on_panel(values, chance, picked, 2, SHARE - first.sum() / np.sum(~np.isnan(values)))

    return pay


def panel_per_task(partners: int, tasks: int) -> Cost:
    """Another panel on every task; all agents take turns."""

    def pay(values: Values, chance: Chance) -> Cells:
        agents = values.shape[1]
        turns = np.concatenate([chance.permutation(agents) for _ in range(partners * tasks // agents + 1)])
        cells = np.zeros(values.shape, dtype=bool)
        for place, task in enumerate(draw_tasks(values, chance, tasks)):
            panel = turns[place * partners : (place + 1) * partners]
            cells[task, panel] = True
            cells[task, :, panel] = True
        return off_diagonal(cells)

    return pay


def panel_per_agent(partners: int, tasks: int) -> Cost:
    """Every agent is first with partners of its own, the same on every task."""

    def pay(values: Values, chance: Chance) -> Cells:
        agents = values.shape[1]
        cells = np.zeros(values.shape, dtype=bool)
        chosen = draw_tasks(values, chance, tasks)
        for agent in range(agents):
            others = chance.permutation(np.delete(np.arange(agents), agent))[:partners]
            cells[np.ix_(np.array(chosen), np.array([agent]), others)] = True
        return cells

    return pay


def random_pairs(values: Values, chance: Chance) -> Cells:
    """Each pair of each task with the same chance."""
    open_cells = np.flatnonzero(~np.isnan(values))
    cells = np.zeros(values.size, dtype=bool)
    cells[chance.permutation(open_cells)[: int(SHARE * len(open_cells))]] = True
    return cells.reshape(values.shape)


def rings(count: int, *, tasks: int | None = None) -> Cost:
    """What ``choose_design`` chooses for this many rings; with ``tasks``, on that many tasks only."""

    def pay(values: Values, chance: Chance) -> Cells:
        agents = values.shape[1]
        some = draw_tasks(values, chance, tasks or len(values))
        design = choose_design(len(some), agents, budget_calls=count * agents * CALLS, shuffles=1)
        names = [str(agent) for agent in range(agents)]
        pairs = chosen_pairs([str(task) for task in some], names, design, seed=int(chance.integers(2**32)))
        cells = np.zeros(values.shape, dtype=bool)
        for task, asked in pairs.items():
            cells[int(task), [int(first) for first, _ in asked], [int(second) for _, second in asked]] = True
        return cells

    return pay


# Comparison.


@dataclass(frozen=True, slots=True)
class Agreement:
    """Rank correlations with all pairs, one a seed."""

    correlations: tuple[float, ...]
    share: float
    """Of all pairs that were paid for, mean over seeds."""

    @property
    def mean(self) -> float:
        """The mean rank correlation."""
        return float(np.mean(self.correlations))

    def __str__(self) -> str:
        """The mean with the 5 % quantile."""
        return f"{self.mean:.3f} ({np.quantile(self.correlations, 0.05):.3f})"


def spearman(scores: Values, truth: Values) -> float:
    return float(np.corrcoef(rankdata(scores), rankdata(truth))[0, 1])


def agreement(values: Values, pay: Cost, seeds: int, estimator: Estimator = plain) -> Agreement:
    truth = plain(values)
    found, paid = [], []
    for seed in range(seeds):
        cells = pay(values, np.random.default_rng(seed))
        found.append(spearman(estimator(np.where(cells, values, np.nan)), truth))
        paid.append(cells.sum() / np.sum(~np.isnan(values)))
    return Agreement(tuple(found), float(np.mean(paid)))


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    header = list(header)
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


@dataclass(frozen=True, slots=True)
class Way:
    """A design that costs at most a tenth of the pairs."""

    name: str
    pay: Cost
    first_pass: int = 0
    """Rings paid for only to choose the design."""


def ways() -> list[Way]:
    """The designs in comparison."""
    found = [Way("every pair of 20 random tasks", all_pairs(20))]
    found += [Way(f"common panel of {n}, both directions", common_panel(n)) for n in (3, 5, 10)]
    found += [Way("common panel of 3, one direction", common_panel(3, directions=1))]
    for choose, said in {"best": "the best 5", "middle": "the middle 5", "spread": "5 spread over the ranks"}.items():
        found.append(Way(f"first pass, then {said} as common panel", adaptive_panel(5, choose), FIRST_PASS))
    return [
        *found,
        Way("3 partners of its own for each agent, 193 tasks", panel_per_agent(3, 193)),
        Way("another panel of 3 on each of 103 tasks", panel_per_task(3, 103)),
        Way("pairs at random", random_pairs),
        Way("rings on 58 tasks (10 each)", rings(580, tasks=58)),
        Way("**rings on all 200 tasks (2 or 3 each): as chosen**", rings(580)),
        Way("rings on all 200 tasks (1 each): as chosen for a third", rings(200)),
    ]


def print_designs(recordings: dict[str, Values], seeds: int) -> None:
    """Table of designs that cost a tenth of the pairs."""
    tasks, agents, _ = next(iter(recordings.values())).shape
    every = tasks * agents * (agents - 1)
    rows = [["every pair of all tasks (the paper)", f"{every * CALLS:,}", "100.0 %", *["1"] * 4]]
    for way in ways():
        found = [
            agreement(v, way.pay, seeds, estimator) for v in recordings.values() for estimator in (plain, additive)
        ]
        share = found[0].share + way.first_pass * agents / every
        rows.append([way.name, f"{share * every * CALLS:,.0f}", f"{100 * share:.1f} %", *map(str, found)])
    scores = [f"{name}, {estimator}" for name in recordings for estimator in ("plain", "additive")]
    table(["design", "calls", "of all", *scores], rows)


def calls_for(target: float, points: list[tuple[int, Agreement]]) -> float:
    """Calls at which a curve reaches the target, on a logarithmic scale between its points; NaN if it does not."""
    for (low, before), (high, after) in itertools.pairwise(points):
        if before.mean < target <= after.mean:
            along = (target - before.mean) / (after.mean - before.mean)
            return float(low ** (1 - along) * high**along)
    return float("nan")


def curve(values: Values, rings_each: Iterable[int], seeds: int, *, every_pair: bool) -> dict[int, Agreement]:
    """Agreement by number of calls; with every pair only where the rings make up whole tasks."""
    _, agents, _ = values.shape
    found = {}
    for count in rings_each:
        whole, rest = divmod(count, agents - 1)
        if not (every_pair and rest):
            pay = all_pairs(whole) if every_pair else rings(count)
            found[count * agents * CALLS] = agreement(values, pay, seeds)
    return found


def print_curves(recordings: dict[str, Values], seeds: int) -> None:
    """Tables of rank correlation against calls, and of the calls that reach a rank correlation."""
    counts = (3, 6, 12, *(29 * tasks for tasks in (1, 2, 3, 4, 5, 7, 10, 20, 40, 80)))
    curves = {
        (name, way): curve(values, counts, seeds, every_pair=way == "every pair")
        for name, values in recordings.items()
        for way in ("every pair", "rings")
    }
    rows = []
    for count in counts:
        points = [str(found.get(count * 30 * CALLS, "")) for found in curves.values()]
        rows.append([f"{count * 30 * CALLS:,}", f"{100 * count / (200 * 29):.2f} %", *points])
    table(["calls", "of all", *(f"{name}, {way}" for name, way in curves)], rows)

    rows = []
    for name in recordings:
        for target in (0.9, 0.95, 0.975):
            tasks, ring = (calls_for(target, list(curves[name, way].items())) for way in ("every pair", "rings"))
            rows.append([name, f"{target}", f"{tasks:,.0f}", f"{ring:,.0f}", f"{tasks / ring:.1f}"])
    table(["data", "mean Spearman", "calls, every pair of fewer tasks", "calls, rings", "ratio"], rows)


def fewer_agents(values: Values, agents: int, seeds: int) -> list[str]:
    """Both designs at a tenth of the pairs of a few random agents, against all pairs of these."""
    found: dict[str, list[float]] = {"tasks": [], "rings": []}
    for seed in range(seeds):
        chance = np.random.default_rng(seed)
        some = chance.permutation(values.shape[1])[:agents]
        part = values[:, some][:, :, some]
        count = int(SHARE * len(values))
        for way, pay in (("tasks", all_pairs(count)), ("rings", rings(count * (agents - 1)))):
            scores = plain(np.where(pay(part, chance), part, np.nan))
            found[way].append(spearman(scores, plain(part)))
    return [str(Agreement(tuple(correlations), SHARE)) for correlations in found.values()]


def other_tasks(values: Values, seeds: int) -> list[str]:
    """Half of the tasks, a fifth of their pairs, against every pair of the other half; and every pair of both."""
    found: dict[str, list[float]] = {"tasks": [], "rings": [], "every": []}
    for seed in range(seeds):
        chance = np.random.default_rng(seed)
        order = chance.permutation(len(values))
        here, there = values[order[:100]], values[order[100:]]
        for way, pay in (("tasks", all_pairs(20)), ("rings", rings(580)), ("every", all_pairs(100))):
            found[way].append(spearman(plain(np.where(pay(here, chance), here, np.nan)), plain(there)))
    every = str(Agreement(tuple(found.pop("every")), 1.0))
    return [*(str(Agreement(tuple(found[way]), SHARE)) for way in found), every]


def print_checks(folder: Path, recordings: dict[str, Values], seeds: int) -> None:
    """Table of recordings and sizes that had no part in the choice of the design."""
    rows = []
    for attack in ATTACKS:
        values = read_contrasts(folder / NAMES["Reddit"] / "attacks" / attack)
        found = [str(agreement(values, pay, seeds)) for pay in (all_pairs(20), rings(580), rings(200))]
        rows.append([f"Reddit under attack: {attack}", found[0], found[1], f"3.4 %: {found[2]}"])
    for name, values in recordings.items():
        rows += [[f"{name}, {n} agents drawn at random", *fewer_agents(values, n, seeds), ""] for n in (5, 10, 15)]
        tasks, ring, every = other_tasks(values, seeds)
        rows.append([f"{name}, against the pairs of 100 other tasks", tasks, ring, f"every pair of 100 tasks: {every}"])
    table(["check, 10 % of the pairs", "every pair of fewer tasks", "rings", "beside"], rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60)
    seeds = parser.parse_args().seeds
    folder = recorded_folder()
    if not all((folder / path / "critic_contrasts.parquet").is_file() for path in NAMES.values()):
        print(f"no recorded critics in {folder}: set GOLDLESS_RECORDED to the folder of {' and '.join(NAMES.values())}")
        return 0
    recordings = {name: read_contrasts(folder / path) for name, path in NAMES.items()}
    print(f"Spearman with the ranking of all pairs: mean over {seeds} seeds (5 % quantile)\n")
    print_designs(recordings, seeds)
    print_curves(recordings, seeds)
    print_checks(folder, recordings, seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
