"""Recorded evidence, from files to agents' means: goldless beside plain polars that computes the same means.

    python benchmarks/speed/evidence.py    # 1.6 million rows of each kind, and the review's slope: some minutes

``benchmarks/speed/scale.py`` has more rows.

Each measurement runs in a process of its own, imports done before the clock starts; the best of a few runs counts.
Peak memory is that of the whole process. Statistics (10,000 resamples, flips over all pairs of agents) are timed apart.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

AGENTS = 20
SLOPE_TASKS = (100, 200, 400, 800, 1600)
RUNS = 3

# --- the studies -------------------------------------------------------------------------------------------------


def agent_names(column: str) -> pl.Expr:
    """Names of numbered agents."""
    return pl.format("agent-{}", pl.col(column).cast(pl.String).str.zfill(2))


def make_logprobs(folder: Path, tasks: int) -> None:
    """Every marginal and ordered pair, as sums, in parts: tasks · agents² rows."""
    random = np.random.default_rng(0)
    parts = folder / "logprobs"
    parts.mkdir(parents=True)
    for number, begin in enumerate(range(0, tasks, 4000)):
        shape = (min(4000, tasks - begin), AGENTS, AGENTS)
        task, target, given = (axis.ravel() for axis in np.indices(shape, np.int32))
        alone = -200 + 20 * random.standard_normal((*shape[:2], 1))
        told = np.abs(random.standard_normal(shape)) * np.linspace(1, 20, AGENTS)
        sums = np.where(np.eye(AGENTS, dtype=bool), alone, alone + told).ravel()
        rows = pl.DataFrame({"task": task + begin, "target": target, "given": given, "sum": np.minimum(sums, 0.0)})
        rows.select(
            scorer=pl.lit("model"),
            task=pl.format("task-{}", "task"),
            target=agent_names("target"),
            given=pl.when(pl.col("given") != pl.col("target")).then(agent_names("given")),
            sum_logprob_nats="sum",
            tokens=pl.lit(60),
        ).write_parquet(parts / f"part-{number:05}.parquet")


def make_verdicts(folder: Path, tasks: int) -> None:
    """A matched and three shuffled verdicts of every ordered pair, in parts: 1,053 tasks give 1.6 million rows."""
    random = np.random.default_rng(0)
    parts = folder / "verdicts"
    parts.mkdir(parents=True)
    for number, begin in enumerate(range(0, tasks, 1000)):
        shape = (min(1000, tasks - begin), AGENTS, AGENTS, 4)
        task, first, second, shuffle = (axis.ravel() for axis in np.indices(shape, np.int32))
        kept = first != second
        task, first, second, shuffle = begin + task[kept], first[kept], second[kept], shuffle[kept]
        other = (task + np.where(shuffle == 0, 0, 7 * shuffle)) % tasks
        value = np.clip(random.random(len(task)) + 0.2 * (shuffle == 0) * first / AGENTS, 0, 1)
        rows = pl.DataFrame({"task": task, "first": first, "second": second, "other": other, "value": value})
        rows.select(
            critic=pl.lit("model"),
            prompt=pl.lit("same-source"),
            task=pl.format("task-{}", "task"),
            first=agent_names("first"),
            second=agent_names("second"),
            second_task=pl.format("task-{}", "other"),
            value="value",
        ).write_parquet(parts / f"part-{number:05}.parquet")


def make_judgements(folder: Path) -> None:
    """Five reviewers on every ordered pair of 843 tasks: 1.6 million comparisons in words."""
    random = np.random.default_rng(0)
    tasks, agents = 843, np.array([f"agent-{i:02}" for i in range(AGENTS)])
    reviewer, task, first, second = (axis.ravel() for axis in np.indices((5, tasks, AGENTS, AGENTS)))
    kept = first != second
    reviewer, task, first, second = reviewer[kept], task[kept], first[kept], second[kept]
    wins = random.random(len(task)) < 0.5 + 0.4 * (first - second) / AGENTS
    folder.mkdir(parents=True)
    pl.DataFrame(
        {
            "reviewer": np.array([f"reviewer-{i}" for i in range(5)])[reviewer],
            "format": pl.Series(["pairwise"]).new_from_index(0, len(task)),
            "task": np.char.add("task-", task.astype(str)),
            "first": agents[first],
            "second": agents[second],
            "output": np.where(wins, "one", "two"),
        }
    ).write_parquet(folder / "judgements.parquet")


# --- plain polars --------------------------------------------------------------------------------------------------


def plain_logprobs(folder: Path) -> dict[str, float]:
    rows = pl.read_parquet(folder / "logprobs", columns=["task", "target", "given", "sum_logprob_nats"])
    alone = rows.filter(pl.col("given").is_null()).select("task", "target", alone="sum_logprob_nats")
    pairs = rows.filter(pl.col("given").is_not_null()).join(alone, on=["task", "target"])
    pairs = pairs.with_columns(information=pl.col("sum_logprob_nats") - pl.col("alone"))
    said = pairs.group_by("task", agent="given").agg(pl.col("information").sum(), peers=pl.len())
    # in an agent's own place among its peers stands what the others score with it
    about = pairs.group_by("task", agent="target").agg(own=pl.col("information").mean())
    score = (pl.col("information") + pl.col("own")) / (pl.col("peers") + 1)
    scores = said.join(about, on=["task", "agent"]).select("agent", score=score)
    return dict(scores.group_by("agent").agg(pl.col("score").mean()).iter_rows())


def plain_verdicts(folder: Path) -> dict[str, float]:
    pair = ["task", "first", "second"]
    rows = pl.read_parquet(folder / "verdicts", columns=[*pair, "second_task", "value"])
    matched = pl.col("task") == pl.col("second_task")
    known = rows.filter(matched).select(*pair, matched="value")
    contrasts = (
        rows.filter(~matched)
        .join(known, on=pair)
        .group_by(pair)
        .agg((pl.col("matched") - pl.col("value")).mean().alias("contrast"))
    )
    given = contrasts.group_by("task", agent="first").agg(pl.col("contrast").mean())
    about = contrasts.group_by("task", agent="second").agg(pl.col("contrast").mean())
    both = given.join(about, on=["task", "agent"]).with_columns(
        score=(pl.col("contrast") + pl.col("contrast_right")) / 2
    )
    return dict(both.group_by("agent").agg(pl.col("score").mean()).iter_rows())


def plain_judgements(folder: Path) -> dict[str, float]:
    """Every reviewer's mean of both orders, the sign of their sum as the panel's verdict, its mean by agent."""
    columns = ["reviewer", "task", "first", "second", "output"]
    rows = pl.read_parquet(folder / "judgements.parquet", columns=columns)
    lean = pl.when(pl.col("output") == "one").then(1.0).otherwise(-1.0)
    turned = pl.col("first") > pl.col("second")
    rows = rows.select(
        "task",
        low=pl.when(turned).then("second").otherwise("first"),
        high=pl.when(turned).then("first").otherwise("second"),
        lean=pl.when(turned).then(-lean).otherwise(lean),
    )
    pairs = rows.group_by("task", "low", "high").agg(((pl.col("lean").sum().sign() + 1) / 2).alias("share"))
    both = pl.concat(
        [pairs.select("task", "share", agent="low"), pairs.select("task", share=1 - pl.col("share"), agent="high")]
    )
    scores = both.group_by("task", "agent").agg(pl.col("share").mean())
    return dict(scores.group_by("agent").agg(pl.col("share").mean()).iter_rows())


# --- goldless ------------------------------------------------------------------------------------------------------


def goldless_scores(folder: Path, metric: str) -> tuple[dict[str, float], Callable[[], object]]:
    """Agents' means of response scores, and what computes the statistics of them."""
    import anyio  # noqa: PLC0415

    from goldless.runs.evaluation import metric_outcome  # noqa: PLC0415
    from goldless.runs.options import Options  # noqa: PLC0415
    from goldless.runs.pipeline import score_study  # noqa: PLC0415
    from goldless.studies import read_study  # noqa: PLC0415

    options = Options.of(metrics=(metric,), recorded=True)
    study = read_study(folder)
    found = anyio.run(score_study, study, options).scores[metric]
    means = found.responses.group_by(pl.col("agent").cast(pl.String)).agg(pl.col("score").mean())
    return dict(means.iter_rows()), lambda: metric_outcome(found, study, options)


def goldless_review(folder: Path) -> tuple[dict[str, float], Callable[[], object]]:
    """The panel's win rate by agent, and what computes its statistics."""
    from goldless.judging.scales import find_scale  # noqa: PLC0415
    from goldless.metrics.judgement_table import pair_judgements  # noqa: PLC0415
    from goldless.metrics.label_agreement import panel_judge  # noqa: PLC0415
    from goldless.metrics.ranking import rank_by_win_rate  # noqa: PLC0415
    from goldless.runs.review_evidence import recorded_review  # noqa: PLC0415
    from goldless.studies import read_study  # noqa: PLC0415

    study = read_study(folder)
    evidence = recorded_review(study, scale=find_scale("pairwise"), reviewers=[], convention="default")
    names = {"reviewers": evidence.reviewers, "tasks": study.tasks, "agents": [a.agent for a in study.agents]}
    panel = panel_judge(pair_judgements(evidence.judgements, **names))
    shares, verdicts = panel.response_scores, panel.verdicts
    return dict(zip(shares.agents, np.nanmean(shares.score, axis=0), strict=True)), lambda: rank_by_win_rate(verdicts)


KINDS: dict[str, tuple[Callable[[Path], None], Callable[[Path], dict[str, float]], Callable[[Path], tuple], float]] = {
    "gem-raw over 1.6 million log-probabilities": (
        lambda folder: make_logprobs(folder, 4000),
        plain_logprobs,
        lambda folder: goldless_scores(folder, "gem-raw"),
        4.0,
    ),
    "tvd-mi over 1.6 million verdicts": (
        lambda folder: make_verdicts(folder, 1053),
        plain_verdicts,
        lambda folder: goldless_scores(folder, "tvd-mi"),
        4.0,
    ),
    "pairwise review over 1.6 million judgements": (make_judgements, plain_judgements, goldless_review, 6.0),
}


def warm() -> None:
    """Import everything that a measurement uses, so that the clock sees the work alone."""
    for module in ("runs.pipeline", "metrics.catalogue", "metrics.ranking", "user_metrics"):
        importlib.import_module(f"goldless.{module}")


def peak_mib() -> float:
    """Most memory this process had; on Linux without what its parent had when it was started."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def child(kind: str, side: str, folder: Path) -> None:
    """One measurement, printed as JSON."""
    _, plain, ours, _ = KINDS[kind]
    statistics: Callable[[], object] = lambda: None  # noqa: E731
    if side == "plain":
        begin = time.perf_counter()
        means = plain(folder)
    else:
        warm()
        begin = time.perf_counter()
        means, statistics = ours(folder)
    seconds = time.perf_counter() - begin
    peak = peak_mib()
    begin = time.perf_counter()
    statistics()
    print(json.dumps({"seconds": seconds, "mib": peak, "means": means, "statistics": time.perf_counter() - begin}))


def measured(kind: str, side: str, folder: Path, runs: int = RUNS) -> dict:
    """The best of a few runs, each in a process of its own."""
    command = [sys.executable, __file__, "--child", kind, "--side", side, "--folder", str(folder)]
    found = []
    for _ in range(runs):
        ended = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - this very file
        found.append(json.loads(ended.stdout))
    return min(found, key=lambda one: one["seconds"])


def compare(kind: str, folder: Path) -> None:
    make, _, _, allowed = KINDS[kind]
    make(folder)
    plain, ours = measured(kind, "plain", folder), measured(kind, "goldless", folder)
    assert plain["means"].keys() == ours["means"].keys()
    apart = max(abs(plain["means"][agent] - ours["means"][agent]) for agent in plain["means"])
    print(f"\n{kind}")
    print(f"  plain polars  {plain['seconds']:6.2f} s  {plain['mib']:7.0f} MiB")
    print(
        f"  goldless      {ours['seconds']:6.2f} s  {ours['mib']:7.0f} MiB   largest difference of a mean {apart:.1e}"
    )
    time_ratio, memory_ratio = ours["seconds"] / plain["seconds"], ours["mib"] / plain["mib"]
    print(f"  ratio         {time_ratio:6.2f}    {memory_ratio:7.2f}       (goal: {allowed:g} and 2.5)")
    pairs = AGENTS * (AGENTS - 1) // 2
    print(f"  statistics    {ours['statistics']:6.2f} s  (10,000 resamples and tests of all {pairs} pairs, apart)")


def slope(folder: Path) -> None:
    """Seconds of a review with a scripted reviewer against the number of tasks."""
    import goldless  # noqa: PLC0415
    from goldless import ScriptedModel  # noqa: PLC0415

    points = []
    for tasks in (10, *SLOPE_TASKS):  # the first one warms up
        rows = [{"task": f"t{i}", "agent": f"a{j}", "text": f"text {i} {j}"} for i in range(tasks) for j in range(4)]
        model = ScriptedModel(answers=lambda _: "one", name="reviewer")
        begin = time.perf_counter()
        goldless.review(pl.DataFrame(rows), reviewers={"r": model}, resamples=100, journal=folder / f"{tasks}.db")
        seconds = time.perf_counter() - begin
        if tasks not in SLOPE_TASKS:
            continue
        points.append((math.log(tasks), math.log(seconds)))
        print(f"  review of {tasks:5} tasks x 4 agents: {seconds:6.2f} s")
    found = np.polyfit(*zip(*points, strict=True), 1)[0]
    print(f"  slope of the log-log line {found:.2f} (goal: at most 1.1)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child")
    parser.add_argument("--side")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.side, arguments.folder)
        return
    with tempfile.TemporaryDirectory() as scratch:
        for number, kind in enumerate(KINDS):
            compare(kind, Path(scratch) / f"study-{number}")
        print("\nreview with a scripted reviewer")
        slope(Path(scratch))


if __name__ == "__main__":
    main()
