"""How many tasks a question needs, and how often the answer is wrong, on two recorded critics.

    python benchmarks/method/stopping.py [--orders 40]

The recordings hold a contrast for each of 200 tasks and each ordered pair of 30 agents. Tasks are taken in random
orders, one more at a time, and after each one the question is looked at (``goldless score --until``, alpha 0.05).

Errors: the sign of each task's difference is flipped at random, so there is no difference; an error is a pair that is
decided at any look. Tasks: the mean share of the tasks on which an agent is scored before it is decided, and the agents
that are undecided with all tasks. "other sign": decisions whose sign is not that of the mean over all tasks. The folder
of recordings is named by GOLDLESS_RECORDED, or is ../shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.statistics.answering import Top, Until, parse_question
from goldless.statistics.comparisons import Pairs, all_pairs
from goldless.statistics.deciding import ANYTIME, FIXED_SAMPLE, least_tasks, p_values
from goldless.statistics.skewness import FEWEST_TASKS, believed
from tvdmi_calls import NAMES, read_contrasts, recorded_folder

Values = npt.NDArray[np.float64]
ALPHA = 0.05


@dataclass(frozen=True)
class Looks:
    """What is known of the differences of every pair after each task: [tasks, pairs]."""

    n: Values
    mean: Values
    believed: Values
    """The mean less what skewness may have added to it."""
    sd: Values


def looks(differences: Values) -> Looks:
    """The moments after each task."""
    n = np.broadcast_to(np.arange(1.0, len(differences) + 1)[:, None], differences.shape)
    mean, square, cube = (np.cumsum(differences**power, axis=0) / n for power in (1, 2, 3))
    variance = np.maximum(square - mean**2, 1e-12)
    third = cube - 3 * mean * square + 2 * mean**3
    skew = np.where(n < FEWEST_TASKS, 0.0, third / variance**1.5 * np.sqrt(n * (n - 1)) / np.maximum(n - 2, 1))
    sd = np.sqrt(variance * n / np.maximum(n - 1, 1))
    return Looks(n, mean, believed(n, mean, sd, skew), sd)


def flipped_errors(differences: Values, random: np.random.Generator) -> tuple[float, float]:
    """The share of pairs that are decided although signs are random: by the sequence, and by ordinary intervals."""
    signs = random.choice([-1.0, 1.0], size=differences.shape)
    seen = looks(differences * signs)
    found = (
        (p_values(seen.n, mean, seen.sd, alpha=ALPHA, bound=bound) < ALPHA).any(axis=0).mean()
        for mean, bound in ((seen.believed, ANYTIME), (seen.mean, FIXED_SAMPLE))
    )
    sequence, ordinary = map(float, found)
    return sequence, ordinary


def stop(until: Until, pairs: Pairs, order: npt.NDArray[np.int64], agents: int) -> tuple[Values, int, int, int]:
    """Each agent's share of tasks, agents left open, pairs decided, and those with another sign than all tasks give."""
    asked = until.question.pairs(agents)
    column = {(int(i), int(j)): c for c, (i, j) in enumerate(zip(pairs.first, pairs.second, strict=True))}
    columns = [column[min(pair), max(pair)] for pair in asked]
    sign = np.array([1.0 if i < j else -1.0 for i, j in asked])
    differences = pairs.differences[order][:, columns] * sign
    seen, tasks = looks(differences), len(order)
    first, second = (np.array(side) for side in zip(*asked, strict=True))
    left = np.full(agents, tasks)
    known = np.zeros((agents, agents), np.bool_)
    everyone = np.arange(len(columns))
    open_ = set(until.question.open(known))
    left[[agent for agent in range(agents) if agent not in open_]] = 0
    start = least_tasks(ALPHA / until.question.tests(agents), until.at_least)
    for task in range(start, tasks + 1):
        at = np.minimum(np.minimum(left[first], left[second]), task) - 1
        _, adjusted = until.test(seen.n[at, everyone], seen.believed[at, everyone], seen.sd[at, everyone], agents)
        decided = adjusted < until.alpha
        ahead = seen.mean[at, everyone] > 0
        known[:] = False
        known[first[decided & ahead], second[decided & ahead]] = True
        known[second[decided & ~ahead], first[decided & ~ahead]] = True
        now = set(until.question.open(known))
        left[list(open_ - now)] = task
        open_ &= now
        if not open_:
            break
    final = differences.mean(axis=0) > 0
    wrong = int((decided & (ahead != final)).sum())
    return left / tasks, len(open_), int(decided.sum()), wrong


class FullRanking(Top):
    """The question that ``--until`` does not take: every pair of agents."""

    def tests(self, agents: int, decided: int = 0) -> int:
        """All pairs that are not yet decided (Holm)."""
        return agents * (agents - 1) // 2 - decided

    def open(self, beats: npt.NDArray[np.bool_]) -> list[int]:
        """Those with a neighbour from whom they are not told apart."""
        undecided = ~(beats | beats.T | np.eye(len(beats), dtype=np.bool_))
        return [int(agent) for agent in np.flatnonzero(undecided.any(axis=1))]


def measure(values: Values, orders: int) -> tuple[list[str], list[list[str]]]:
    """The cells of the errors' row, and one row per question."""
    symmetric = (values + values.transpose(0, 2, 1)) / 2
    scores = np.nanmean(symmetric, axis=2)
    agents = scores.shape[1]
    pairs = all_pairs(scores)
    random = np.random.default_rng(0)
    drawn = [random.permutation(len(scores)) for _ in range(orders)]
    errors = np.array([flipped_errors(pairs.differences[order], random) for order in drawn])
    middle = int(np.argsort(scores.mean(axis=0))[agents // 2])
    names = [str(agent) for agent in range(agents)]
    questions = [
        ("all others against one in the middle (baseline=A)", parse_question(f"baseline={middle}", names)),
        ("the best (best)", parse_question("best", names)),
        ("the top five (top=5)", parse_question("top=5", names)),
        ("full ranking, 435 pairs", FullRanking(1, "ranking")),
    ]
    rows = []
    for text, question in questions:
        found = [stop(Until(question, ALPHA), pairs, order, agents) for order in drawn]
        others = [np.delete(one[0], middle) if "middle" in text else one[0] for one in found]
        share = float(np.mean([one.mean() for one in others]))
        open_ = float(np.mean([one[1] for one in found])) / agents
        decided, wrong = (sum(one[place] for one in found) for place in (2, 3))
        rows.append([text, f"{share:.2f}", f"{open_:.2f}", f"{wrong / max(1, decided):.4f}"])
    return [f"{errors[:, 0].mean():.3f}", f"{errors[:, 1].mean():.3f}"], rows


def table(header: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table."""
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    print("".join(f"| {' | '.join(row)} |\n" for row in rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=40)
    orders = parser.parse_args().orders
    folder = recorded_folder()
    if not all((folder / path / "critic_contrasts.parquet").is_file() for path in NAMES.values()):
        print(f"no recorded critics in {folder}: set GOLDLESS_RECORDED to the folder of {' and '.join(NAMES.values())}")
        return 0
    measured = {name: measure(read_contrasts(folder / path), orders) for name, path in NAMES.items()}
    print(f"200 tasks, 30 agents, {orders} random orders, alpha {ALPHA}\n")
    table(
        ["signs flipped at random: wrongly decided", "confidence sequence", "ordinary 95 % intervals, looked at"],
        [[name, *errors] for name, (errors, _) in measured.items()],
    )
    table(
        ["question", "share of tasks per agent", "agents undecided in the end", "other sign than with all tasks"],
        [[f"{name}: {row[0]}", *row[1:]] for name, (_, rows) in measured.items() for row in rows],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
