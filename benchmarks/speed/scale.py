"""From 10^5 to 10^7 rows of recorded evidence: time and peak memory of ``goldless score --recorded``, with the slope.

    python benchmarks/speed/scale.py                            # 10^5, 10^6 and 10^7 log-probabilities: some minutes
    python benchmarks/speed/scale.py --kind verdicts
    python benchmarks/speed/scale.py --rows 1e8 --plain-up-to 1e7     # 1 GB of data and much memory
    python benchmarks/speed/scale.py --rows 1e7 --threads 1,2,4
    python benchmarks/speed/scale.py --tasks 1e4,1e5,1e6,1e7    # intervals and tests over this many tasks
    python benchmarks/speed/scale.py --workers 1,2,4            # work items through a Ray cluster on this machine

Each run is a process of its own: the whole command, from the start of Python to the printed leaderboard, with 10,000
resamples and tests of all pairs of agents. Beside it, what a user would write instead: polars that reads the table into
memory and computes the agents' means, without checks, intervals, tests and signature. CPU seconds are those of all
threads; on a busy machine they say more than the time on the clock.

With ``--workers``, a scripted model whose every question takes a fixed time to compute is asked about 300 tasks of
three agents, nine questions and one work item each, without Ray and then by 1, 2 and 4 workers.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

AGENTS = 6
"""Of the tables of scores; those of evidence have 20."""
PER_MIB = 2**20 if sys.platform == "darwin" else 2**10
"""Peak memory is in bytes on macOS, otherwise in KiB."""
FLEET_TASKS, FLEET_AGENTS, QUESTION_SECONDS = 300, 3, 0.002


@dataclass(frozen=True)
class Run:
    """What one process took."""

    seconds: float
    cpu: float
    mib: float
    printed: str


def run(arguments: list[str], threads: int | None = None) -> Run:
    """Run Python with these arguments, to its end."""
    limits = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {**os.environ, **({} if threads is None else dict.fromkeys(limits, str(threads)))}
    with tempfile.TemporaryFile() as printed:
        begin = time.perf_counter()
        actions = [(os.POSIX_SPAWN_DUP2, printed.fileno(), 1)]
        child = os.posix_spawn(sys.executable, [sys.executable, *arguments], environment, file_actions=actions)
        _, status, used = os.wait4(child, 0)
        seconds = time.perf_counter() - begin
        printed.seek(0)
        text = printed.read().decode()
    if status:
        sys.exit(f"{' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
    return Run(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / PER_MIB, text)


# --- in processes of their own -------------------------------------------------------------------------------------


def make(kind: str, rows: int, folder: Path) -> None:
    """Write a study of about this many rows of evidence."""
    from evidence import AGENTS as AGENTS_OF_EVIDENCE  # noqa: PLC0415
    from evidence import make_logprobs, make_verdicts  # noqa: PLC0415

    if kind == "logprobs":
        make_logprobs(folder, rows // AGENTS_OF_EVIDENCE**2)
    else:
        make_verdicts(folder, rows // (4 * AGENTS_OF_EVIDENCE * (AGENTS_OF_EVIDENCE - 1)))


def plain(kind: str, folder: Path) -> None:
    """Print the agents' means that polars in memory computes."""
    from evidence import plain_logprobs, plain_verdicts  # noqa: PLC0415

    print(json.dumps((plain_logprobs if kind == "logprobs" else plain_verdicts)(folder)))


def statistics(tasks: int) -> None:
    """Compute intervals and tests of scores that are there already."""
    import numpy as np  # noqa: PLC0415

    from goldless.statistics.standings import standings  # noqa: PLC0415

    random = np.random.default_rng(0)
    scores = random.exponential(size=(tasks, AGENTS))
    scores[random.random(scores.shape) < 0.01] = np.nan
    begin = time.process_time()
    standings(scores, [f"agent-{i}" for i in range(AGENTS)])
    print(time.process_time() - begin)


def scripted_score(folder: Path, context: str, target: str) -> list[float]:
    """Compute for a fixed time, and note what this process took so far."""
    until = time.process_time() + QUESTION_SECONDS
    while time.process_time() < until:
        pass
    used = resource.getrusage(resource.RUSAGE_SELF)
    (folder / str(os.getpid())).write_text(f"{used.ru_utime + used.ru_stime} {used.ru_maxrss / PER_MIB}")
    known = set(re.findall(r"\w+", context))
    return [-0.5 if word in known else -2.0 for word in re.findall(r"\w+", target)]


def fleet(workers: int, folder: Path) -> None:
    """Score a study on a fleet, or in this process for no workers, and print what it took."""
    import goldless  # noqa: PLC0415
    from goldless.models.scripted import ScriptedModel  # noqa: PLC0415

    folder.mkdir()
    study = [
        {"task": f"t{task}", "agent": f"a{agent}", "text": f"text of {agent} for {task}"}
        for task, agent in itertools.product(range(FLEET_TASKS), range(FLEET_AGENTS))
    ]
    stage: list[tuple[float, float]] = []
    board = goldless.evaluate(
        study,
        metrics="gem-raw",
        scorer=ScriptedModel(name="script", logprobs=functools.partial(scripted_score, folder)),
        on=f"ray?workers={workers}&cpus=1" if workers else None,
        journal=folder.parent / "journal.sqlite",
        resamples=100,
        progress=lambda _: stage.append((time.perf_counter(), time.process_time())),
    ).leaderboard()
    used = [list(map(float, path.read_text().split())) for path in folder.iterdir() if path.name != str(os.getpid())]
    seconds, cpu = (last - first for first, last in zip(stage[0], stage[-1], strict=True))
    peaks = [peak for _, peak in used]
    print(json.dumps([seconds, cpu, sum(one for one, _ in used), max(peaks, default=0), len(used), repr(board)]))


# --- the tables ----------------------------------------------------------------------------------------------------


def scored(kind: str, folder: Path, threads: int | None = None) -> tuple[Run, dict[str, float]]:
    """What the command took, and the agents' means that it printed."""
    metric = "gem-raw" if kind == "logprobs" else "tvd-mi"
    command = ["-m", "goldless", "score", str(folder), "--recorded", "--metric", metric, "--format", "json"]
    found = run(command, threads)
    return found, {
        row["agent"]: row["estimate"]["value"] for row in json.loads(found.printed)["metrics"][metric]["rows"]
    }


def line(what: str, one: Run) -> str:
    return f"{what:>14} {one.seconds:9.1f} s {one.cpu:9.1f} CPU s {one.mib:8,.0f} MiB"


def slope(sizes: list[int], values: list[float]) -> float:
    """Of the line between the logarithms of the last two points."""
    (x, other_x), (y, other_y) = map(math.log, sizes[-2:]), map(math.log, values[-2:])
    return (other_y - y) / (other_x - x)


def sizes_table(kind: str, sizes: list[int], plain_up_to: int, scratch: Path) -> None:
    """One study after the other, each deleted before the next."""
    print(f"{kind}: goldless score --recorded, and plain polars in memory")
    ours: list[Run] = []
    for rows in sizes:
        folder = scratch / "study"
        run([__file__, "--child", "make", "--kind", kind, "--rows", str(rows), "--folder", str(folder)])
        found, means = scored(kind, folder)
        ours.append(found)
        print(f"{rows:14,} rows\n{line('goldless', found)}", flush=True)
        if rows <= plain_up_to:
            peer = run([__file__, "--child", "plain", "--kind", kind, "--folder", str(folder)])
            apart = max(abs(means[agent] - mean) for agent, mean in json.loads(peer.printed).items())
            print(line("plain polars", peer))
            ratios = f"{found.cpu / peer.cpu:9.2f}         {found.mib / peer.mib:8.2f}"
            print(f"{'ratio':>14} {found.seconds / peer.seconds:9.2f}   {ratios}     largest difference {apart:.0e}")
        shutil.rmtree(folder)
    if len(ours) > 1:
        cpu, memory = (slope(sizes, [getattr(one, name) for one in ours]) for name in ("cpu", "mib"))
        print(f"slope between the last two sizes: CPU {cpu:.2f}, memory {memory:.2f}")


def threads_table(kind: str, rows: int, threads: list[int], scratch: Path) -> None:
    """The same study with 1, 2, 4 threads."""
    folder = scratch / "study"
    run([__file__, "--child", "make", "--kind", kind, "--rows", str(rows), "--folder", str(folder)])
    print(f"{kind}, {rows:,} rows, by threads; this machine has {os.cpu_count()} cores")
    boards = set()
    for number in threads:
        found, means = scored(kind, folder, number)
        boards.add(json.dumps(means))
        print(line(f"{number} threads", found))
    print(f"{len(boards)} different leaderboards")


def tasks_table(sizes: list[int]) -> None:
    """Intervals and tests alone."""
    print(f"intervals and tests of {AGENTS} agents, 10,000 resamples")
    for tasks in sizes:
        found = run([__file__, "--child", "statistics", "--rows", str(tasks)])
        print(f"{tasks:14,} tasks {float(found.printed):9.1f} CPU s {found.mib:8,.0f} MiB")


def workers_table(numbers: list[int], scratch: Path) -> None:
    """The same study by 1, 2, 4 workers, and without Ray."""
    questions = FLEET_TASKS * FLEET_AGENTS**2
    print(f"{FLEET_TASKS:,} items, {questions:,} questions of {QUESTION_SECONDS * 1e3:g} ms; {os.cpu_count()} cores")
    boards = set()
    for number in [0, *numbers]:
        folder = scratch / f"workers-{number}" / "used"
        folder.parent.mkdir()
        found = run([__file__, "--child", "fleet", "--rows", str(number), "--folder", str(folder)])
        seconds, driver, workers, peak, at_work, board = json.loads(found.printed.splitlines()[-1])
        boards.add(board)
        print(
            f"{f'{at_work} workers' if number else 'without Ray':>14} {FLEET_TASKS / seconds:7.1f} items/s "
            f"{seconds:7.1f} s; CPU s: driver {driver:6.1f}, workers {workers:6.1f}; "
            f"MiB: driver {found.mib:6,.0f}, largest worker {peak:6,.0f}",
            flush=True,
        )
    print(f"{len(boards)} different leaderboards")


def main() -> None:
    def numbers(text: str) -> list[int]:
        return [int(float(part)) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=numbers, default=[10**5, 10**6, 10**7])
    parser.add_argument("--kind", choices=("logprobs", "verdicts"), default="logprobs")
    parser.add_argument("--plain-up-to", type=float, default=1e7, help="rows beyond which polars in memory is not run")
    parser.add_argument("--threads", type=numbers)
    parser.add_argument("--tasks", type=numbers)
    parser.add_argument("--workers", type=numbers)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    children: dict[str, Callable[[], None]] = {
        "make": lambda: make(given.kind, given.rows[0], given.folder),
        "plain": lambda: plain(given.kind, given.folder),
        "statistics": lambda: statistics(given.rows[0]),
        "fleet": lambda: fleet(given.rows[0], given.folder),
    }
    if given.child:
        children[given.child]()
        return
    if given.tasks:
        tasks_table(given.tasks)
        return
    with tempfile.TemporaryDirectory() as scratch:
        if given.workers:
            workers_table(given.workers, Path(scratch))
        elif given.threads:
            threads_table(given.kind, given.rows[0], given.threads, Path(scratch))
        else:
            sizes_table(given.kind, given.rows, int(given.plain_up_to), Path(scratch))


if __name__ == "__main__":
    main()
