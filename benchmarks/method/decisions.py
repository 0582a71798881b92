"""How often "better than", --until and a gate are wrong, and how often right, on simulated studies of known truth.

    python benchmarks/method/decisions.py [--quick] [--studies 1500] [--only error|power|until|gate|outlook|peers]

Prints six Markdown tables. Scores have a standard deviation of 1 besides what all agents share.

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

Outlook: pairs with true differences drawn with a standard deviation of 0.4 that are undecided; how often the tasks at
which the odds of deciding are even are in the range that is told.

Peers: the coverage of 95 % intervals for the mean over all tasks and all peers like these, with effects of tasks,
peers, and both together; a peer's effect is exponential.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from goldless.comparison.gating import one_sided_bounds
from goldless.statistics.bootstrap import Draws, task_intervals
from goldless.statistics.comparisons import SIGNIFICANT, all_pairs, compare_all, compare_pairs, compare_with, holm
from goldless.statistics.deciding import ANYTIME, AT_LEAST, FIXED_SAMPLE, more_tasks, p_values
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
                found = compare_all(names, scores, seed=one, permutations=FLIPS)
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
    """How often the tasks that it takes are in the range that is told."""
    yield "| tasks | undecided | in the range | ranges without an end | median of the ends |"
    yield "|" + " --- |" * 5
    for n in (10, 20, 40):
        random = np.random.default_rng(n)
        effects = random.normal(0, 0.4, size=10 * studies)
        inside, ends = [], []
        for effect in effects:
            gaps = random.normal(effect, 1.0, size=n)
            mean, sd = float(gaps.mean()), float(gaps.std(ddof=1))
            if p_values(*(np.array([x]) for x in (float(n), mean, sd)), alpha=ALPHA, bound=FIXED_SAMPLE)[0] < ALPHA:
                continue
            low, high = more_tasks(n, mean, sd, alpha=ALPHA, bound=FIXED_SAMPLE)
            takes = max(1, even_odds(abs(effect)) - n)
            inside.append(low is not None and low <= takes and (high is None or takes <= high))
            ends.append((np.nan if low is None else low, np.nan if high is None else high))
        low, high = np.nanmedian(np.array(ends, float), axis=0)
        open_ = np.isnan(np.array(ends, float)[:, 1]).mean()
        yield f"| {n} | {len(inside)} | **{np.mean(inside):.2f}** | {open_:.2f} | {low:.0f} to {high:.0f} |"


def even_odds(effect: float) -> int:
    """The fewest tasks at which the mean of a true effect is outside Student's interval."""
    for n in range(AT_LEAST, 4000):
        if float(FIXED_SAMPLE.width(np.array([float(n)]), ALPHA)[0]) < effect:
            return n
    return 10**9


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


def main() -> None:
    """Print the tables line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1500)
    names = ("error", "power", "until", "gate", "outlook", "peers")
    parser.add_argument("--only", choices=names, help="print one of the tables")
    parser.add_argument("--quick", action="store_true", help="100 studies per row, 12 tasks only")
    options = parser.parse_args()
    studies, tasks = (100, (12,)) if options.quick else (options.studies, (8, 12, 20, 40))
    begin = time.perf_counter()
    tables = {
        "error": error_table(studies, tasks),
        "power": power_table(studies // 4, tasks),
        "until": until_table(studies),
        "gate": gate_table(studies),
        "outlook": outlook_table(studies),
        "peers": peer_table(studies),
    }
    for name, lines in tables.items():
        for line in lines if options.only in {None, name} else ():
            print(line, flush=True)
        print()
    print(f"{studies} studies per row, {FLIPS} flips, {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
