"""A venue that is asked before its reviews are public leaves no other draw behind."""

from __future__ import annotations

import os

import pytest
from openreview_server import OpenReviewServer, Submitted

from goldless.apps.gre.collecting import collect_edition
from goldless.apps.gre.edition import open_or_begin
from goldless.apps.gre.papers import UnansweredError
from goldless.studies import read_study

VENUE = "Loopback.cc/2024/Conference"
THREE = [{"strength_and_weaknesses": f"Strong {n}.", "summary_of_the_paper": "Plants."} for n in range(3)]


@pytest.fixture(autouse=True)
def _guest(monkeypatch):
    for name in [name for name in os.environ if name.startswith("OPENREVIEW_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server():
    with OpenReviewServer() as running:
        yield running


def test_a_run_that_was_broken_off_too_early_does_not_change_the_draw_of_a_later_day(server, tmp_path):
    server.add(VENUE, [Submitted(f"p{n}", THREE) for n in range(12)], api=2)
    public = [*server.notes["v2"]]

    def drawn(folder) -> set[str]:
        settings = {"venue": VENUE, "papers": 4, "seed": 1}
        begun = open_or_begin(tmp_path / folder)
        made, _ = collect_edition(begun, settings, seconds_between_requests=0, api1=server.api1, api2=server.api2)
        return set(read_study(made.study_folder).tasks)

    def busy_after_five(target):
        many = sum("forum=" in asked for asked in server.asked) > 5
        return (429, {"Retry-After": "9999"}, b"{}") if many and "forum=" in target else None

    server.notes["v2"] = [note for note in public if "-r" not in note["id"]]
    server.fault = busy_after_five
    with pytest.raises(UnansweredError):
        drawn("early")
    server.notes["v2"], server.fault = public, lambda _: None
    assert drawn("early") == drawn("on time")
