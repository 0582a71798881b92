"""A venue that is asked before its reviews are public leaves no other draw behind."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest
from openreview_server import OpenReviewServer, Submitted
from paper_listing import looked_up
from requests_cache.backends.sqlite import SQLiteCache

from goldless.apps.gre.collecting import collect_edition
from goldless.apps.gre.edition import open_or_begin
from goldless.apps.gre.openreview_venue import OpenReviewVenue
from goldless.apps.gre.papers import Paper, UnansweredError
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


def let_pass(folder, hours) -> None:
    """Make the replies in a folder so old."""
    responses = SQLiteCache(folder / "replies.sqlite", serializer="json").responses
    for key, reply in [*responses.items()]:
        reply.created_at = datetime.now(UTC) - timedelta(hours=hours)
        responses[key] = reply
    responses.close()


@pytest.mark.parametrize("api", [1, 2])
def test_replies_with_too_few_reviews_are_asked_for_again_when_they_are_older_than_a_day(server, tmp_path, api):
    server.most_a_page = 2
    server.add(VENUE, [Submitted("early", THREE), Submitted("never", THREE[:1]), Submitted("usable", THREE)], api=api)
    public = [*server.notes[f"v{api}"]]
    server.notes[f"v{api}"] = [note for note in public if not note["id"].startswith("early-r")]

    def collected():
        """What a run finds, and the papers that it asks about."""
        before = len(server.asked)
        venue = OpenReviewVenue(
            VENUE, cache=tmp_path / "cache", api1=server.api1, api2=server.api2, seconds_between_requests=0
        )
        found = {name: looked_up(venue, name) for name in venue.papers()}
        asked = "".join(server.asked[before:])
        return found, {name for name in found if f"forum={name}" in asked or f"pdf?id={name}" in asked}

    first, _ = collected()
    assert first["early"].reason == "few_reviews"
    server.notes[f"v{api}"] = public
    let_pass(tmp_path / "cache", 23)
    assert collected() == (first, set())
    let_pass(tmp_path / "cache", 25)
    later, asked = collected()
    assert asked == {"early", "never"}
    assert isinstance(later["early"], Paper)
    assert (later["never"], later["usable"]) == (first["never"], first["usable"])
    # what came now is of today
    assert collected() == (later, set())


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
    let_pass(tmp_path / "early" / "collected", 25)
    assert drawn("early") == drawn("on time")
