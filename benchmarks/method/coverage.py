"""How often the 95 % intervals hold the truth, on simulated studies whose truth is known.

    python benchmarks/method/coverage.py [--quick] [--studies 8000] [--only scores|shapes|effects]

Prints Markdown tables. Two kinds of scores are simulated, with 6 agents each:

GEM: a score in nats is agent + task + agent x task + noise for each of 5 peers, averaged over the peers. Variances are
180, 60 and 300 a pair, so that an agent's score has a standard deviation of 17 nats over tasks, of which tasks make
up 60 %: what sums of log-probabilities of recorded summaries show (17.5; 66 %). All parts are shifted gamma variables.
The skewness of an agent's scores is 0.5 (the median of the recorded agents), 1.5 (the most skewed of them), or 3, which
none of them has: that row is a stress test.

TVD-MI: a critic says yes or no. The log-odds of a yes about a matched pair are (what both agents are worth) + task
+ first response + second response; about a shuffled one, (false alarms) + first response + second response. All effects
are normal (task 0.9, responses 0.7). An agent without information has the same log-odds matched and shuffled: its
true score is 0. 4 derangements for each ordered pair of agents; contrast = matched - mean of shuffled; an agent's
score on a task is the mean of its row and column averages without the diagonal. Scores then have a standard deviation
of 0.12 to 0.20 over tasks, 52 % of it by tasks, and a skewness of -0.6 to 0.5; 6 agents at a time of the recorded
critic's contrasts show 0.14 (median), 50 to 52 %, and -0.9 to 1.2 (nine in ten agents). True rates are integrals
over the effects (Gauss-Hermite). The binomial half-width takes all verdicts as independent.

A second table is for other shapes: t with 3 degrees of freedom, lognormal (sigma 1 and 1.5), Pareto (2.2), 0 or 1. They
are complete, miss 20 % at random, or miss 20 % of which low scores are likelier (0.35 below the median, 0.05 above);
"worst case" is the interval with missing scores at the smallest and largest score of the column.

A third table is for effect sizes. Standardised mean difference: two samples a task; before = 0.7 (task + noise), with
a task skewed by 1, after = 0.9 before + 0.4 noise - shift. Paired d: differences skewed by 1.

"none" to "strong" are 1, 2 and 3 of the 6 agents. Every study is new; 100 at a time share the draws of their
bootstrap. The Monte-Carlo error is the standard error over studies, since agents of one study go together.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtr, stdtrit

from goldless.judging.critic_questions import derangements
from goldless.statistics.bootstrap import FARTHEST, _quantiles, _studentised_means, draw_counts, task_intervals
from goldless.statistics.effects import paired_d, pooled_smd

FloatArray = npt.NDArray[np.float64]
TASKS = (2, 3, 5, 10, 20, 50, 100)
AT_ONCE = 100
RESAMPLES = 2000
AGENTS = 6
SHUFFLES = 4
LEVEL = 0.95

GEM_MEANS = np.array([-5.0, 15.0, 30.0, 45.0, 60.0, 80.0])
GEM_VARIANCES = {"task": 180.0, "agent x task": 60.0, "peer": 300.0}
ROLES = {"none": slice(0, 1), "weak": slice(1, 3), "strong": slice(3, 6)}
WORTH = np.array([np.nan, 0.0, 0.4, 1.6, 1.8, 2.0])
"""Half the log-odds that an agent adds to a matched pair; NaN: no information."""
FALSE_ALARM = -2.2
TASK_EFFECT, RESPONSE_EFFECT = 0.9, 0.7


@dataclass(frozen=True, slots=True)
class Batch:
    """Scores [studies, tasks, agents], the truth, and the binomial half-width [studies, agents] where one exists."""

    scores: FloatArray
    truth: FloatArray
    half_width: FloatArray | None = None


Simulation = Callable[[int, int, np.random.Generator], Batch]


def skewed(random: np.random.Generator, variance: float, skewness: float, shape: tuple[int, ...]) -> FloatArray:
    """Gamma variables with a mean of zero."""
    k = 4 / skewness**2
    result: FloatArray = (random.gamma(k, size=shape) - k) * np.sqrt(variance / k)
    return result


def gem(skewness: float) -> Simulation:
    """GEM-like studies whose agents' scores have this skewness."""
    task, both, pair = GEM_VARIANCES.values()
    peers = AGENTS - 1
    total = task + both + pair / peers
    # third moments add up; a mean over p peers has 1 / p² of one peer's
    part = skewness * total**1.5 / (task**1.5 + both**1.5 + pair**1.5 / peers**2)

    def simulate(studies: int, n: int, random: np.random.Generator) -> Batch:
        scores = GEM_MEANS + skewed(random, task, part, (studies, n, 1))
        scores = scores + skewed(random, both, part, (studies, n, AGENTS))
        scores += skewed(random, pair, part, (studies, n, AGENTS, peers)).mean(axis=3)
        return Batch(scores, GEM_MEANS)

    return simulate


def worths() -> FloatArray:
    """Log-odds of a yes about a matched pair without task and responses: [agents, agents]."""
    together = WORTH[:, None] + WORTH[None, :] - 1.0
    return np.where(np.isnan(together), FALSE_ALARM, together)


def mean_rate(log_odds: FloatArray, deviation: FloatArray | float) -> FloatArray:
    """The mean of the logistic function of normal variables."""
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    rates = expit(log_odds[..., None] + np.asarray(deviation)[..., None] * points)
    result: FloatArray = rates @ weights / weights.sum()
    return result


def both_directions(contrasts: FloatArray) -> FloatArray:
    """Mean of row and column averages of [..., agents, agents] without the diagonal."""
    off = np.where(np.eye(AGENTS, dtype=bool), 0.0, contrasts)
    result: FloatArray = (off.sum(axis=-1) + off.sum(axis=-2)) / (2 * (AGENTS - 1))
    return result


def tvd_mi(studies: int, n: int, random: np.random.Generator) -> Batch:
    """Studies judged by a critic with hard verdicts."""
    informed = ~np.isnan(WORTH[:, None] + WORTH[None, :])
    task = random.normal(0, TASK_EFFECT, size=(studies, n, 1, 1)) * informed
    first = random.normal(0, RESPONSE_EFFECT, size=(studies, n, AGENTS, 1))
    second = random.normal(0, RESPONSE_EFFECT, size=(studies, n, 1, AGENTS))
    matched = random.random((studies, n, AGENTS, AGENTS)) < expit(worths() + task + first + second)
    order = np.array(
        [[derangements(n, SHUFFLES, random) for _ in range(AGENTS**2)] for _ in range(studies)]
    )  # [studies, pairs, shuffles, tasks]
    order = order.reshape(studies, AGENTS, AGENTS, -1, n).transpose(3, 0, 4, 1, 2)
    study, agent = np.arange(studies)[:, None, None, None], np.arange(AGENTS)
    shuffled = np.zeros((studies, n, AGENTS, AGENTS))
    for row in order:
        others = second[study, row, 0, agent]
        shuffled += random.random(shuffled.shape) < expit(FALSE_ALARM + first + others)
    shuffled /= len(order)
    deviation = np.sqrt(2 * RESPONSE_EFFECT**2 + informed * TASK_EFFECT**2)
    alarms = mean_rate(np.array(FALSE_ALARM), np.sqrt(2) * RESPONSE_EFFECT)
    truth = both_directions(mean_rate(worths(), deviation) - alarms)
    hits, misses = (both_directions(x.mean(axis=1)) for x in (matched, shuffled))
    verdicts = n * 2 * (AGENTS - 1)
    error = np.sqrt(hits * (1 - hits) / verdicts + misses * (1 - misses) / (verdicts * len(order)))
    return Batch(both_directions(matched - shuffled), truth, 1.96 * error)


def intervals(columns: FloatArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """Ends by the function that leaderboards use; 0 and 1 are the limits of scores that are one or the other."""
    limits = (0.0, 1.0) if np.isin(columns[~np.isnan(columns)], (0, 1)).all() else None
    found = task_intervals(columns, limits=limits, tails=True, seed=seed, resamples=RESAMPLES, level=LEVEL)
    return np.array([i.low for i in found], float), np.array([i.high for i in found], float)


def student(columns: FloatArray, _seed: int) -> tuple[FloatArray, FloatArray]:
    """Ends by Student's t at any number of tasks."""
    n = np.sum(~np.isnan(columns), axis=0)
    half = stdtrit(n - 1, (1 + LEVEL) / 2) * np.nanstd(columns, axis=0, ddof=1) / np.sqrt(n)
    return np.nanmean(columns, axis=0) - half, np.nanmean(columns, axis=0) + half


def studentised(columns: FloatArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """Ends by the bootstrap-t alone at any number of tasks."""
    n = np.sum(~np.isnan(columns), axis=0)
    limits = FARTHEST * stdtrit(n - 1, (1 + LEVEL) / 2)
    low, high = _quantiles(_studentised_means(columns, limits, seed=seed, resamples=RESAMPLES), LEVEL)
    means, errors = np.nanmean(columns, axis=0), np.nanstd(columns, axis=0, ddof=1) / np.sqrt(n)
    return means - high * errors, means - low * errors


def percentile(columns: FloatArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """Ends by the percentile interval, expanded to Student's level (Hesterberg 2015)."""
    n = len(columns)
    tail = ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - LEVEL) / 2))
    means = np.vstack([counts @ columns / n for counts in draw_counts(n, seed=seed, resamples=RESAMPLES)])
    low, high = np.quantile(means, [tail, 1 - tail], axis=0, overwrite_input=True)
    return low, high


METHODS = {"goldless": intervals, "t": student, "bootstrap-t": studentised, "percentile": percentile}
NAMES = ("goldless", "t", "bootstrap-t", "percentile", "binomial")


def measure(
    simulate: Simulation, n: int, studies: int, seed: int
) -> tuple[dict[str, FloatArray], dict[str, FloatArray], FloatArray]:
    """For each method, whether the truth is covered and the width [studies, agents]; skewness over all tasks."""
    random = np.random.default_rng([seed, n])
    covered: dict[str, list[FloatArray]] = {name: [] for name in NAMES}
    widths: dict[str, list[FloatArray]] = {name: [] for name in covered}
    for batch_number in range(studies // AT_ONCE):
        batch = simulate(AT_ONCE, n, random)
        columns = batch.scores.transpose(1, 0, 2).reshape(n, -1)
        ends = {name: method(columns, batch_number) for name, method in METHODS.items()}
        if batch.half_width is not None:
            means, half = columns.mean(axis=0), batch.half_width.ravel()
            ends["binomial"] = (means - half, means + half)
        for name, (low, high) in ends.items():
            low, high = low.reshape(AT_ONCE, -1), high.reshape(AT_ONCE, -1)  # noqa: PLW2901
            covered[name].append(((low <= batch.truth) & (batch.truth <= high)).astype(float))
            widths[name].append(high - low)
    many = simulate(20, 2000, random).scores.reshape(-1, AGENTS)
    deviations = many - many.mean(axis=0)
    skewness: FloatArray = (deviations**3).mean(axis=0) / (deviations**2).mean(axis=0) ** 1.5
    return (
        {name: np.vstack(found) for name, found in covered.items() if found},
        {name: np.vstack(found) for name, found in widths.items() if found},
        skewness,
    )


def row(name: str, n: int, part: slice, found: tuple[dict[str, FloatArray], dict[str, FloatArray], FloatArray]) -> str:
    """One line of the table."""
    covered, widths, skewness = found
    cells = []
    for method in NAMES:
        if method in covered:
            cells.append(f"{100 * covered[method][:, part].mean():.1f}")
        else:
            cells.append("")
    by_study = covered["goldless"][:, part].mean(axis=1)
    error = 100 * by_study.std(ddof=1) / np.sqrt(len(by_study))
    ratio = np.median(widths["goldless"][:, part]) / np.median(widths["t"][:, part])
    cells[0] = f"**{cells[0]}** ± {error:.2f}"
    return f"| {name} | {skewness[part].mean():.1f} | {n} | " + " | ".join(cells) + f" | {ratio:.2f} |"


def table(studies: int, tasks: tuple[int, ...]) -> Iterator[str]:
    """The lines of the table, as they are measured."""
    names = ("scores", "skewness", "tasks", *NAMES, "width goldless / t")
    yield "| " + " | ".join(names) + " |"
    yield "|" + " --- |" * len(names)
    for skewness, label in ((0.5, "GEM, median agent"), (1.5, "GEM, most skewed agent"), (3.0, "GEM, stress")):
        for n in tasks:
            yield row(label, n, slice(None), measure(gem(skewness), n, studies, seed=int(10 * skewness)))
    for n in tasks:
        found = measure(tvd_mi, n, studies, seed=1)
        for role, part in ROLES.items():
            yield row(f"TVD-MI, {role}", n, part, found)


SHAPES: dict[str, tuple[Callable[[np.random.Generator, tuple[int, int]], FloatArray], float]] = {
    "normal": (lambda random, size: random.normal(size=size), 0.0),
    "t, 3 df": (lambda random, size: random.standard_t(3, size=size), 0.0),
    "lognormal 1": (lambda random, size: random.lognormal(0.0, 1.0, size=size), float(np.exp(0.5))),
    "lognormal 1.5": (lambda random, size: random.lognormal(0.0, 1.5, size=size), float(np.exp(1.125))),
    "Pareto 2.2": (lambda random, size: random.pareto(2.2, size=size), 1 / 1.2),
    "0 or 1, share .8": (lambda random, size: (random.random(size) < 0.8) * 1.0, 0.8),
    "0 or 1, share .95": (lambda random, size: (random.random(size) < 0.95) * 1.0, 0.95),
}
"""Scores and their true mean."""


def with_gaps(columns: FloatArray, missing: str, random: np.random.Generator) -> FloatArray:
    """The scores less a fifth of them."""
    low = columns < np.median(columns, axis=0)
    chance = {"none": 0.0, "random": 0.2, "low": np.where(low, 0.35, 0.05)}[missing]
    gone = random.random(columns.shape) < chance
    gone[:2] = False
    return np.where(gone, np.nan, columns)


def worst_case(columns: FloatArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """Ends with missing scores at the smallest, and at the largest, score of the column."""
    least, most = (np.where(np.isnan(columns), f(columns, axis=0), columns) for f in (np.nanmin, np.nanmax))
    return intervals(least, seed)[0], intervals(most, seed)[1]


def shape_table(studies: int) -> Iterator[str]:
    """The lines of the table of shapes; every column is a study of one agent."""
    yield "| scores | tasks | missing | goldless | t | bootstrap-t | worst case |"
    yield "|" + " --- |" * 7
    for (name, (draw, truth)), n, missing in itertools.product(
        SHAPES.items(), (5, 8, 12, 40), ("none", "random", "low")
    ):
        random = np.random.default_rng([n, len(name), len(missing)])
        methods = [intervals, student, studentised, *[worst_case] * (missing != "none")]
        covered: list[list[FloatArray]] = [[] for _ in methods]
        for number in range(studies // AT_ONCE):
            columns = with_gaps(draw(random, (n, AT_ONCE)), missing, random)
            for found, method in zip(covered, methods, strict=True):
                low, high = method(columns, number)
                found.append((low <= truth) & (truth <= high))
        shares = [100 * np.mean(found) for found in covered]
        cells = [f"{share:.1f}" for share in shares] + [""] * (4 - len(shares))
        error = np.sqrt(shares[0] * (100 - shares[0]) / studies)
        yield f"| {name} | {n} | {missing} | **{cells[0]}** ± {error:.1f} | " + " | ".join(cells[1:]) + " |"


def smd_samples(size: float, n: int, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Scores before and after [tasks, samples], whose true standardised difference is ``size`` downwards."""
    before = 0.7 * (skewed(random, 1.0, 1.0, (n, 1)) + random.normal(size=(n, 2)))
    # variances 0.98 before and 0.81 x 0.98 + 0.16 = 0.9538 after: on average 0.9669
    return before, 0.9 * before + 0.4 * random.normal(size=(n, 2)) - size * np.sqrt(0.9669)


def percentile_ends(found: FloatArray, n: int) -> tuple[float, float]:
    """Expanded percentile interval of resampled effect sizes."""
    tail = ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - LEVEL) / 2))
    low, high = np.quantile(found[np.isfinite(found)], [tail, 1 - tail])
    return low, high


def smd_covered(size: float, n: int, counts: FloatArray, random: np.random.Generator) -> tuple[bool, bool]:
    """Whether the interval of a standardised difference holds the truth: goldless, percentile."""
    before, after = smd_samples(size, n, random)
    found = pooled_smd(before.ravel(), after.ravel(), clusters=np.repeat(np.arange(n), 2).tolist())
    samples = 2 * n
    b, bb, a, aa = (counts @ x.sum(axis=1) / samples for x in (before, before**2, after, after**2))
    with np.errstate(invalid="ignore", divide="ignore"):
        resampled = (a - b) / np.sqrt((bb - b**2 + aa - a**2) / 2 * samples / (samples - 1))
    low, high = percentile_ends(resampled, n)
    return bool((found.low or 0) <= -size <= (found.high or 0)), bool(low <= -size <= high)


def paired_covered(d: float, n: int, counts: FloatArray, random: np.random.Generator) -> tuple[bool, bool]:
    """Whether the interval of a paired d holds the truth: goldless, percentile."""
    differences = d + skewed(random, 1.0, 1.0, (n,))
    found = paired_d(differences)
    mean, square = counts @ differences / n, counts @ differences**2 / n
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = percentile_ends(mean / np.sqrt((square - mean**2) * n / (n - 1)), n)
    return bool((found.low or 0) <= d <= (found.high or 0)), bool(low <= d <= high)


def effect_table(studies: int, tasks: tuple[int, ...]) -> Iterator[str]:
    """The lines of the table of effect sizes; draws are shared by all studies of a row."""
    yield "| effect size | true size | tasks | goldless | percentile |"
    yield "|" + " --- |" * 5
    for name, covered in (("standardised difference", smd_covered), ("paired d", paired_covered)):
        for size in (0.2, 1.0, 3.0):
            for n in tasks:
                random = np.random.default_rng([n, int(10 * size)])
                counts = np.vstack(list(draw_counts(n, seed=n, resamples=500)))
                found = 100 * np.array([covered(size, n, counts, random) for _ in range(studies)], float)
                error = found[:, 0].std(ddof=1) / np.sqrt(studies)
                ours, other = found.mean(axis=0)
                yield f"| {name} | {size:.1f} | {n} | **{ours:.1f}** ± {error:.2f} | {other:.1f} |"


def main() -> None:
    """Print the tables line by line, then the settings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--studies", type=int, default=8000, help=f"studies a row, in hundreds ({AT_ONCE})")
    parser.add_argument("--quick", action="store_true", help="400 studies a row, for 5 and 20 tasks only")
    parser.add_argument("--only", choices=("scores", "shapes", "effects"), help="print one of the tables")
    options = parser.parse_args()
    studies, tasks = (400, (5, 20)) if options.quick else (max(AT_ONCE, options.studies), TASKS)
    start = time.perf_counter()
    tables = {
        "scores": table(studies, tasks),
        "shapes": shape_table(studies),
        "effects": effect_table(studies // 2, (5, 20) if options.quick else (5, 10, 20, 50, 100)),
    }
    for name, lines in tables.items():
        for line in lines if options.only in {None, name} else ():
            print(line, flush=True)
        print()
    worst = 100 * np.sqrt(LEVEL * (1 - LEVEL) / studies)
    print(f"\n{studies:,} studies a row (effect sizes: half), {RESAMPLES:,} resamples, {SHUFFLES} shuffles.")
    print(f"Monte-Carlo error of a single agent at 95 %: {worst:.2f} points; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
