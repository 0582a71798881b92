"""How fast the studio answers on a large run, and what a script that reads the whole tables takes for the same.

    python benchmarks/speed/viewer.py [--tasks 450] [--agents 10] [--reviewers 5] [--rows-a-group 5000] [--folder DIR]

A run is generated: every ordered pair of agents on every task judged by every reviewer (450 · 90 · 5 = 202,500
judgements, each with a reply of about 60 words), and as many log-probabilities of about 60 tokens each. *viewer* is the
whole product path: ``goldless studio``, which has all pages of ``goldless view``, as a process of its own, asked over
HTTP, the page taken to its last byte.
*polars* and *pandas* are what somebody would write instead: read the table, keep the rows, print the first fifty; each
in a process of its own that has the library loaded before the clock starts. Every interaction is timed several times;
the median is printed, and for the viewer also the first time, which pays for its index.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl

TIMES = 7
LIMIT_SECONDS = 0.5
BROWSER = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
WORDS = [f"w{number}" for number in range(5_000)]


def generate(folder: Path, tasks: int, agents: int, reviewers: int, rows_a_group: int | None = None) -> int:
    """Write the run; how many judgements it has."""
    chance, numbers = random.Random(0), np.random.default_rng(0)
    names, people = [f"task-{i:04d}" for i in range(tasks)], [f"agent-{i:02d}" for i in range(agents)]

    def text(words: int) -> str:
        return " ".join(chance.choices(WORDS, k=words))

    folder.mkdir(parents=True)
    pl.DataFrame({"task": names, "prompt": [text(200) for _ in names]}).write_parquet(folder / "tasks.parquet")
    rows = [(task, agent, text(80)) for task in names for agent in people]
    pl.DataFrame(rows, schema=["task", "agent", "text"], orient="row").write_parquet(folder / "responses.parquet")
    pairs = [(task, a, b) for task in names for a in people for b in people if a != b]
    columns = {
        "reviewer": [f"reviewer-{r}" for r in range(reviewers) for _ in pairs],
        "format": ["pairwise"] * (reviewers * len(pairs)),
        "task": [pair[0] for pair in pairs] * reviewers,
        "first": [pair[1] for pair in pairs] * reviewers,
        "second": [pair[2] for pair in pairs] * reviewers,
    }
    count = reviewers * len(pairs)
    values = numbers.integers(0, 2, count).astype(float)
    failed = numbers.random(count) < 0.01
    judgements = pl.DataFrame(columns).with_columns(
        pl.lit(None, pl.String).alias("agent"),
        pl.Series("output", [f"{text(60)} one" for _ in range(count)]),
        pl.Series("value", np.where(failed, np.nan, values)).fill_nan(None),
        pl.Series("failure", np.where(failed, "unparsable", "")).replace("", None),
    )
    judgements.write_parquet(folder / "judgements.parquet", row_group_size=rows_a_group)
    tokens = 60
    logprobs = pl.DataFrame(
        {
            "scorer": [f"scorer-{r}" for r in range(reviewers) for _ in pairs],
            "template": ["general"] * count,
            "task": columns["task"],
            "target": columns["second"],
            "given": columns["first"],
            "sum_logprob_nats": numbers.normal(-150, 20, count),
            "tokens": [tokens] * count,
            "logprobs_nats": pl.Series(-numbers.exponential(2.5, (count, tokens))).arr.to_list(),
        }
    )
    logprobs.write_parquet(folder / "logprobs.parquet", row_group_size=rows_a_group)
    document = {
        "study": "generated",
        "scale": "pairwise",
        "complete": True,
        "failures": {"unparsable": int(failed.sum())},
    }
    (folder / "review.json").write_text(json.dumps({**document, "reviewers": [], "rankings": {}}))
    return count


# --- the viewer ------------------------------------------------------------------------------------------------------


@contextmanager
def viewer(folder: Path) -> Iterator[str]:
    """``goldless studio`` as a process of its own, let in by its token; its address."""
    command = [sys.executable, "-m", "goldless", "studio", str(folder), "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        assert process.stderr is not None
        line = ""
        while "http://" not in line:
            line = process.stderr.readline()
            if not line:
                sys.exit("the viewer did not start")
        try:
            address = re.search(r"http://\S+/\?token=\S+", line)[0]  # type: ignore[index]
            ask(address)
            yield address.partition("?")[0]
        finally:
            process.terminate()


def ask(url: str) -> float:
    """Seconds until the last byte of a page is here."""
    begin = time.perf_counter()
    with BROWSER.open(url, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - begin


def interactions(run: str) -> dict[str, str]:
    """What a reader does, as addresses."""
    base, quoted = f"runs/{run}", urllib.parse.quote("review: pairwise")
    return {
        "list of runs": "",
        "open the run": base,
        "tasks, sorted by spread": f"{base}/tasks?order=spread&down=1",
        "filter: one agent, score below 0.4": f"{base}/tasks?metric={quoted}&agent=agent-03&high=0.4",
        "filter: a kind of failure": f"{base}/tasks?failure=unparsable",
        "search prompts and responses": f"{base}/tasks?q=w4242",
        "search 200,000 replies": f"{base}/tasks?q=w17%20w42&in=replies",
        "one task": f"{base}/tasks/223",
        "one response: prompts and replies": f"{base}/tasks/223/agents/3",
        "two agents side by side": f"{base}/side-by-side?one=agent-01&other=agent-07",
        "paste two texts": "paste",
        "a new run": "new",
        "label pairs": "label",
        "failed calls, last page": f"{base}/failures?page=999",
    }


# --- what a script does ----------------------------------------------------------------------------------------------

SCRIPT = """
import sys, time
import {library} as lib
times = []
for _ in range({times}):
    begin = time.perf_counter()
    table = lib.read_parquet({path!r})
    found = {expression}
    str(found.head(50))
    times.append(time.perf_counter() - begin)
print(*times)
"""
SCRIPTS = {
    "filter: a kind of failure": (
        "judgements",
        "table.filter(lib.col('failure') == 'unparsable')",
        "table[table['failure'] == 'unparsable']",
    ),
    "search 200,000 replies": (
        "judgements",
        "table.filter(lib.col('output').str.contains('(?i)w17 w42'))",
        "table[table['output'].str.contains('w17 w42', case=False)]",
    ),
    "one response: prompts and replies": (
        "logprobs",
        "table.filter((lib.col('task') == 'task-0223') & (lib.col('given') == 'agent-03'))",
        "table[(table['task'] == 'task-0223') & (table['given'] == 'agent-03')]",
    ),
}


def script(folder: Path, name: str, library: str) -> float | None:
    """The median seconds of a script that reads the whole table; None: the library is not installed."""
    table, *expressions = SCRIPTS[name]
    expression = expressions[library == "pandas"]
    source = SCRIPT.format(library=library, times=3, path=str(folder / f"{table}.parquet"), expression=expression)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)  # noqa: S603
    return statistics.median(map(float, done.stdout.split())) if done.returncode == 0 else None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("tasks", 450), ("agents", 10), ("reviewers", 5)):
        options.add_argument(f"--{name}", type=int, default=usual)
    options.add_argument("--rows-a-group", type=int, default=5_000, help="row groups of the Parquet files")
    options.add_argument("--folder", type=Path, help="keep the generated run here")
    given = options.parse_args()
    root = given.folder or Path(tempfile.mkdtemp(prefix="goldless-viewer-"))
    folder = root / "large"
    count = generate(folder, given.tasks, given.agents, given.reviewers, given.rows_a_group)
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    print(f"{count:,} judgements and as many log-probabilities, {size:,.0f} MB\n")
    print(f"{'seconds':36}{'first':>8}{'viewer':>8}{'polars':>8}{'pandas':>8}   times faster")
    slowest = 0.0
    begin = time.perf_counter()
    with viewer(root) as url:
        started = time.perf_counter() - begin
        for name, path in interactions(folder.name).items():
            times = [ask(url + path) for _ in range(TIMES)]
            median = statistics.median(times)
            slowest = max(slowest, *times)
            others = [script(folder, name, library) if name in SCRIPTS else None for library in ("polars", "pandas")]
            shown = "".join("       -" if other is None else f"{other:8.3f}" for other in others)
            there = [other / median for other in others if other is not None]
            ratio = "" if not there else "   " + " / ".join(f"{x:.1f}" for x in there)
            print(f"{name:36}{times[0]:8.3f}{median:8.3f}{shown}{ratio}")
    print(f"\nstarted in {started:.2f} s; slowest interaction {slowest:.3f} s (limit {LIMIT_SECONDS:g} s)")
    if given.folder is None:
        shutil.rmtree(root)
    if slowest > LIMIT_SECONDS:
        sys.exit(1)


if __name__ == "__main__":
    main()
