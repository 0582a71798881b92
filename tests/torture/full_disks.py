"""Full disks, under the results and under standard output: one message, and the same command completes with room."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.torture.counted_runs import LONGEST_SECONDS, Trial, counted, reference
from tests.torture.tally import Tally

SIZES_KIB = (4, 8, 16, 24, 32, 48, 64, 96)
PRINTED = ("--format=json", "--format=rich", "--format=csv", "--format=markdown", "--format=latex")


def run(count: int, seed: int) -> Tally:
    """Try so many sizes of a disk for results, and each format on ``/dev/full``."""
    tally = Tally("full disks")
    with counted("review", seed, delay_seconds=0.0, copies=1) as trial:
        right = reference(trial)
        if not Path("/dev/full").exists():
            tally.notes.append("no /dev/full here: standard output was not tried")
        for option in PRINTED[: count if Path("/dev/full").exists() else 0]:
            process = trial.start("", option, stdout="/dev/full")
            ended = process.wait(LONGEST_SECONDS)
            tally.tried += 1
            fine = (
                ended and process.code == 1 and process.err.count("error: standard output: cannot write (No space") == 1
            )
            _count(tally, f"{option} on /dev/full", process.err, fine=fine and not process.broke)
        for size in SIZES_KIB[:count]:
            if not _small(trial, size, right, tally):
                tally.notes.append("no file system can be mounted here: small disks were not tried")
                break
    return tally


def _small(trial: Trial, kib: int, right: dict[str, str], tally: Tally) -> bool:
    """Whether a small file system could be made."""
    place = trial.folder / f"disk-{kib}"
    place.mkdir()
    if not _mounted(place, f"size={kib}k"):
        return False
    try:
        process = trial.start(f"disk-{kib}/out")
        ended = process.wait(LONGEST_SECONDS)
        tally.tried += 1
        full = process.code == 2 and process.err.count("error: ") == 1 and f"disk-{kib}" in process.err
        full = full and "No space left on device" in process.err
        fine = ended and (full or process.code == 0) and not process.broke
        _count(tally, f"{kib} KiB", process.err, fine=fine)
        if not _mounted(place, "remount,size=100m"):
            return True
        again = trial.start(f"disk-{kib}/out")
        again.wait(LONGEST_SECONDS)
        changed = trial.results(f"disk-{kib}/out") != right or bool(trial.leftovers(f"disk-{kib}/out"))
        tally.silent_changes += changed
        if changed:
            tally.notes.append(f"{kib} KiB: with room, code {again.code}, left {trial.leftovers(f'disk-{kib}/out')}")
    finally:
        subprocess.run(["umount", str(place)], check=False, capture_output=True)
    return True


def _mounted(place: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _count(tally: Tally, where: str, said: str, *, fine: bool) -> None:
    tally.tracebacks += not fine
    if not fine:
        tally.notes.append(f"{where}: {said.strip()[-300:]!r}")
