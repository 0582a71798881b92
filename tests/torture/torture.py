"""Every trial of faults, as ``make torture`` runs it: one table, in which every column but "tried" must be 0.

``python tests/torture/torture.py [--share 1.0] [--seed 0] [--only NAME]``. The trials run side by side, each in its own
process. What went wrong is listed below the table; with the same seed it happens again. Exit code 1 if anything did.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tally import Tally

sys.path.append(str(Path(__file__).parents[1] / "servers"))

TRIALS = {
    "kills": 200,
    "signals": 200,
    "mutated_files": 10_000,
    "server_faults": 173,
    "mutated_replies": 10_000,
    "processes": 3,
    "damaged_journals": 40,
    "hostile_responses": 200,
    "full_disks": 8,
}
"""How often each is tried, the longest first. Each module has a function ``run(count, seed)``."""
COLUMNS = ("tried", "lost", "paid_twice", "tracebacks", "silent_changes")
MOST_NOTES = 20


def one(name: str, count: int, seed: int) -> tuple[Tally, float]:
    """One kind of trial, and its seconds."""
    began = time.monotonic()
    try:
        tally = importlib.import_module(name).run(count, seed)
    except Exception:  # noqa: BLE001 - a trial that breaks is a finding, and the others go on
        tally = Tally(name.replace("_", " "), tracebacks=1, notes=[traceback.format_exc()])
    return tally, time.monotonic() - began


def table(results: Sequence[tuple[Tally, float]]) -> str:
    """The table, as it stands in the documentation."""
    lines = ["| trial | tried | lost | paid twice | tracebacks | silent changes |", "|---|---|---|---|---|---|"]
    for tally, _ in results:
        counts = " | ".join(f"{getattr(tally, column):,}" for column in COLUMNS)
        lines.append(f"| {tally.kind} | {counts} |")
    return "\n".join(lines)


def main() -> int:
    """Run the trials, print the table; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the trials, such as 0.05")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=TRIALS, action="append", help="repeat it for several")
    options = parser.parse_args()
    wanted = options.only or list(TRIALS)
    found: dict[str, tuple[Tally, float]] = {}
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        asked = {
            pool.submit(one, name, max(1, round(TRIALS[name] * options.share)), options.seed): name for name in wanted
        }
        for done in as_completed(asked):
            name = asked[done]
            found[name] = done.result()
            sys.stderr.write(f"{name}: {'sound' if found[name][0].sound else 'NOT SOUND'}, {found[name][1]:.0f} s\n")
    results = [found[name] for name in wanted]
    sys.stdout.write(table(results) + "\n")
    for tally, _ in results:
        for note in tally.notes[:MOST_NOTES]:
            sys.stdout.write(f"{tally.kind}: {note}\n")
        if len(tally.notes) > MOST_NOTES:
            sys.stdout.write(f"{tally.kind}: and {len(tally.notes) - MOST_NOTES} more\n")
    return 0 if all(tally.sound for tally, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
