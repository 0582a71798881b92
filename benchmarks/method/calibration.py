"""How often the intervals of ``goldless calibrate`` hold the truth, and what labels are worth on a recorded study.

    python benchmarks/method/calibration.py [--studies 2000] [--recorded FOLDER_OF_XSUM]

Prints Markdown tables. Simulated labels on each task are normal, on five levels (normal, rounded to 1 to 5), or
lognormal; each of k proxies correlates with the normal part by rho. n of T tasks are labelled at random. "z" is the
same estimate with a normal quantile and without the degrees of freedom that fitting takes, as PPI++ has it; "labels
alone" is Student's t over the labels.

The second table is for tasks drawn by --next. The proxy is right on most tasks; on a fifth of them, where it is near
its middle, labels are lower by 1.5 on average and spread five times as far. 20 tasks are labelled at random,
20 more drawn by the expected error; "as if at random" ignores the chances of the draw.

The third draws 20 of the 100 recorded tasks 200 times; the truth is the mean label over all 100, so an interval that
also allows for other tasks is wider than it would have to be.
"""

from __future__ import annotations

import argparse
import itertools
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

from goldless.meta_evaluation.calibration import average_of
from goldless.meta_evaluation.judges import recorded_judges
from goldless.statistics.prediction_powered import draw_by_size, expected_errors, powered_mean
from goldless.studies import read_study

FloatArray = npt.NDArray[np.float64]
LEVEL = 0.95
SETTINGS = ((1, 0.0), (1, 0.8), (3, 0.6))
"""Proxies, and the correlation of each."""


def labels_of(normal: FloatArray, kind: str) -> FloatArray:
    """Labels of each kind from a normal variable."""
    return {"normal": normal, "five levels": np.clip(np.rint(normal + 3), 1, 5), "lognormal": np.exp(normal)}[kind]


def coverage(studies: int) -> None:
    """Print how often each interval holds the mean."""
    random = np.random.default_rng(1)
    print("| labels | labelled / tasks | proxies, rho | calibrate | z | labels alone | width / labels alone |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for kind, (n, tasks), (k, rho) in itertools.product(
        ("normal", "five levels", "lognormal"), ((10, 100), (20, 100), (50, 200)), SETTINGS
    ):
        truth = float(labels_of(np.asarray(ndtri((np.arange(1_000_000) + 0.5) / 1_000_000)), kind).mean())
        held = np.zeros(3)
        widths = np.zeros(2)
        for _ in range(studies):
            normal = random.normal(size=tasks)
            proxies = rho * normal[:, None] + np.sqrt(1 - rho**2) * random.normal(size=(tasks, k))
            labels = labels_of(normal, kind)
            labels[n:] = np.nan
            found = powered_mean(labels, proxies)
            spread = np.var(proxies[n:] @ found.weights, ddof=1) / (tasks - n)
            plain = found.residual_variance * (n - 1 - k) / (n - 1) / n + spread
            alone = stdtrit(n - 1, (1 + LEVEL) / 2) * np.sqrt(found.label_variance / n)
            held += (
                found.estimate.low <= truth <= found.estimate.high,
                abs(found.mean - truth) <= ndtri((1 + LEVEL) / 2) * np.sqrt(plain),
                abs(found.label_mean - truth) <= alone,
            )
            widths += (found.estimate.high - found.estimate.low) / 2, alone
        shares = " | ".join(f"{100 * share:.1f}" for share in held / studies)
        print(f"| {kind} | {n} / {tasks} | {k}, {rho} | {shares} | {widths[0] / widths[1]:.2f} |", flush=True)


def drawn(studies: int) -> None:
    """Print what the chances of a draw are needed for."""
    random = np.random.default_rng(2)
    print("\n| next 20 of 200 | covered | bias | standard deviation |\n| --- | --- | --- | --- |")
    for how in ("at random", "by expected change", "by expected change, as if at random"):
        found = []
        for _ in range(studies):
            proxy = random.normal(size=200)
            wrong = np.abs(proxy) < ndtri(0.6)
            truth = proxy + np.where(wrong, 2.0, 0.4) * random.normal(size=200) - 1.5 * wrong
            labels = np.where(np.arange(200) < 20, truth, np.nan)
            sizes = expected_errors(labels, proxy[:, None])
            sizes = np.where(np.isnan(sizes), np.nan, 1.0) if how == "at random" else sizes
            chosen = draw_by_size(sizes, 20, seed=int(random.integers(2**31)))
            labels[chosen.task] = truth[chosen.task]
            rounds = [chosen] if how == "by expected change" else []
            estimate = powered_mean(labels, proxy[:, None], rounds=rounds).estimate
            found.append((estimate.low <= -0.3 <= estimate.high, estimate.value + 0.3))
        held, off = np.array(found).T
        print(f"| {how} | {100 * held.mean():.1f} | {off.mean():+.3f} | {off.std():.3f} |", flush=True)


def recorded(folder: Path, draws: int = 200) -> None:
    """Print what 20 labels are worth on the recorded study, agent by agent."""
    study = read_study(folder)
    agents = [agent.agent for agent in study.agents]
    sums: dict[tuple[str, str], list[float]] = {}
    for rating in study.ratings():
        sums.setdefault((rating.task, rating.agent), []).append(rating.score)
    labels = np.array([[np.mean(sums[task, agent]) for agent in agents] for task in study.tasks])
    judges = recorded_judges(study, ["all"], "100-level", convention="default", own_family=True)
    judges = [judge for judge in judges if judge.kind != "panel"]
    table = np.stack([judge.response_scores.score for judge in judges], axis=2)
    mean = average_of(table)
    there = ~np.isnan(table)
    filled = np.where(there, table, 0.0)
    # a reviewer that is one of the agents does not judge itself: no weight there
    table = np.where(there, table, filled.sum(axis=0) / np.maximum(there.sum(axis=0), 1))
    best = max(range(len(judges)), key=lambda k: np.corrcoef(table[:, :, k].ravel(), labels.ravel())[0, 1])
    print(
        f"\n| agent | worth with {judges[best].name} | covered | with the mean of all {len(judges)} | covered |", end=""
    )
    print(f" with all {len(judges)} | covered |\n| --- | --- | --- | --- | --- | --- | --- |")
    random = np.random.default_rng(3)
    chosen = [random.permutation(len(labels))[:20] for _ in range(draws)]
    for a, agent in enumerate(agents):
        cells = []
        for proxies in (table[:, a, [best]], mean[:, a], table[:, a]):
            found = []
            for tasks in chosen:
                some = np.full(len(labels), np.nan)
                some[tasks] = labels[tasks, a]
                one = powered_mean(some, proxies)
                found.append((one.labels_worth, one.estimate.low <= labels[:, a].mean() <= one.estimate.high))
            worth, held = np.array(found).T
            cells.append(f"{np.median(worth):.0f} | {100 * held.mean():.0f}")
        print(f"| {agent} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000)
    data = Path(os.environ.get("GOLDLESS_RECORDED", Path(__file__).parents[3] / "shared" / "data"))
    parser.add_argument("--recorded", type=Path, default=data / "xsum_peer_review")
    given = parser.parse_args()
    coverage(given.studies)
    drawn(given.studies)
    if given.recorded.exists():
        recorded(given.recorded)
