"""Two Ctrl-C at 0 to 100 ms from each other, SIGTERM and SIGHUP: the process ends and says what is kept."""

from __future__ import annotations

import random
import signal
import time

from tests.torture.counted_runs import Trial, counted
from tests.torture.tally import Tally

PROMISED_SECONDS = 2.0
HANGING_SECONDS = 120.0
"""On a busy machine the promise may be broken by others; this long is nobody else's fault."""


def run(count: int, seed: int) -> Tally:
    """Try so many pairs, the distances evenly spread, and one SIGTERM and SIGHUP for every twenty."""
    tally = Tally("signals")
    chance = random.Random(seed)
    slow = []
    with counted("review", seed, delay_seconds=0.1) as trial:
        for number in range(count):
            gap = 0.1 * number / max(1, count - 1)
            seconds = _pair(trial, number, gap, chance.choice((0, 1, 5)), tally)
            slow += [seconds] * (seconds > PROMISED_SECONDS)
        for number in range(max(1, count // 20)):
            for one in (signal.SIGTERM, signal.SIGHUP):
                _single(trial, f"single-{number}-{one.name}", one, tally)
    if slow:
        listed = ", ".join(f"{seconds:.1f}" for seconds in slow)
        tally.notes.append(f"{len(slow)} of {count} pairs took longer than {PROMISED_SECONDS:g} s: {listed}")
    return tally


def _pair(trial: Trial, number: int, gap: float, calls: int, tally: Tally) -> float:
    out = f"pair-{number}"
    process = trial.start(out, home=f"home-{number}")
    trial.busy(trial.server.well.total() + calls, process)
    while trial.state(out) != "running" and not process.ended:
        time.sleep(0.002)  # before that, Python itself is starting
    process.send(signal.SIGINT)
    time.sleep(gap)
    process.send(signal.SIGINT)
    began = time.monotonic()
    ended = process.wait(HANGING_SECONDS)
    seconds = time.monotonic() - began
    trial.quiet()
    tally.tried += 1
    fine = ended and process.code == 130 and not process.broke and "finished work is kept" in process.err
    tally.tracebacks += not fine
    silent = ended and trial.state(out) != "interrupted"
    tally.silent_changes += silent
    if not fine or silent:
        state = trial.state(out)
        tally.notes.append(f"{1000 * gap:.0f} ms apart: code {process.code}, {state}, {process.err.strip()[-300:]!r}")
    return seconds


def _single(trial: Trial, out: str, number: signal.Signals, tally: Tally) -> None:
    process = trial.start(out, home=f"home-{out}")
    trial.busy(trial.server.well.total() + 1, process)
    process.send(number)
    ended = process.wait(HANGING_SECONDS)
    trial.quiet()
    tally.tried += 1
    said = f"ended by {number.name}; finished work is kept" in process.err
    fine = ended and process.code == 128 + number and said and not process.broke
    tally.tracebacks += not fine
    tally.silent_changes += trial.state(out) != "interrupted"
    if not fine or trial.state(out) != "interrupted":
        tally.notes.append(f"{number.name}: code {process.code}, {trial.state(out)}, {process.err.strip()[-300:]!r}")
