"""Short forms of the trials that ``make torture`` runs; that of mutated replies has a file of its own."""

from __future__ import annotations

import importlib
from pathlib import Path

import mutated_files
import pytest

from goldless.cli.main import MOVED, VERBS

NO_FILES = {"studio"}
"""Verbs that read no file of others: the studio shows what ``view`` does."""


@pytest.mark.parametrize(
    ("trial", "count"),
    [
        *[("kills", 1), ("signals", 1), ("processes", 1), ("damaged_journals", 5), ("full_disks", 1)],
        *[("server_faults", 1), ("mutated_files", 5), ("hostile_responses", 5)],
        ("planted_settings", 20),
    ],
)
@pytest.mark.timeout(300)
def test_nothing_is_lost_paid_twice_or_changed(trial, count):
    tally = importlib.import_module(trial).run(count, 0)
    assert tally.sound, tally


def test_mutated_files_are_read_by_every_verb():
    here = Path()
    lines = [words for kind in mutated_files.KINDS for words in mutated_files.commands(kind, here, here, here)]
    tried = {MOVED.get(words[0], words[0]).split()[0] for words in lines}
    assert set(VERBS) - tried == NO_FILES
