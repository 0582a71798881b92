"""How fast a large study is read and checked, and in how much memory, beside plain polars on the same file.

    python benchmarks/speed/study_reading.py [--rows 1000000]

Each reading runs in a fresh process. Memory is the peak of the whole process, interpreter and imports included.
All other work is done in processes of their own as well: a child's peak counts from its parent's size on.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from goldless.studies import read_study, write_study

AGENTS = 20
READERS = ("goldless", "polars")
STEPS = ("generate", "convert", *READERS)


def make_study(path: Path, rows: int) -> None:
    """Write responses of about 200 characters each, in words; one in five holds a character beyond ASCII."""
    source = random.Random(0)
    words = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(2, 9))) for _ in range(5000)]
    words[:35] = [f"{word}\u2019s" for word in words[:35]]
    texts = [" ".join(source.choices(words, k=31)) for _ in range(10_000)]
    with path.open("w", encoding="utf-8") as file:
        for row in range(rows):
            task, agent = divmod(row, AGENTS)
            record = {"task": f"task-{task:06}", "agent": f"agent-{agent:02}", "text": f"{row} {source.choice(texts)}"}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_once(reader: str, path: Path) -> dict[str, float]:
    """Rows, seconds and peak memory of one reading, in this process."""
    start = time.perf_counter()
    if reader == "goldless":
        rows = read_study(path).n_responses
    else:
        rows = (pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_ndjson(path)).height
    seconds = time.perf_counter() - start
    # Kilobytes on Linux, bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"rows": rows, "seconds": seconds, "peak_bytes": peak}


def in_fresh_process(step: str, path: Path, rows: int = 0) -> dict[str, float]:
    """What a step prints, run in a process of its own."""
    command = [sys.executable, __file__, "--step", step, "--file", str(path), "--rows", str(rows)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this very script
    result: dict[str, float] = json.loads(done.stdout or "{}")
    return result


def compare(path: Path, repeats: int) -> None:
    """Print one line per reader and the ratios, each the best of some readings."""
    print(f"\n{path.name}: {path.stat().st_size / 2**20:,.0f} MiB")
    best: dict[str, dict[str, float]] = {}
    for reader in READERS:
        runs = [in_fresh_process(reader, path) for _ in range(repeats)]
        best[reader] = min(runs, key=lambda run: run["seconds"])
        speed = best[reader]["rows"] / best[reader]["seconds"]
        peak = max(run["peak_bytes"] for run in runs)
        best[reader] |= {"speed": speed, "peak_bytes": peak}
        print(f"  {reader:<9}{speed:>12,.0f} rows/s {peak / 2**20:>8,.0f} MiB peak {best[reader]['seconds']:>7.2f} s")
    ours, theirs = best["goldless"], best["polars"]
    speed, memory = ours["speed"] / theirs["speed"], ours["peak_bytes"] / theirs["peak_bytes"]
    print(f"  goldless / polars: {speed:.2f} times the speed, {memory:.2f} times the memory")


def main() -> None:
    """Generate, measure, print, clean up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step == "generate":
        make_study(options.file, options.rows)
    elif options.step == "convert":
        write_study(read_study(options.file), options.file.with_name("study"), format="parquet")
    elif options.step:
        print(json.dumps(read_once(options.step, options.file)))
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "responses.jsonl"
            in_fresh_process("generate", path, options.rows)
            print(f"{options.rows:,} responses of {AGENTS} agents")
            compare(path, options.repeats)
            in_fresh_process("convert", path)
            compare(Path(folder) / "study" / "responses.parquet", options.repeats)


if __name__ == "__main__":
    main()
