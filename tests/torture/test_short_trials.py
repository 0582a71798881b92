"""Short forms of the trials that ``make torture`` runs."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import pytest

from goldless.cli.main import VERBS
from goldless.models.interface import ChatReply, TokenLogprobs
from tests.torture import mutated_files
from tests.torture.mutated_replies import impossible

NO_FILES = {"studio", "view"}
"""Verbs that read no file of others: the studio shows what ``view`` does."""


OF_PROCESSES = pytest.mark.xdist_group("commands that are forked")
"""Trials that share the process from which their commands are forked."""


@pytest.mark.parametrize(
    ("trial", "count"),
    [
        *(pytest.param(trial, 1, marks=OF_PROCESSES) for trial in ("kills", "signals", "processes", "full_disks")),
        *[("damaged_journals", 5), ("server_faults", 1), ("mutated_files", 5), ("hostile_responses", 25)],
        *[("planted_settings", 20), ("mutated_replies", 400)],
    ],
)
@pytest.mark.timeout(300)
def test_nothing_is_lost_paid_twice_or_changed(trial, count):
    tally = importlib.import_module(f"tests.torture.{trial}").run(count, 0)
    assert tally.sound, tally


def test_mutated_files_are_read_by_every_verb():
    here = Path()
    lines = [words for kind in mutated_files.KINDS for words in mutated_files.commands(kind, here, here, here)]
    tried = {words[0] for words in lines}
    assert set(VERBS) - tried == NO_FILES


@pytest.mark.parametrize(
    "reply",
    [
        TokenLogprobs((0.5,)),
        TokenLogprobs((math.nan,)),
        TokenLogprobs(()),
        ChatReply("one", token_logprobs=(("one", 1e308),)),
        ChatReply("one", choice_logprobs={"one": -0.1, "two": -0.1}),
    ],
)
def test_the_trial_of_replies_notices_what_cannot_be(reply):
    assert impossible(reply)
