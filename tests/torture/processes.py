"""One, two and eight processes that do the same with one journal: each call is paid once, all results are the same."""

from __future__ import annotations

from tests.torture.counted_runs import LONGEST_SECONDS, counted, reference
from tests.torture.tally import Tally

NUMBERS = (2, 8, 1)


def run(count: int, seed: int) -> Tally:
    """Try so many numbers of processes, each while reviewing and while scoring."""
    tally = Tally("processes")
    for verb in ("review", "score"):
        for number in NUMBERS[:count]:
            with counted(verb, seed, copies=3) as trial:
                right = reference(trial)
                running = [trial.start(f"out-{one}") for one in range(number)]
                ended = [process.wait(2 * LONGEST_SECONDS) for process in running]
                tally.tried += 1
                again = sum(times - 1 for times in trial.server.well.values())
                broke = sum(not end or one.code != 0 or one.broke for end, one in zip(ended, running, strict=True))
                changed = sum(trial.results(f"out-{one}") != right for one in range(number))
                where = f"{verb}, {number} processes"
                if not trial.server.well:
                    tally.notes.append(f"{where}: no call was counted")
                    tally.tracebacks += 1
                tally.paid_twice += again
                tally.tracebacks += broke
                tally.silent_changes += changed
                if again or broke or changed:
                    said = [process.err.strip()[-200:] for process in running if process.code != 0]
                    tally.notes.append(f"{where}: {again} paid again, {broke} broke, {changed} differ {said}")
    return tally
