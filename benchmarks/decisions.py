"""How often "better than" is wrong, and how often it is found, on simulated studies whose truth is known.

    python benchmarks/decisions.py [--quick] [--studies 1500] [--only error|power|peers|alternatives]

Prints four Markdown tables. Studies have 6 agents, scores a standard deviation of 1 besides what all agents share.

Family-wise error: all agents have the same true mean; an error is any pair decided. "one skewed" is one agent with
skewed scores (exponential, or lognormal with sigma 1) among normal ones. "random": each score is missing with
probability 0.2; "low": with 0.35 below the median and 0.05 above, so the means of what is there differ in truth.

Power: the share of true differences that are decided, with true means 0, 0.2, … 1.0 (12 tasks: 0, 0.4, … 2.0);
beside it the sign-flip test of each pair corrected by Holm.

Alternatives: what else was tried against one skewed agent, with its family-wise error and its power, in per cent, on
the same studies. S is the statistic of max-T, g a pair's sample skewness, n its tasks; the flips are those of max-T.

Peers: the coverage of 95 % intervals for the mean over all tasks and all peers like these, with effects of tasks,
peers, and both together; a peer's effect is skewed by 1.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from goldless.statistics.bootstrap import task_intervals
from goldless.statistics.comparisons import SIGNIFICANT, all_pairs, compare_all, compare_pairs, holm
from goldless.statistics.new_peers import new_peer_intervals

FloatArray = npt.NDArray[np.float64]
AGENTS = 6
NAMES = [str(agent) for agent in range(AGENTS)]
PAIRS = list(itertools.combinations(range(AGENTS), 2))
FLIPS = 999


def draw(shape: str, size: tuple[int, ...], random: np.random.Generator) -> FloatArray:
    """Scores with mean 0 and standard deviation 1."""
    match shape:
        case "normal":
            return random.normal(size=size)
        case "t, 3 df":
            return random.standard_t(3, size=size) / np.sqrt(3)
        case "exponential":
            return random.exponential(size=size) - 1
        case "lognormal":
            return (random.lognormal(size=size) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)
    raise ValueError(shape)


NULLS = {
    "normal": ("normal", "normal"),
    "t, 3 df": ("t, 3 df", "t, 3 df"),
    "lognormal": ("lognormal", "lognormal"),
    "unequal variances": ("normal", "normal"),
    "one skewed, exponential": ("exponential", "normal"),
    "one skewed, lognormal": ("lognormal", "normal"),
}


def study(name: str, tasks: int, missing: str, random: np.random.Generator) -> FloatArray:
    """A study [tasks, agents] without true differences."""
    first, others = NULLS[name]
    scores = draw(others, (tasks, AGENTS), random)
    scores[:, 0] = draw(first, (tasks,), random)
    if name == "unequal variances":
        scores *= np.linspace(0.3, 2.0, AGENTS)
    if missing == "random":
        scores[random.random(scores.shape) < 0.2] = np.nan
    if missing == "low":
        low = scores < np.median(scores, axis=0)
        scores[random.random(scores.shape) < np.where(low, 0.35, 0.05)] = np.nan
    return scores


def signs(tasks: int, random: np.random.Generator) -> FloatArray:
    """Flips for the pair tests: all of them up to 12 tasks, else random ones, the data among them."""
    if tasks <= 12:
        return np.array(list(itertools.product((1.0, -1.0), repeat=tasks)))
    drawn = np.where(random.random((FLIPS + 1, tasks)) < 0.5, -1.0, 1.0)
    drawn[0] = 1.0
    return drawn


def by_holm(scores: FloatArray, flips: FloatArray) -> list[bool]:
    """Whether each pair is decided by sign flips of its mean and Holm's correction."""
    differences = np.stack([scores[:, i] - scores[:, j] for i, j in PAIRS], axis=1)
    filled = np.nan_to_num(differences)
    as_far = np.abs(flips @ filled) >= np.abs(filled.sum(axis=0)) * (1 - 1e-9)
    enough = (~np.isnan(differences)).sum(axis=0) >= 2
    ps = [float(p) if has else None for p, has in zip(as_far.mean(axis=0), enough, strict=True)]
    return [p is not None and p < SIGNIFICANT for p in holm(ps)]


def error_table(studies: int, tasks: tuple[int, ...]) -> Iterator[str]:
    """The family-wise error of each null."""
    yield "| scores | tasks | missing | max-T | Holm |"
    yield "|" + " --- |" * 5
    for name, n, missing in itertools.product(NULLS, tasks, ("none", "random", "low")):
        random = np.random.default_rng([n, len(name), len(missing)])
        flips = signs(n, random)
        wrong = np.zeros((studies, 2))
        for one in range(studies):
            scores = study(name, n, missing, random)
            found = compare_all(NAMES, scores, seed=one, permutations=FLIPS)
            wrong[one] = any(c.decided for c in found), any(by_holm(scores, flips))
        ours, other = wrong.mean(axis=0)
        error = np.sqrt(ours * (1 - ours) / studies)
        yield f"| {name} | {n} | {missing} | **{ours:.3f}** ± {error:.3f} | {other:.3f} |"


def power_table(studies: int, tasks: tuple[int, ...]) -> Iterator[str]:
    """The share of true differences that are decided: all, those with the lowest agent, and those with the leader."""
    yield "| scores | tasks | all pairs | Holm | baseline, in all | baseline only | leader, in all | leader only |"
    yield "|" + " --- |" * 8
    for shape, n in itertools.product(("normal", "t, 3 df", "lognormal"), tasks):
        random = np.random.default_rng([n, len(shape)])
        flips = signs(n, random)
        found = np.zeros((studies, 6))
        for one in range(studies):
            scores = draw(shape, (n, AGENTS), random) + (0.4 if n < 20 else 0.2) * np.arange(AGENTS)
            pairs = all_pairs(scores)
            everything = compare_pairs(NAMES, pairs, seed=one, permutations=FLIPS)
            best = NAMES[int(scores.mean(axis=0).argmax())]
            lowest = compare_pairs(NAMES, pairs, baseline="0", seed=one, permutations=FLIPS)
            leading = compare_pairs(NAMES, pairs, leader=best, seed=one, permutations=FLIPS)
            found[one] = [
                np.mean([c.decided for c in everything]),
                np.mean(by_holm(scores, flips)),
                np.mean([c.decided for c in everything if "0" in {c.first, c.second}]),
                np.mean([c.decided for c in lowest]),
                np.mean([c.decided for c in everything if best in {c.first, c.second}]),
                np.mean([c.decided for c in leading]),
            ]
        yield f"| {shape} | {n} | " + " | ".join(f"{100 * share:.1f} %" for share in found.mean(axis=0)) + " |"


# --- alternatives ---------------------------------------------------------------------------------------------------

FIRST, SECOND = (np.array(side) for side in zip(*PAIRS, strict=True))
ALTERNATIVES = (
    "max-T",
    "max-T, decided below 0.043",
    "max-T, decided below 0.04",
    "Hall's transformation of t, in every flip",
    "half of it",
    "S discounted against the tail, g / 2",
    "S discounted against the tail, g · n / (n + 30)",
    "S discounted against the tail, g beyond ±1",
    "the larger p of max-T and of the bootstrap of t",
)


def by_alternatives(scores: FloatArray, random: np.random.Generator) -> FloatArray:
    """Whether each pair is decided [alternatives, pairs]."""
    scores = scores[(~np.isnan(scores)).sum(axis=1) > 1]
    there = ~np.isnan(scores[:, FIRST] - scores[:, SECOND])
    d = np.nan_to_num(scores[:, FIRST] - scores[:, SECOND])
    n, squares = there.sum(axis=0), (d**2).sum(axis=0)
    flips = np.where(random.random((FLIPS + 1, len(d))) < 0.5, -1.0, 1.0)
    flips[0] = 1.0
    sums = flips @ d
    mean = sums / n
    variance = np.maximum(squares / n - mean**2, 1e-12)
    t = mean / np.sqrt(variance / np.maximum(n - 1, 1))
    g = (flips @ d**3 / n - 3 * mean * squares / n + 2 * mean**3) / variance**1.5
    plain = np.abs(sums / np.sqrt(squares))
    own, skew = plain[0], g[0]
    against = np.sign(sums[0]) * np.sign(skew) < 0
    edgeworth = (2 * own**2 + 1) / (6 * np.sqrt(n))

    def discounted(size: FloatArray) -> FloatArray:
        return max_t(np.where(against, np.maximum(own - size * edgeworth, 0), own), plain)

    def hall(g: FloatArray) -> FloatArray:
        moved = np.abs(t + g * t**2 / (3 * np.sqrt(n)) + g**2 * t**3 / (27 * n) + g / (6 * np.sqrt(n)))
        return max_t(moved[0], moved)

    p = max_t(own, plain)
    ps = (
        *(p, p, p, hall(g), hall(g / 2), discounted(np.abs(skew) / 2), discounted(np.abs(skew) * n / (n + 30))),
        discounted(np.maximum(np.abs(skew) - 1, 0)),
        np.maximum(p, max_t(np.abs(t[0]), bootstrap_t(d, there, random))),
    )
    limits = np.array([SIGNIFICANT, 0.043, 0.04, *[SIGNIFICANT] * 6])
    return np.asarray(np.stack(ps) < limits[:, None], dtype=np.float64)


def max_t(observed: FloatArray, reference: FloatArray) -> FloatArray:
    """Step-down p of each pair, from the statistics of all pairs in each flip or resample."""
    order = np.argsort(-observed)
    largest = np.maximum.accumulate(reference[:, order[::-1]], axis=1)[:, ::-1]
    p = np.empty(len(order))
    p[order] = np.maximum.accumulate((largest >= observed[order] * (1 - 1e-9)).mean(axis=0))
    return p


def bootstrap_t(d: FloatArray, there: npt.NDArray[np.bool_], random: np.random.Generator) -> FloatArray:
    """|t| of each pair in resamples of the tasks, around its own mean."""
    mean = d.sum(axis=0) / there.sum(axis=0)
    centred = np.where(there, d - mean, 0.0)
    drawn = random.multinomial(len(d), np.full(len(d), 1 / len(d)), size=FLIPS + 1).astype(np.float64)
    n = np.maximum(drawn @ there, 2)
    means = drawn @ centred / n
    variance = np.maximum(drawn @ centred**2 / n - means**2, 1e-12)
    return np.asarray(np.abs(means) / np.sqrt(variance / (n - 1)))


def alternatives_table(studies: int, tasks: tuple[int, ...]) -> Iterator[str]:
    """The error with one skewed agent, and the power, of each alternative."""
    skewed = [name for name in NULLS if name.startswith("one skewed")]
    columns = {}
    for name, n, missing in itertools.product(skewed, tasks, ("none", "random")):
        random = np.random.default_rng([n, len(name), len(missing), 2])
        wrong = [by_alternatives(study(name, n, missing, random), random).any(axis=1) for _ in range(studies)]
        columns[f"{name.split(', ')[1]} {n}{', gaps' * (missing == 'random')}"] = np.mean(wrong, axis=0)
    for shape, n in itertools.product(("normal", "t, 3 df", "lognormal"), tasks):
        random = np.random.default_rng([n, len(shape), 2])
        apart = (0.4 if n < 20 else 0.2) * np.arange(AGENTS)
        found = [
            by_alternatives(draw(shape, (n, AGENTS), random) + apart, random).mean(axis=1) for _ in range(studies // 4)
        ]
        columns[f"power, {shape.replace(',', '')} {n}"] = np.mean(found, axis=0)
    yield "| rule | " + " | ".join(columns) + " |"
    yield "|" + " --- |" * (1 + len(columns))
    for place, rule in enumerate(ALTERNATIVES):
        yield f"| {rule} | " + " | ".join(f"{100 * column[place]:.1f}" for column in columns.values()) + " |"


# --- peers ----------------------------------------------------------------------------------------------------------


def peer_table(studies: int) -> Iterator[str]:
    """The coverage of both intervals for peers like these."""
    yield "| se peers / se tasks | peers | tasks | for these peers | for peers like these | two-way bootstrap |"
    yield "|" + " --- |" * 6
    for ratio, peers, n in itertools.product((0.5, 2.0, 5.0), (3, 5, 9, 29), (12, 40)):
        random = np.random.default_rng([peers, n, int(10 * ratio)])
        # one agent of each study, all of them side by side; a task's effect has a standard deviation of 1
        size = ratio * np.sqrt(peers / n)
        columns = random.normal(size=(n, studies, 1))
        columns = columns + size * (random.gamma(4.0, size=(1, studies, peers)) - 4.0) / 2.0
        columns += random.normal(size=(n, studies, peers))
        means = columns.mean(axis=2)
        intervals = task_intervals(means, resamples=500)
        found = new_peer_intervals(columns, intervals)
        these = np.mean([i.low <= 0 <= i.high for i in intervals if i.low is not None and i.high is not None])
        like = np.mean([one.low <= 0 <= one.high for one in found if one is not None])
        yield (
            f"| {ratio:g} | {peers} | {n} | {100 * these:.1f} | **{100 * like:.1f}** | "
            f"{100 * two_way(columns[:, : min(studies, 1000)], random):.1f} |"
        )


def two_way(columns: FloatArray, random: np.random.Generator, resamples: int = 300) -> float:
    """Coverage of percentile intervals that draw tasks and peers with replacement."""
    n, _, peers = columns.shape
    means = []
    for _ in range(resamples):
        task = np.bincount(random.integers(n, size=n), minlength=n) / n
        peer = np.bincount(random.integers(peers, size=peers), minlength=peers) / peers
        means.append(np.einsum("t,tsp,p->s", task, columns, peer, optimize=True))
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return float(np.mean((low <= 0) & (high >= 0)))


def main() -> None:
    """Print the tables line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1500)
    parser.add_argument("--only", choices=("error", "power", "peers", "alternatives"), help="print one of the tables")
    parser.add_argument("--quick", action="store_true", help="100 studies per row, 12 tasks only")
    options = parser.parse_args()
    studies, tasks = (100, (12,)) if options.quick else (options.studies, (12, 40))
    begin = time.perf_counter()
    tables = {
        "error": error_table(studies, tasks),
        "power": power_table(studies // 4, tasks),
        "peers": peer_table(studies),
        "alternatives": alternatives_table(studies, tasks),
    }
    for name, lines in tables.items():
        for line in lines if options.only in {None, name} else ():
            print(line, flush=True)
        print()
    print(f"{studies} studies per row, {FLIPS} flips, {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
