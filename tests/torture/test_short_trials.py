"""Short forms of the trials that ``make torture`` runs; that of mutated replies has a file of its own."""

from __future__ import annotations

import importlib

import pytest


@pytest.mark.parametrize(
    ("trial", "count"),
    [
        *[("kills", 1), ("signals", 1), ("processes", 1), ("damaged_journals", 5), ("full_disks", 1)],
        *[("server_faults", 2), ("mutated_files", 5), ("hostile_responses", 5)],
    ],
)
@pytest.mark.timeout(300)
def test_nothing_is_lost_paid_twice_or_changed(trial, count):
    tally = importlib.import_module(trial).run(count, 0)
    assert tally.sound, tally
