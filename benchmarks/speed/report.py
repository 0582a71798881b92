"""How long the HTML report of a large run takes, and how large it is, beside Altair and beside embedding every point.

    python benchmarks/speed/report.py                     # 20 agents x 1,000 tasks x 3 metrics
    python benchmarks/speed/report.py --altair PYTHON     # and Altair, of an interpreter that has altair and vl-convert

A run folder is generated from a seed: leaderboards with intervals and comparisons, pair matrices, scores of 60,000
responses with their texts, judgements of which some failed, a review and a crash test. ``write_report`` reads it and
writes one file.

Altair draws the leaderboards, the two heat maps and the strip plot of each metric from the same folder and saves them
as one HTML file with its JavaScript inside, every point embedded. "every point" is our page plus all scores as JSON, as
a report that draws in the browser would carry them, without the code that draws.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from goldless.reports.html import write_report
from goldless.reports.leaderboard import Leaderboard
from goldless.statistics.influence import most_influential
from goldless.statistics.standings import standings

METRICS = ("gem-raw", "tvd-mi", "mi")
REPEATS = 3
JUDGEMENTS = 20_000


def scores(agents: int, tasks: int, seed: int) -> npt.NDArray[np.float64]:
    random = np.random.default_rng(seed)
    values = random.gamma(4, 2, (tasks, 1)) + random.normal(0, 3, (tasks, agents)) + np.linspace(6, 0, agents)
    values[random.random(values.shape) < 0.01] = np.nan
    return values


def outcome(metric: str, values: npt.NDArray[np.float64], names: list[str], tasks: list[str]) -> dict[str, Any]:
    used = {name: int((~np.isnan(values[:, j])).sum()) for j, name in enumerate(names)}
    settings = {"metric": metric, "scorer": "generated", "peers": "all", "missing": "left-out", "resamples": "1000"}
    found = standings(values, names, resamples=1000)
    rows = tuple(replace(row, asked=len(tasks), used=used[row.agent]) for row in found.rows)
    board = Leaderboard(metric, "nats", 0.95, rows, found.comparisons, settings)
    means = np.add.outer(np.nanmean(values, axis=0), np.nanmean(values, axis=0)) / 2
    return {
        **asdict(board),
        "by_wording": {},
        "influence": [asdict(row) for row in most_influential(values, tasks, names, 10)],
        "matrix": {
            "agents": names,
            "means": [[None if i == j else float(x) for j, x in enumerate(row)] for i, row in enumerate(means)],
        },
    }


def generate(folder: Path, agents: int, tasks: int) -> None:
    names = [f"model-{place:02d}-instruct" for place in range(agents)]
    task_names = [f"task-{place:05d}" for place in range(tasks)]
    metrics, frames = {}, []
    for seed, metric in enumerate(METRICS):
        values = scores(agents, tasks, seed)
        metrics[metric] = outcome(metric, values, names, task_names)
        rows = {"task": np.repeat(task_names, agents), "agent": np.tile(names, tasks), "score": values.ravel()}
        frame = pl.DataFrame(rows).with_columns(pl.col("score").fill_nan(None))
        frames.append(frame.select(pl.lit(metric).alias("metric"), "task", "agent", "score"))
    pl.concat(frames).write_csv(folder / "response_scores.csv")
    board = {"study": "generated", "fingerprint": "0" * 64, "models": {}, "failures": {}, "complete": True, "asked": 0}
    (folder / "leaderboard.json").write_text(json.dumps(board | {"metrics": metrics}))
    agents_rows = [{"agent": name, "parameters": 1e9 * (1 + place)} for place, name in enumerate(names)]
    (folder / "agents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in agents_rows))
    failed = [None if place % 50 else "unparsable" for place in range(JUDGEMENTS)]
    texts = {"reviewer": ["judge"] * JUDGEMENTS, "task": [f"task-{i % tasks:05d}" for i in range(JUDGEMENTS)]}
    judgements = texts | {"output": ["I cannot decide. " * 20] * JUDGEMENTS, "failure": failed}
    pl.DataFrame(judgements).write_parquet(folder / "judgements.parquet")


def every_point(folder: Path) -> tuple[float, int]:
    begun = time.perf_counter()
    page = write_report(folder).read_text(encoding="utf-8")
    frame = pl.read_csv(folder / "response_scores.csv")
    page += f"<script type='application/json'>{json.dumps(frame.to_dict(as_series=False))}</script>"
    return time.perf_counter() - begun, len(page.encode())


def altair(python: str, folder: Path) -> tuple[float, int]:
    script = Path(__file__).with_name("report_altair.py")
    told = subprocess.run([python, str(script), str(folder)], check=True, capture_output=True, text=True)  # noqa: S603 - ours
    seconds, size = told.stdout.split()
    return float(seconds), int(size)


def write_texts(folder: Path) -> None:
    """Prompts and responses of about 1,500 characters, of which the report embeds a bounded number."""
    known = pl.read_csv(folder / "response_scores.csv").select("task", "agent").unique(maintain_order=True)
    text = pl.format("{} answers {} at some length. ", "agent", "task").repeat_by(40).list.join("")
    known.with_columns(text.alias("text")).write_parquet(folder / "responses.parquet")
    prompt = pl.format("What is {}? ", "task").repeat_by(60).list.join("")
    known.select("task", prompt.alias("prompt")).unique("task", maintain_order=True).write_parquet(
        folder / "tasks.parquet"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--altair", metavar="PYTHON", help="an interpreter that has altair and vl-convert-python")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as aside:
        folder = Path(aside)
        generate(folder, options.agents, options.tasks)
        write_texts(folder)
        times = []
        for _ in range(REPEATS):
            begun = time.process_time()
            size = write_report(folder).stat().st_size
            times.append(time.process_time() - begun)
        rows = [("goldless", min(times), size), ("every point", *every_point(folder))]
        if options.altair:
            rows.append(("altair", *altair(options.altair, folder)))
    print(f"{options.agents} agents x {options.tasks:,} tasks x {len(METRICS)} metrics")
    print("| report | CPU seconds | MB |\n| --- | --- | --- |")
    for name, seconds, size in rows:
        print(f"| {name} | {seconds:.2f} | {size / 1e6:.2f} |")


if __name__ == "__main__":
    main()
