"""``kill -9`` at random moments of scoring and reviewing: nothing stored is lost or asked again, nothing is left over.

Each round kills a command several times, then lets it end. Its results must be those of an undisturbed run.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sqlite3
import time

from tests.torture.counted_runs import LONGEST_SECONDS, Trial, counted, reference
from tests.torture.tally import Tally

KILLS_PER_ROUND = 5


def run(count: int, seed: int) -> Tally:
    """Kill so many times, half of them while reviewing."""
    tally = Tally("kills")
    for verb, wanted in (("review", count - count // 2), ("score", count // 2)):
        if wanted:
            with counted(verb, seed) as trial:
                right = reference(trial)
                begun = tally.tried
                while (done := tally.tried - begun) < wanted:
                    _round(trial, right, min(KILLS_PER_ROUND, wanted - done), f"{seed} {done}", tally)
    return tally


def _round(trial: Trial, right: dict[str, str], kills: int, seed: str, tally: Tally) -> None:
    chance = random.Random(seed)
    where = f"{trial.verb}, seed and number {seed}"
    trial.server.well.clear()
    for path in (trial.journal, *trial.journal.parent.glob("journal.sqlite-*")):
        path.unlink(missing_ok=True)
    stored = 0
    for _ in range(kills):
        process = trial.start()
        # a moment of the work, or of what comes before and after it
        trial.busy(trial.server.well.total() + chance.choice((0, 0, 1, 3, 10, 20)), process)
        time.sleep(chance.random() * 0.3)
        process.send(signal.SIGKILL)
        process.wait(LONGEST_SECONDS)
        trial.quiet()
        tally.tried += 1
        tally.tracebacks += process.broke
        now = trial.stored()
        tally.lost += max(0, stored - now)
        stored = now
        if process.code == 0:  # it was faster
            break
    answered, before = trial.server.well.total(), stored
    last = trial.start()
    ended = last.wait(LONGEST_SECONDS)
    again = trial.called_after_reply()
    # what was stored is not asked again: the last process, undisturbed, asks exactly for what is missing
    again += max(0, trial.server.well.total() - answered - (trial.stored() - before))
    tally.paid_twice += again
    broke = not ended or last.broke or last.code != 0
    tally.tracebacks += broke
    changed = trial.results() != right
    tally.silent_changes += changed
    left = trial.leftovers()
    tally.silent_changes += bool(left)
    with contextlib.closing(sqlite3.connect(trial.journal)) as journal:
        whole = journal.execute("pragma integrity_check").fetchone() == ("ok",)
    tally.lost += not whole
    if again or broke or changed or left or not whole:
        said = last.err.strip().splitlines()[-1:]
        tally.notes.append(f"{where}: {again} again, code {last.code} {said}, changed {changed}, left {left}")
