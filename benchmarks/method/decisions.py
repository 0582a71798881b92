"""How often "better than", --until and a gate are wrong, and how often right, on simulated studies of known truth.

    python benchmarks/method/decisions.py [--quick] [--studies 1500] [--only TABLE]

Prints six Markdown tables of simulated studies and four of recorded ones. Simulated scores have a standard deviation of
1 besides what all agents share.

Error: all agents have the same true mean; an error is any pair decided. "one skewed": one agent has skewed scores
(exponential, lognormal with sigma 1) among normal ones; "among narrow": lognormal with sigma 1 or 1.2 among agents with
a twelfth of its spread. "flips alone" is the same test without allowing for skewness, "Holm" the sign-flip test of each
pair corrected by Holm. "random": each score is missing with probability 0.2; "low": with 0.35 below the median and 0.05
above, so the means of what is there differ in truth.

Power: the share of true differences that are decided, with true means 0, 0.2, … 1.0 (under 20 tasks: 0, 0.4, … 2.0).

Until: one pair without a difference is looked at after every task from the tenth to the 400th; an error is a decision
at any look. "ordinary t": looking at Student's interval instead. Tasks: the median that a difference of half a standard
deviation takes.

Gate: the true loss is the margin, so that SHIP is wrong; with a margin of half a standard deviation and no true loss it
is right.

Outlook: pairs with true differences drawn with a standard deviation of 0.4 that are undecided; how often the number of
tasks that is given decides them.

Peers: the coverage of 95 % intervals for the mean over all tasks and all peers like these, with effects of tasks,
peers, and both together; a peer's effect is exponential.

The tables board, pair, promise and order draw tasks with replacement from recorded studies (SamSum and Reddit: tvd-mi,
mi and a judge's wins, both directions averaged), from GOLDLESS_RECORDED or ../shared/data; without them they are
skipped. Agents are drawn too, unless all are used; they are each other's peers, and the truth is the mean over all
recorded tasks.

Board: "wrong": studies with any pair decided in the wrong direction, nothing centred; "power": truly different pairs
decided in the right direction; "leader": both for the pairs of the leader, tested by the leader's rule; "centred":
studies with any pair decided after every agent's mean is made equal; "weighted": the same where nothing is moved but
tasks are drawn with weights (exponential tilting) that make the means equal, for four agents at most.

Pair: two agents by the rule of compare and of gate. "contradiction": the interval excludes zero and the verdict is
undecided, or the other way round; "SHIP": wrong at a true loss of the margin, right without a loss at a margin of half
a standard deviation, and lognormal losses.

Promise: undecided pairs that are given a number of tasks, continued to it with fresh tasks: of two agents by the rule
of compare, of more by that of score. "nearest": of the three undecided pairs of a leaderboard that need the fewest.

Order: decided pairs; "said": the share that keeps its sign under other peers as goldless says, "holds": under as many
other agents as peers, on the same tasks.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from goldless.comparison.comparing import difference
from goldless.comparison.gating import one_sided_bounds
from goldless.comparison.pairing import Paired
from goldless.reports.decisions import LISTED, nearest_first
from goldless.statistics.answering import with_outlook
from goldless.statistics.bootstrap import Draws, task_intervals
from goldless.statistics.comparisons import SIGNIFICANT, all_pairs, compare_pairs, compare_with, holm
from goldless.statistics.deciding import ANYTIME, AT_LEAST, FAR, FIXED_SAMPLE, more_tasks, p_values
from goldless.statistics.other_peers import with_sign_kept
from goldless.statistics.sign_flips import mean_test
from goldless.statistics.skewness import FEWEST_TASKS, believed
from goldless.statistics.standings import new_peer_intervals

FloatArray = npt.NDArray[np.float64]
AGENTS = 6
FLIPS = 999
ALPHA = 0.05
LOOKS = 400


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
        case "lognormal 1.2":
            square = 1.2**2
            return (random.lognormal(sigma=1.2, size=size) - np.exp(square / 2)) / np.sqrt(
                (np.exp(square) - 1) * np.exp(square)
            )
    raise ValueError(shape)


NULLS = {
    "normal": ("normal", "normal"),
    "t, 3 df": ("t, 3 df", "t, 3 df"),
    "lognormal": ("lognormal", "lognormal"),
    "unequal variances": ("normal", "normal"),
    "one skewed, exponential": ("exponential", "normal"),
    "one skewed, lognormal": ("lognormal", "normal"),
    "one skewed among narrow, lognormal": ("lognormal", "normal"),
    "one skewed among narrow, lognormal 1.2": ("lognormal 1.2", "normal"),
}


def study(name: str, agents: int, tasks: int, missing: str, random: np.random.Generator) -> FloatArray:
    """A study [tasks, agents] without true differences."""
    first, others = NULLS[name]
    scores = draw(others, (tasks, agents), random) / (12 if "narrow" in name else 1)
    scores[:, 0] = draw(first, (tasks,), random)
    if name == "unequal variances":
        scores *= np.linspace(0.3, 2.0, agents)
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
    pairs = itertools.combinations(range(scores.shape[1]), 2)
    differences = np.stack([scores[:, i] - scores[:, j] for i, j in pairs], axis=1)
    filled = np.nan_to_num(differences)
    as_far = np.abs(flips @ filled) >= np.abs(filled.sum(axis=0)) * (1 - 1e-9)
    enough = (~np.isnan(differences)).sum(axis=0) >= 2
    ps = [float(p) if has else None for p, has in zip(as_far.mean(axis=0), enough, strict=True)]
    return [p is not None and p < SIGNIFICANT for p in holm(ps)]


def error_table(studies: int, tasks: tuple[int, ...]) -> Iterator[str]:
    """The family-wise error of each null."""
    yield "| scores | agents | tasks | missing | decided | flips alone | Holm |"
    yield "|" + " --- |" * 7
    for name, agents, n in itertools.product(NULLS, (2, AGENTS), tasks):
        for missing in (
            ("none", "random", "low") if agents == AGENTS and n >= 12 and "narrow" not in name else ("none",)
        ):
            random = np.random.default_rng([agents, n, len(name), len(missing)])
            flips = signs(n, random)
            wrong = np.zeros((studies, 3))
            names = [str(agent) for agent in range(agents)]
            for one in range(studies):
                scores = study(name, agents, n, missing, random)
                found = compare_pairs(names, all_pairs(scores), seed=one, permutations=FLIPS)
                plain = any(c.decided or c.skewed for c in found)
                wrong[one] = any(c.decided for c in found), plain, any(by_holm(scores, flips))
            ours, plain, other = wrong.mean(axis=0)
            error = np.sqrt(ours * (1 - ours) / studies)
            yield (
                f"| {name} | {agents} | {n} | {missing} | **{ours:.3f}** ± {error:.3f} | {plain:.3f} | {other:.3f} |"
            )


def power_table(studies: int, tasks: tuple[int, ...]) -> Iterator[str]:
    """The share of true differences that are decided: all, those with the lowest agent, and those with the leader."""
    yield "| scores | tasks | all pairs | flips alone | Holm | baseline only | leader only |"
    yield "|" + " --- |" * 7
    names = [str(agent) for agent in range(AGENTS)]
    for shape, n in itertools.product(("normal", "t, 3 df", "lognormal"), tasks):
        random = np.random.default_rng([n, len(shape)])
        flips = signs(n, random)
        found = np.zeros((studies, 5))
        for one in range(studies):
            scores = draw(shape, (n, AGENTS), random) + (0.4 if n < 20 else 0.2) * np.arange(AGENTS)
            pairs = all_pairs(scores)
            everything = compare_pairs(names, pairs, seed=one, permutations=FLIPS)
            best = names[int(scores.mean(axis=0).argmax())]
            lowest = compare_with(names, scores, "0", seed=one, permutations=FLIPS)
            leading = compare_with(names, scores, best, leads=True, seed=one, permutations=FLIPS)
            found[one] = [
                np.mean([c.decided for c in everything]),
                np.mean([c.decided or c.skewed for c in everything]),
                np.mean(by_holm(scores, flips)),
                np.mean([c.decided for c in lowest]),
                np.mean([c.decided for c in leading]),
            ]
        yield f"| {shape} | {n} | " + " | ".join(f"{100 * share:.1f} %" for share in found.mean(axis=0)) + " |"


# --- one pair --------------------------------------------------------------------------------------------------------

SIDES = ("normal", "t, 3 df", "exponential", "lognormal", "lognormal 1.2")


def looks(drawn: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Number, mean, standard deviation and skewness of [streams, tasks] after each task."""
    n = np.arange(1.0, drawn.shape[1] + 1)
    mean, square, cube = (np.cumsum(drawn**power, axis=1) / n for power in (1, 2, 3))
    variance = np.maximum(square - mean**2, 1e-12)
    third = cube - 3 * mean * square + 2 * mean**3
    skew = third / variance**1.5 * np.sqrt(n * (n - 1)) / np.maximum(n - 2, 1)
    sd = np.sqrt(variance * n / np.maximum(n - 1, 1))
    shape = drawn.shape
    return np.broadcast_to(n, shape), mean, sd, np.where(n >= FEWEST_TASKS, skew, 0.0)


def until_table(studies: int) -> Iterator[str]:
    """How often looking after every task decides wrongly, and how soon rightly."""
    yield "| differences | alpha | decided | sequence alone | ordinary t | tasks for 0.5 | sequence alone |"
    yield "|" + " --- |" * 7
    for shape, alpha in itertools.product(SIDES, (0.05, 0.01)):
        random = np.random.default_rng([len(shape), int(1000 * alpha)])
        nothing = draw(shape, (studies, LOOKS), random)
        wrong = [decided_at(nothing, alpha, how) <= LOOKS for how in ("skew", "plain", "ordinary")]
        takes = [np.median(decided_at(nothing + 0.5, alpha, how)) for how in ("skew", "plain")]
        shown = [f"{one.mean():.3f}" for one in wrong]
        yield f"| {shape} | {alpha:g} | **{shown[0]}** | {shown[1]} | {shown[2]} | {takes[0]:.0f} | {takes[1]:.0f} |"


def decided_at(drawn: FloatArray, alpha: float, how: str) -> FloatArray:
    """The task after which each stream is decided; one more than there are: never."""
    n, mean, sd, skew = looks(drawn)
    if how == "skew":
        mean = believed(n, mean, sd, skew)
    bound = FIXED_SAMPLE if how == "ordinary" else ANYTIME
    found = p_values(n, mean, sd, alpha=alpha, bound=bound) < alpha
    return np.where(found.any(axis=1), found.argmax(axis=1) + 1.0, drawn.shape[1] + 1.0)


def gate_table(studies: int) -> Iterator[str]:
    """How often a candidate ships: with a true loss of the margin, and without a loss."""
    yield "| differences | tasks | wrong SHIP | bootstrap alone | right SHIP | bootstrap alone |"
    yield "|" + " --- |" * 6
    margin = 0.5
    for shape, n in itertools.product(SIDES, (10, 12, 20, 50)):
        random = np.random.default_rng([len(shape), n])
        gaps = -draw(shape, (studies, n), random)
        rates = []
        for loss in (margin, 0.0):
            found = np.array([ships(one - loss, margin, seed) for seed, one in enumerate(gaps)])
            rates += [f"{rate:.3f}" for rate in found.mean(axis=0)]
        yield f"| {shape}, to the left | {n} | **{rates[0]}** | {rates[1]} | {rates[2]} | {rates[3]} |"


def ships(gaps: FloatArray, margin: float, seed: int) -> tuple[bool, bool]:
    """Whether the gate's lower bound is above the margin, and whether that of the bootstrap is."""
    draws: Draws = {"seed": seed, "resamples": 500, "level": 1 - 2 * ALPHA}
    low = one_sided_bounds(gaps, None, draws).low
    (plain,) = task_intervals(gaps[:, None], **draws)
    return low is not None and low > -margin, plain.low is not None and plain.low > -margin


def outlook_table(studies: int) -> Iterator[str]:
    """How often an undecided difference is decided at the number of tasks that is given, and how often one is given."""
    yield "| tasks | undecided | given | decides | median of the numbers |"
    yield "|" + " --- |" * 5
    for n in (10, 20, 40):
        random = np.random.default_rng(n)
        undecided, numbers, decides = 0, [], []
        for effect in random.normal(0, 0.4, size=10 * studies):
            gaps = random.normal(effect, 1.0, size=n)
            if decided_by_t(gaps):
                continue
            undecided += 1
            more = more_tasks(gaps, alpha=ALPHA)
            if more is not None:
                numbers.append(more)
                decides.append(decided_by_t(np.concatenate([gaps, random.normal(effect, 1.0, size=more)])))
        given = len(numbers) / undecided
        yield f"| {n} | {undecided} | {given:.2f} | **{np.mean(decides):.2f}** | {np.median(numbers):.0f} |"


def decided_by_t(gaps: FloatArray) -> bool:
    """Whether Student's interval excludes zero."""
    n, mean, sd = (np.array([float(x)]) for x in (len(gaps), gaps.mean(), gaps.std(ddof=1)))
    return bool(p_values(n, mean, sd, alpha=ALPHA, bound=FIXED_SAMPLE)[0] < ALPHA)


# --- peers ----------------------------------------------------------------------------------------------------------


def peer_table(studies: int) -> Iterator[str]:
    """The coverage of both intervals for peers like these."""
    yield "| se peers / se tasks | peers | tasks | for these peers | for peers like these | two-way bootstrap |"
    yield "|" + " --- |" * 6
    for ratio, peers, n in itertools.product((0.5, 2.0, 5.0), (3, 4, 5, 9, 29), (12, 40)):
        random = np.random.default_rng([peers, n, int(10 * ratio)])
        # one agent of each study, all of them side by side; a task's effect has a standard deviation of 1
        size = ratio * np.sqrt(peers / n)
        columns = random.normal(size=(n, studies, 1))
        columns = columns + size * (random.exponential(size=(1, studies, peers)) - 1.0)
        columns += random.normal(size=(n, studies, peers))
        means = columns.mean(axis=2)
        intervals = task_intervals(means, resamples=500)
        found = new_peer_intervals(columns, intervals)
        these = np.mean([i.low <= 0 <= i.high for i in intervals if i.low is not None and i.high is not None])
        held = [one.low <= 0 <= one.high for one in found if one is not None]
        like = f"**{100 * np.mean(held):.1f}**" if held else "refused"
        yield (
            f"| {ratio:g} | {peers} | {n} | {100 * these:.1f} | {like} | "
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


# --- recorded studies -------------------------------------------------------------------------------------------------

SEED = 20261119
"""Written down before any result was looked at; every cell is seeded by it, its study, agents and tasks."""
RECORDED = ("samsum tvd-mi", "samsum mi", "samsum judge", "reddit tvd-mi", "reddit mi", "reddit judge")
REAL_TASKS = (8, 12, 20, 40)
EVERY_AGENT = 30


def recorded_folder() -> Path | None:
    """The folder of the recorded studies, or None."""
    folder = Path(os.environ.get("GOLDLESS_RECORDED") or Path(__file__).resolve().parents[2] / "../shared/data")
    return folder if (folder / "samsum_peer_prediction").is_dir() else None


@cache
def recorded_scores(name: str) -> FloatArray:
    """Scores [tasks, agents, peers] of a recorded study, both directions averaged; NaN for an agent with itself."""
    folder = recorded_folder()
    assert folder is not None
    domain, metric = name.split()
    table, key, other, value = {
        "tvd-mi": ("critic_contrasts", "first", "second", "contrast"),
        "mi": ("logprobs", "target", "given", "mean_token_logprob_nats"),
        "judge": ("judge_with_context", "first", "second", "first_wins"),
    }[metric]
    rows = pl.read_parquet(folder / f"{domain}_peer_prediction" / f"{table}.parquet").with_columns(
        pl.col("task", key, other).cast(pl.String), pl.col(value).cast(pl.Float64)
    )
    if metric == "mi":
        alone = rows.filter(pl.col(other).is_null()).select("task", key, alone=value)
        rows = rows.drop_nulls(other).join(alone, on=["task", key]).with_columns(pl.col(value) - pl.col("alone"))
    tasks, agents = (sorted(rows[column].unique().to_list()) for column in ("task", key))
    rows = rows.filter(pl.col(key) != pl.col(other))
    places = [
        np.searchsorted(names, rows[column].to_numpy())
        for column, names in (("task", tasks), (key, agents), (other, agents))
    ]
    found = np.full((len(tasks), len(agents), len(agents)), np.nan)
    found[tuple(places)] = rows[value].to_numpy()
    turned = found.transpose(0, 2, 1)
    return (found + (1 - turned if metric == "judge" else turned)) / 2


def drawn_scores(name: str, agents: int, random: np.random.Generator) -> tuple[FloatArray, list[int]]:
    """Scores [all tasks, agents] of that many agents with each other as peers, and which agents they are."""
    pool = recorded_scores(name)
    chosen = sorted(random.choice(pool.shape[1], size=min(agents, pool.shape[1]), replace=False).tolist())
    return np.nanmean(pool[:, chosen][:, :, chosen], axis=2) if agents > 2 else pool_means(name)[:, chosen], chosen


@cache
def pool_means(name: str) -> FloatArray:
    """Scores [tasks, agents] over all peers."""
    return np.nanmean(recorded_scores(name), axis=2)


def equal_weights(scores: FloatArray) -> FloatArray | None:
    """Weights of the tasks under which all agents have the same mean, nearest to equal ones; None: there are none."""
    gaps = scores[:, 1:] - scores[:, :1]
    gaps = gaps / gaps.std(axis=0)
    tilt = np.zeros(gaps.shape[1])
    for _ in range(200):
        logits = gaps @ tilt
        weights = np.exp(logits - logits.max())
        weights /= weights.sum()
        mean = weights @ gaps
        spread = (gaps * weights[:, None]).T @ gaps - np.outer(mean, mean)
        step = np.linalg.lstsq(spread + 1e-9 * np.eye(len(tilt)), mean, rcond=None)[0]
        tilt -= step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(mean).max() < 1e-8:
            return weights if 1 / (weights**2).sum() >= 20 else None  # else a handful of tasks is all there is
    return None


def any_decided(scores: FloatArray, seed: int) -> bool:
    """Whether any pair is decided."""
    names = [str(agent) for agent in range(scores.shape[1])]
    return any(one.decided for one in compare_pairs(names, all_pairs(scores), seed=seed, permutations=FLIPS))


def board_cell(name: str, agents: int, n: int, studies: int) -> list[float]:
    """The shares of one cell: wrong, power, wrong and power of the leader's rule, error centred and weighted."""
    random = np.random.default_rng([SEED, RECORDED.index(name), agents, n])
    wrong, power, leader_wrong, leader_power, centred, weighted = [], [], [], [], [], []
    for seed in range(studies):
        pool, _ = drawn_scores(name, agents, random)
        truth = pool.mean(axis=0)
        scores = pool[random.integers(len(pool), size=n)]
        names = [str(agent) for agent in range(pool.shape[1])]
        best = names[int(scores.mean(axis=0).argmax())]
        leading = compare_with(names, scores, best, leads=True, seed=seed, permutations=FLIPS)
        every = compare_pairs(names, all_pairs(scores), seed=seed, permutations=FLIPS)
        for found, rights, falses in ((every, power, wrong), (leading, leader_power, leader_wrong)):
            signs = [np.sign(truth[int(one.first)] - truth[int(one.second)]) for one in found]
            right = [one.decided and one.difference * sign > 0 for one, sign in zip(found, signs, strict=True)]
            false = [one.decided and one.difference * sign < 0 for one, sign in zip(found, signs, strict=True)]
            rights.append(np.mean(right))
            falses.append(any(false))
        centred.append(any_decided(scores - truth, seed))
        if agents <= 4 and (weights := equal_weights(pool)) is not None:
            weighted.append(any_decided(pool[random.choice(len(pool), size=n, p=weights)], seed))
    columns = (wrong, power, leader_wrong, leader_power, centred, weighted or [np.nan])
    return [float(np.mean(column)) for column in columns]


def pooled(cells: Callable[..., list[float]], jobs: list[tuple[object, ...]], workers: int) -> list[list[float]]:
    """The cells of all jobs, in order."""
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(cells, *zip(*jobs, strict=True)))


def shown(cells: list[float]) -> str:
    return " | ".join("" if np.isnan(cell) else f"{cell:.3f}" for cell in cells)


def real_table(
    columns: str, cell: Callable[..., list[float]], studies: int, agents: tuple[int, ...], workers: int
) -> Iterator[str]:
    """One row per study, agents and tasks, and the mean over tasks of each."""
    if recorded_folder() is None:
        yield "skipped: no recorded studies; set GOLDLESS_RECORDED to their folder"
        return
    yield f"| study | agents | tasks | {columns} |"
    yield "|" + " --- |" * (3 + columns.count("|") + 1)
    jobs = [
        (name, k, n, studies if k < EVERY_AGENT else max(1, studies // 3))
        for name, k, n in itertools.product(RECORDED, agents, REAL_TASKS)
    ]
    found = pooled(cell, jobs, workers)
    for at in range(0, len(jobs), len(REAL_TASKS)):
        rows = found[at : at + len(REAL_TASKS)]
        for (name, k, n, _), row in zip(jobs[at:], rows, strict=False):
            yield f"| {name} | {k} | {n} | {shown(row)} |"
        yield f"| **{name}** | {k} | all | {shown(np.mean(rows, axis=0).tolist())} |"


def pair_cell(name: str, agents: int, n: int, studies: int) -> list[float]:
    """Errors, power and contradictions of compare, and errors and power of gate."""
    random = np.random.default_rng([SEED, RECORDED.index(name), agents, n, 1])
    rows = np.full((studies, 8), np.nan)
    for seed in range(studies):
        pool, _ = drawn_scores(name, agents, random)
        gaps, drawn = pool[:, 1] - pool[:, 0], random.integers(len(pool), size=n)
        truth, spread = float(gaps.mean()), float(gaps.std())
        decided, excludes = compare_says(gaps[drawn], seed)
        rows[seed, :3] = decided, decided and gaps[drawn].mean() * truth < 0, decided != excludes
        rows[seed, 3] = compare_says(gaps[drawn] - truth, seed)[0]
        if (weights := equal_weights(pool)) is not None:
            rows[seed, 4] = compare_says(gaps[random.choice(len(gaps), size=n, p=weights)], seed)[0]
        if n >= AT_LEAST:
            margin = 0.5 * spread
            rows[seed, 5] = ships(gaps[drawn] - truth - margin, margin, seed)[0]
            rows[seed, 6] = ships(gaps[drawn] - truth, margin, seed)[0]
            losses = -draw("lognormal", (n,), random) - margin
            rows[seed, 7] = ships(losses, margin, seed)[0]
    return np.nanmean(rows, axis=0).tolist() if n >= AT_LEAST else [*np.nanmean(rows[:, :5], axis=0), *[np.nan] * 3]


def compare_says(gaps: FloatArray, seed: int) -> tuple[bool, bool]:
    """Whether compare decides, and whether its interval excludes zero."""
    found = difference(paired(gaps), (), {"seed": seed, "resamples": FLIPS, "level": 1 - ALPHA})
    low, high = found.difference.low, found.difference.high
    return found.decided, low is not None and high is not None and (low > 0 or high < 0)


def paired(gaps: FloatArray) -> Paired:
    """Two agents that differ by this on each task."""
    tasks = tuple(str(task) for task in range(len(gaps)))
    nothing = np.zeros(0)
    return Paired("gem-raw", "nats", tasks, np.zeros(len(gaps)), gaps, gaps, None, (), 0, nothing, "", ())


def promise_cell(name: str, agents: int, n: int, studies: int) -> list[float]:
    """Shares of undecided pairs that are given a number, and of those that it decides rightly, and wrongly."""
    random = np.random.default_rng([SEED, RECORDED.index(name), agents, n, 2])
    if agents > 2:
        return promise_of_leaderboards(name, agents, n, studies // 5, random)
    undecided, given, right, wrong = 0, 0, 0, 0
    while undecided < studies:
        pool, _ = drawn_scores(name, agents, random)
        gaps = pool[:, 1] - pool[:, 0]
        drawn = gaps[random.integers(len(gaps), size=n)]
        draws: Draws = {"seed": undecided, "resamples": FLIPS, "level": 1 - ALPHA}
        p = mean_test(drawn, draws).p()
        if p is not None and p < ALPHA:
            continue
        undecided += 1
        more = more_tasks(drawn, alpha=ALPHA)
        if more is None:
            continue
        given += 1
        whole = np.concatenate([drawn, gaps[random.integers(len(gaps), size=more)]])
        p = mean_test(whole, draws).p()
        decided = p is not None and p < ALPHA
        right += decided and whole.mean() * gaps.mean() > 0
        wrong += decided and whole.mean() * gaps.mean() < 0
    return [given / undecided, right / max(given, 1), wrong / max(given, 1), np.nan]


def promise_of_leaderboards(name: str, agents: int, n: int, studies: int, random: np.random.Generator) -> list[float]:
    """The same shares for all undecided pairs of leaderboards, and the share decided of the three nearest."""
    names = [str(agent) for agent in range(agents)]
    undecided, wrong = 0, 0
    right: list[bool] = []
    nearest_right: list[bool] = []
    for seed in range(studies):
        pool, _ = drawn_scores(name, agents, random)
        truth = pool.mean(axis=0)
        scores = pool[random.integers(len(pool), size=n)]
        fresh = pool[random.integers(len(pool), size=FAR * n)]
        pairs = all_pairs(scores)
        compared = compare_pairs(names, pairs, seed=seed, permutations=FLIPS)
        still_open = [pair for pair in with_outlook(compared, pairs) if not pair.decided]
        undecided += len(still_open)
        nearest = nearest_first(still_open)[:LISTED]
        for pair in still_open:
            if not pair.more_tasks:
                continue
            whole = np.concatenate([scores, fresh[: pair.more_tasks]])
            later = compare_pairs(names, all_pairs(whole), seed=seed, permutations=FLIPS)
            (same,) = [other for other in later if (other.first, other.second) == (pair.first, pair.second)]
            difference_there = truth[int(pair.first)] - truth[int(pair.second)]
            decides = same.decided and same.difference * difference_there > 0
            wrong += same.decided and not decides
            right.append(decides)
            if pair in nearest:
                nearest_right.append(decides)
    return [len(right) / undecided, float(np.mean(right)), wrong / len(right), float(np.mean(nearest_right))]


def order_cell(name: str, agents: int, n: int, studies: int) -> list[float]:
    """Decided pairs, the share said and true, and of pairs that are said to be at least 95% sure the share true."""
    pool = recorded_scores(name)
    random = np.random.default_rng([SEED, RECORDED.index(name), agents, n, 3])
    said, holds = [], []
    for seed in range(studies):
        drawn = random.permutation(pool.shape[1])
        mine, others = drawn[:agents], drawn[agents : 2 * agents - 2]
        tasks = pool[random.integers(len(pool), size=n)]
        by_peer = tasks[:, mine][:, :, mine]
        names = [str(agent) for agent in range(agents)]
        found = compare_pairs(names, all_pairs(np.nanmean(by_peer, axis=2)), seed=seed, permutations=FLIPS)
        later = tasks[:, mine][:, :, others].mean(axis=(0, 2))
        for one in with_sign_kept(found, names, by_peer, seed):
            if one.sign_kept is not None:
                said.append(one.sign_kept)
                holds.append(later[int(one.better)] > later[int(one.worse)])
    sure = [true for share, true in zip(said, holds, strict=True) if share >= 0.95]
    return [float(len(said)), float(np.mean(said)), float(np.mean(holds)), float(np.mean(sure))]


def main() -> None:
    """Print the tables line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1500)
    names = ("error", "power", "until", "gate", "outlook", "peers", "board", "pair", "promise", "order")
    parser.add_argument("--workers", type=int, default=1, help="processes for the recorded studies")
    parser.add_argument("--only", choices=names, help="print one of the tables")
    parser.add_argument("--quick", action="store_true", help="100 studies per row, 12 tasks only")
    options = parser.parse_args()
    studies, tasks = (100, (12,)) if options.quick else (options.studies, (8, 12, 20, 40))
    begin, workers = time.perf_counter(), options.workers
    tables = {
        "error": error_table(studies, tasks),
        "power": power_table(studies // 4, tasks),
        "until": until_table(studies),
        "gate": gate_table(studies),
        "outlook": outlook_table(studies),
        "peers": peer_table(studies),
        "board": real_table(
            "wrong | power | leader wrong | leader power | centred | weighted",
            board_cell,
            studies // 5,
            (4, 6, EVERY_AGENT),
            workers,
        ),
        "pair": real_table(
            "decided | wrong | contradiction | centred | weighted | wrong SHIP | right SHIP | SHIP, lognormal losses",
            pair_cell,
            studies // 4,
            (2,),
            workers,
        ),
        "promise": real_table("given | decides | wrongly | nearest", promise_cell, studies // 5, (2, AGENTS), workers),
        "order": real_table("pairs | said | holds | said .95, holds", order_cell, studies // 10, (6, 8, 12), workers),
    }
    for name, lines in tables.items():
        for line in lines if options.only in {None, name} else ():
            print(line, flush=True)
        print()
    print(f"{studies} studies per row, {FLIPS} flips, {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
