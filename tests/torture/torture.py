"""Every trial of faults, as ``make torture`` runs it: one table, in which every column but "tried" must be 0.

``python -m tests.torture.torture [--share 1.0] [--seed N] [--only NAME] [--workers 2]``. The seed is the date unless it
is given, and is printed. The trials run in parts, each in its own process, two at a time by default. What went wrong is
listed below the table; with the same seed it happens again. Exit code 1 if anything did.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import resource
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime

from tests.torture.tally import Tally

TRIALS = {
    "server_faults": (173, 1),
    "kills": (200, 4),
    "mutated_files": (10_000, 8),
    "signals": (200, 4),
    "processes": (3, 1),
    "full_disks": (8, 1),
    "damaged_journals": (40, 1),
    "mutated_replies": (10_000, 1),
    "hostile_responses": (200, 1),
    "planted_settings": (200, 1),
}
"""How often each is tried, and in how many parts, so that all cores are busy to the end; long ones first. Each module
has a function ``run(count, seed)``."""
COLUMNS = ("tried", "lost", "paid_twice", "tracebacks", "silent_changes")
MOST_NOTES = 20


def one(name: str, count: int, seed: int) -> tuple[Tally, float]:
    """One kind of trial, and its seconds."""
    began = time.monotonic()
    try:
        tally = importlib.import_module(f"tests.torture.{name}").run(count, seed)
    except Exception:  # noqa: BLE001 - a trial that breaks is a finding, and the others go on
        tally = Tally(name.replace("_", " "), tracebacks=1, notes=[traceback.format_exc()])
    return tally, time.monotonic() - began


def parts(name: str, share: float, seed: int) -> list[tuple[str, int, int]]:
    """A kind of trial in parts: its name, how often it is tried in each, and each one's seed."""
    tried, most = TRIALS[name]
    count = max(1, round(tried * share))
    number = min(count, most)
    sizes = [count // number + (part < count % number) for part in range(number)]
    return [(name, size, seed * most + part) for part, size in enumerate(sizes)]


def table(results: Sequence[Tally]) -> str:
    """The table, as it stands in the documentation."""
    lines = ["| trial | tried | lost | paid twice | tracebacks | silent changes |", "|---|---|---|---|---|---|"]
    for tally in results:
        counts = " | ".join(f"{getattr(tally, column):,}" for column in COLUMNS)
        lines.append(f"| {tally.kind} | {counts} |")
    return "\n".join(lines)


def main() -> int:
    """Run the trials, print the table; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the trials, such as 0.05")
    today = int(datetime.now(tz=UTC).strftime("%Y%m%d"))
    parser.add_argument("--seed", type=int, default=today, help="of all trials (default: the date)")
    parser.add_argument("--only", choices=TRIALS, action="append", help="repeat it for several")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    options = parser.parse_args()
    wanted = options.only or list(TRIALS)
    jobs = [job for name in wanted for job in parts(name, options.share, options.seed)]
    found = {name: Tally(name.replace("_", " ")) for name in wanted}
    began = time.monotonic()
    sys.stderr.write(f"seed {options.seed}\n")
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        asked = {pool.submit(one, *job): job for job in jobs}
        for done in as_completed(asked):
            name, count, seed = asked[done]
            tally, seconds = done.result()
            found[name].add(tally)
            said = "sound" if tally.sound else "NOT SOUND"
            sys.stderr.write(f"{name}, {count} with seed {seed}: {said}, {seconds:.0f} s\n")
            sys.stderr.writelines(f"  {note}\n" for note in tally.notes[:MOST_NOTES])
    used = sum(sum(resource.getrusage(whose)[:2]) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    sys.stderr.write(f"{(time.monotonic() - began) / 60:.1f} minutes, {used / 60:.1f} of one core\n")
    results = list(found.values())
    sys.stdout.write(table(results) + "\n")
    for tally in results:
        for note in tally.notes[:MOST_NOTES]:
            sys.stdout.write(f"{tally.kind}: {note}\n")
        if len(tally.notes) > MOST_NOTES:
            sys.stdout.write(f"{tally.kind}: and {len(tally.notes) - MOST_NOTES} more\n")
    return 0 if all(tally.sound for tally in results) else 1


if __name__ == "__main__":
    sys.exit(main())
