"""Papers and reviews come from OpenReview, on either API, politely, and nothing that was answered is asked twice.

The real client library asks a loopback server that lays notes out as OpenReview's documentation describes them.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from goldless.apps.gre import openreview
from goldless.apps.gre.collecting import collect_edition
from goldless.apps.gre.edition import open_or_begin
from goldless.apps.gre.openreview import ATTEMPTS, OpenReviewVenue
from goldless.apps.gre.papers import Paper, PaperSource, UnansweredError
from goldless.errors import PrerequisiteError, UserError
from tests.apps.gre.paper_listing import LeftOut, looked_up
from tests.support.servers.openreview_server import TOKEN, OpenReviewServer, Submitted, rate_limit

pytestmark = pytest.mark.slow

VENUE = "Loopback.cc/2023/Conference"


def review(text: str, **more: Any) -> dict[str, Any]:
    return {"strength_and_weaknesses": text, "summary_of_the_paper": "Plants.", "recommendation": "6: fine", **more}


THREE = [review("Strong one."), review("Strong two."), review("Strong three.")]


@pytest.fixture(autouse=True)
def _guest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openreview, "FIRST_WAIT_SECONDS", 0.01)
    for name in [name for name in os.environ if name.startswith("OPENREVIEW_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[OpenReviewServer]:
    with OpenReviewServer() as running:
        yield running


@pytest.fixture
def open_venue(server: OpenReviewServer, tmp_path: Path) -> Callable[..., OpenReviewVenue]:
    """Opens a venue of the server as another run of the program would: only the cache is the same."""

    def make(venue: str = VENUE, **options: Any) -> OpenReviewVenue:
        settings = {"cache": tmp_path / "cache", "seconds_between_requests": 0.0, **options}
        return OpenReviewVenue(venue, api1=server.api1, api2=server.api2, **settings)

    return make


def collect(source: PaperSource, reviews: int = 3) -> dict[str, Paper | LeftOut]:
    return {name: looked_up(source, name, reviews) for name in source.papers()}


# --- both APIs -----------------------------------------------------------------------------------------------------


def test_both_apis_give_the_same_papers(server, open_venue):
    submissions = [Submitted("b", THREE, more={"odate": 1_664_582_400_000}), Submitted("a", THREE)]
    server.add("Loopback.cc/2023/Conference", submissions, api=1)
    server.add("Loopback.cc/2024/Conference", submissions, api=2)
    first, second = collect(open_venue()), collect(open_venue("Loopback.cc/2024/Conference"))
    assert first == second
    paper = first["b"]
    assert isinstance(paper, Paper)
    assert (paper.columns["title"], paper.columns["synopsis_abstract"]) == (
        "On b",
        "Plants grow in the dark, talked to or not.",
    )
    assert "Forty pots stood in a dark room for three weeks." in paper.text
    assert [one.review for one in paper.reviews] == ["b-r1", "b-r2", "b-r3"]
    assert paper.reviews[1].text == "Summary Of The Paper:\n\nPlants.\n\nStrength And Weaknesses:\n\nStrong two."
    assert paper.reviews[1].extra == {"recommendation": "6: fine", "reviewer": "Reviewer_2"}
    assert paper.columns["address"] == "https://openreview.net/forum?id=b"


@pytest.mark.parametrize("listing", ["Blind_Submission", "Submission", "submission"])
def test_an_api_v1_venue_is_double_blind_single_blind_or_old(server, open_venue, listing):
    server.add(VENUE, [Submitted("a", THREE)], api=1, listing=listing)
    assert isinstance(collect(open_venue())["a"], Paper)


def test_reviews_of_the_first_years_of_api_v1_are_found_under_their_old_invitations(server, open_venue):
    # ICLR 2018 to 2019: VENUE/-/Paper1/Official_Review; ICLR 2017: VENUE/-/paper1/official/review.
    server.add(VENUE, [Submitted("a", THREE)], api=1)
    olds = [f"{VENUE}/-/Paper1/Official_Review", f"{VENUE}/-/paper1/official/review"]
    for note, old in zip([one for one in server.notes["v1"] if "-r" in one["id"]], olds, strict=False):
        note["invitation"] = old
    assert len(collect(open_venue())["a"].reviews) == 3


@pytest.mark.parametrize("api", [1, 2])
def test_all_pages_of_a_long_list_are_read(server, open_venue, api):
    server.most_a_page = 2
    server.add(VENUE, [Submitted(f"p{n}", THREE) for n in range(5)], api=api)
    venue = open_venue()
    assert venue.papers() == ["p0", "p1", "p2", "p3", "p4"]
    paper = venue.paper("p3", reviews=3)
    assert isinstance(paper, Paper)  # its five notes came in pages, too
    assert len(paper.reviews) == 3


def test_the_public_day_is_the_earlier_of_online_and_published_else_the_day_of_creation(server, open_venue):
    # Days by `date -u -d @SECONDS`: 1664582400 is 2022-10-01, 1674777600 is 2023-01-27, 1660000000 is 2022-08-08.
    days = {"odate": 1_674_777_600_000, "pdate": 1_664_582_400_000}
    late = {"tcdate": 1_664_582_399_999}  # one millisecond before that October
    server.add(
        VENUE, [Submitted("a", THREE, more=days), Submitted("b", THREE), Submitted("c", THREE, more=late)], api=2
    )
    dates = {name: paper.columns["public_date"] for name, paper in collect(open_venue()).items()}
    assert dates == {"a": "2022-10-01", "b": "2022-08-08", "c": "2022-09-30"}


# --- what is left out ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [1, 2])
def test_papers_that_cannot_be_used_are_left_out_by_reason(server, open_venue, api):
    server.add(
        VENUE,
        [
            Submitted("usable", THREE),
            Submitted("withdrawn", THREE, outcome="Withdrawn_Submission"),
            Submitted("desk", outcome="Desk_Rejected_Submission"),
            Submitted("deleted", THREE, more={"ddate": 1_664_582_400_000}),
            Submitted("few", THREE[:2]),
            Submitted(
                "empty", [*THREE[:2], review("", summary_of_the_paper=" "), review("-", summary_of_the_paper="")]
            ),
            Submitted("abstract", THREE, abstract=" "),
            Submitted("field", THREE, pdf_field=None),
            Submitted("elsewhere", THREE, pdf_field="https://arxiv.org/pdf/1"),
            Submitted("file", THREE, pdf=None),
            Submitted("broken", THREE, pdf=b"%PDF-1.4 and no more"),
        ],
        api=api,
    )
    found = collect(open_venue())
    left = {name: one.reason for name, one in found.items() if isinstance(one, LeftOut)}
    alike = {"withdrawn": "withdrawn deleted", "few_reviews": "few empty", "no_paper": "field elsewhere file"}
    alike |= {"desk_rejected": "desk", "no_abstract": "abstract", "cut_pdf": "broken"}
    assert left == {name: reason for reason, names in alike.items() for name in names.split()}
    assert found["empty"].detail == "2 with text, 3 needed; 2 empty"
    assert found["few"].detail == "2 with text, 3 needed"
    assert isinstance(found["usable"], Paper)


def test_a_withdrawal_that_was_undone_on_api_v2_leaves_the_paper_in(server, open_venue):
    server.add(VENUE, [Submitted("a", THREE, outcome="Withdrawn_Submission")], api=2)
    server.notes["v2"][0]["content"]["venueid"] = {"value": VENUE}
    assert isinstance(collect(open_venue())["a"], Paper)


# --- nothing twice -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [1, 2])
def test_a_second_run_asks_for_nothing_and_finds_the_same(server, open_venue, api):
    server.add(VENUE, [Submitted("a", THREE), Submitted("b", THREE, pdf=None)], api=api)
    first = collect(open_venue())
    assert max(Counter(server.asked).values()) == 1
    before = len(server.asked)
    assert collect(open_venue()) == first
    assert len(server.asked) == before


@pytest.mark.parametrize("api", [1, 2])
def test_only_a_paper_with_too_few_reviews_is_asked_about_again(server, open_venue, api):
    server.most_a_page = 2
    server.add(VENUE, [Submitted("early", THREE), Submitted("usable", THREE)], api=api)
    public = [*server.notes[f"v{api}"]]
    server.notes[f"v{api}"] = [note for note in public if note["id"] not in {"early-r1", "early-r2"}]
    first = collect(open_venue())
    assert (first["early"].reason, isinstance(first["usable"], Paper)) == ("few_reviews", True)
    before = len(server.asked)
    server.notes[f"v{api}"] = public
    later = collect(open_venue())
    assert len(later["early"].reviews) == 3
    assert later["usable"] == first["usable"]
    assert all("forum=early" in one or "pdf?id=early" in one for one in server.asked[before:])
    before = len(server.asked)
    assert collect(open_venue()) == later
    assert len(server.asked) == before


def kept(cache: Path) -> list[str]:
    """The kept replies as they are stored."""
    with closing(sqlite3.connect(cache / "replies.sqlite")) as database:
        return [value for (value,) in database.execute("SELECT value FROM responses")]


PAGES = [("text/html", b"\n<!DOCTYPE html><html>Just a moment...</html>"), ("application/json", b'{"error": "later"}')]


@pytest.mark.parametrize("place", ["/notes", "/pdf"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_a_proxy_is_no_answer_and_says_nothing_of_the_papers(server, open_venue, tmp_path, place, page):
    server.add(VENUE, [Submitted(name, THREE) for name in "abc"], api=2)
    server.faults = [(place, (200, {"Content-Type": page[0]}, page[1]))] * ATTEMPTS
    with pytest.raises(UnansweredError, match="not a reply of OpenReview's API v2; a proxy may have answered"):
        collect(open_venue())
    assert not any(f"/v2{place}" in reply for reply in kept(tmp_path / "cache"))
    assert all(isinstance(paper, Paper) for paper in collect(open_venue()).values())


# --- politeness ----------------------------------------------------------------------------------------------------


def test_a_server_that_says_how_long_to_wait_is_waited_for(server, open_venue):
    server.add(VENUE, [Submitted("a", THREE)], api=2)
    server.faults = [("/pdf", (429, {"Retry-After": "0.5"}, b'{"name": "RateLimitError"}'))]
    said: list[str] = []
    assert isinstance(collect(open_venue(say=said.append))["a"], Paper)
    pdfs = [when for one, when in zip(server.asked, server.times, strict=True) if "/pdf" in one]
    assert len(pdfs) == 2
    assert pdfs[1] - pdfs[0] >= 0.5  # no earlier than it was told; how much later does not matter
    assert "status 429, retry after 0.5 seconds; waiting before attempt 2 of 6" in said


@pytest.mark.parametrize("fault", [(503, {}, b"busy"), (502, {}, b""), "cut", "hang"])
def test_a_busy_server_or_a_lost_connection_is_tried_again(server, open_venue, fault, monkeypatch):
    server.add(VENUE, [Submitted("a", THREE)], api=1)
    server.faults = [("/pdf", fault)]
    monkeypatch.setattr(openreview, "TIMEOUT_SECONDS", 3.0)
    assert isinstance(collect(open_venue())["a"], Paper)
    assert len([one for one in server.asked if "/pdf" in one]) == 2


def test_attempts_end_with_a_word_that_another_run_goes_on_and_it_does(server, open_venue, capfd):
    server.add(VENUE, [Submitted("a", THREE)], api=2)
    server.faults = [("/pdf", (503, {}, b""))] * ATTEMPTS
    with pytest.raises(UnansweredError, match=r"/v2/pdf did not reply after 6 attempts: status 503.*to resume"):
        collect(open_venue())
    assert capfd.readouterr() == ("", "")
    before = len(server.asked)
    assert isinstance(collect(open_venue())["a"], Paper)
    assert len(server.asked) == before + 1


def test_a_time_too_far_away_ends_at_once_with_when_to_come_back(server, open_venue):
    server.add(VENUE, [Submitted("a", THREE)], api=2)
    soonest = datetime.now(UTC) + timedelta(seconds=3612)
    server.faults = [("/pdf", rate_limit(3613))]
    with pytest.raises(UnansweredError, match=r"after 1 attempt: status 429, .*surpassing the limit of 36") as caught:
        collect(open_venue())
    written = re.search(r"[Rr]un the same command again after ([\d-]+ [\d:]+) UTC", str(caught.value))
    back = datetime.fromisoformat(f"{written[1]}+00:00")
    assert soonest - timedelta(seconds=1) <= back <= datetime.now(UTC) + timedelta(seconds=3614)
    assert isinstance(collect(open_venue())["a"], Paper)


# --- who asks ------------------------------------------------------------------------------------------------------


def test_an_account_logs_in_once_and_leaves_neither_token_nor_password_in_the_cache(
    server, open_venue, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENREVIEW_USERNAME", "ann@example.org")
    monkeypatch.setenv("OPENREVIEW_PASSWORD", "not-to-be-kept")
    server.add(VENUE, [Submitted("a", THREE)], api=2)
    collect(open_venue())
    assert [one for one in server.asked if one.startswith("POST")] == ["POST /v2/login"]
    assert {one.get("Authorization") for one in server.headers[1:]} == {f"Bearer {TOKEN}"}
    assert len(kept(tmp_path / "cache")) == 4  # group, list, replies, PDF
    files = [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not any(secret in body for body in files for secret in (TOKEN.encode(), b"not-to-be-kept", b"ann@example"))
    before = len(server.asked)
    collect(open_venue())
    assert server.asked[before:] == ["POST /v2/login"]


def test_half_an_account_and_a_rejected_one_are_clear_errors_without_the_password(server, open_venue, monkeypatch):
    monkeypatch.setenv("OPENREVIEW_PASSWORD", "secret-word")
    with pytest.raises(UserError, match="OPENREVIEW_PASSWORD is set, but OPENREVIEW_USERNAME is not"):
        open_venue().papers()
    monkeypatch.setenv("OPENREVIEW_USERNAME", "ann@example.org")
    server.faults = [("/login", (400, {}, b'{"name": "Error", "message": "Invalid: secret-word"}'))]
    with pytest.raises(UserError, match="rejected the account") as caught:
        open_venue().papers()
    assert "secret-word" not in str(caught.value)


def test_a_demand_to_prove_that_no_robot_asks_ends_with_what_to_do(server, open_venue):
    # OpenReview answers guests so at times, for notes as for PDFs; it says nothing about the paper.
    server.add(VENUE, [Submitted("a", THREE)], api=2)
    demand = (403, {"Content-Type": "application/json"}, b'{"name": "ChallengeRequiredError", "message": "verify"}')
    for place in ("/notes", "/pdf"):
        server.faults = [(place, demand)]
        with pytest.raises(UserError, match=r"ChallengeRequiredError.*Set OPENREVIEW_USERNAME and OPENREVIEW_"):
            collect(open_venue())


# --- bad input -----------------------------------------------------------------------------------------------------


def test_an_unknown_venue_is_looked_for_on_both_apis(server, open_venue):
    with pytest.raises(
        UserError, match=r"has no public venue 'ICLR\.cc/2032/Conference'.*API v2.*API v1.*case-sensitive"
    ):
        open_venue("ICLR.cc/2032/Conference").papers()
    assert [one.partition("?")[0] for one in server.asked] == ["GET /v2/groups", "GET /v1/groups"]


@pytest.mark.parametrize("api", [1, 2])
def test_a_venue_without_public_papers_says_so_and_is_asked_again_next_time(server, open_venue, api):
    server.add(VENUE, [], api=api)
    with pytest.raises(UserError, match="shows no submissions"):
        open_venue().papers()
    server.add(VENUE, [Submitted("a", THREE)], api=api)
    assert open_venue().papers() == ["a"]


@pytest.mark.parametrize(
    ("venue", "said"),
    [
        ("https://openreview.net/group?id=ICLR.cc/2023/Conference", "Try 'ICLR.cc/2023/Conference'"),
        ("", "--venue must be a name"),
        ("ICLR 2023", "--venue must be a name"),
        ("/ICLR.cc/2023/", "--venue must be a name"),
    ],
)
def test_what_is_no_name_of_a_venue_is_refused_before_anything_is_asked(server, open_venue, venue, said):
    with pytest.raises(UserError, match=said):
        open_venue(venue)
    assert server.asked == []


@pytest.mark.parametrize("package", ["requests_cache", "requests"])
def test_without_a_package_of_the_extra_the_install_command_is_given(tmp_path, monkeypatch, package):
    monkeypatch.delitem(sys.modules, "goldless.apps.gre.openreview")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'goldless\[gre\]'"):
        collect_edition(open_or_begin(tmp_path / "e"), {"venue": VENUE})


# --- what must not leak or be lost -----------------------------------------------------------------------------------


@pytest.fixture
def _account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREVIEW_USERNAME", "ann@example.org")
    monkeypatch.setenv("OPENREVIEW_PASSWORD", "not-to-be-kept")


def written(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("_account")
@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_to_another_host_takes_no_token_along_and_none_is_kept(server, open_venue, tmp_path, status):
    server.add(VENUE, [Submitted("a", THREE)], api=2)
    with OpenReviewServer() as elsewhere:
        elsewhere.add(VENUE, [Submitted("a", THREE)], api=2)
        for place in ("/groups", "/notes", "/pdf"):
            server.faults.append((place, (status, {"Location": f"{elsewhere.api2}{place}?id={VENUE}&forum=a"}, b"")))
        elsewhere.pdfs[VENUE] = elsewhere.pdfs["a"]
        first = collect(open_venue())
        assert isinstance(first["a"], Paper)
        before = len(server.asked)
        assert collect(open_venue()) == first
        assert server.asked[before:] == ["POST /v2/login"]
        assert len(elsewhere.asked) == 3
        assert not any("Authorization" in headers for headers in elsewhere.headers)
    assert server.headers[before - 1]["Authorization"] == f"Bearer {TOKEN}"
    assert TOKEN.encode() not in written(tmp_path)


@pytest.mark.usefixtures("_account")
def test_a_login_that_is_redirected_gives_the_password_to_nobody_else(server, open_venue):
    with OpenReviewServer() as elsewhere:
        server.faults = [("/login", (307, {"Location": f"{elsewhere.api2}/login"}, b""))]
        with pytest.raises(UserError, match=r"rejected the account .* status 307"):
            open_venue().papers()
        assert elsewhere.asked == []


@pytest.mark.usefixtures("_account")
def test_addresses_in_answers_are_not_followed(server, open_venue):
    with OpenReviewServer() as elsewhere:
        there = f"{elsewhere.api2}/pdf?id=a"
        fields = {"a": there, "b": there.removeprefix("http:"), "c": f"/../../{there}"}
        server.add(VENUE, [Submitted(name, THREE, pdf_field=field) for name, field in fields.items()], api=2)
        found = collect(open_venue())
        assert (found["a"].reason, elsewhere.asked) == ("no_paper", [])
    assert {one for one in server.asked if "/pdf" in one} == {"GET /v2/pdf?id=b", "GET /v2/pdf?id=c"}


@pytest.mark.usefixtures("_account")
@pytest.mark.parametrize("status", [400, 403, 503])
@pytest.mark.parametrize("body", [{"message": f"You sent {TOKEN}"}, {"message": "x" * 290 + TOKEN}, {"name": TOKEN}])
def test_a_server_that_repeats_the_token_does_not_get_it_shown(server, open_venue, caplog, status, body):
    server.add(VENUE, [Submitted("a", THREE)], api=2)
    server.faults = [("/notes", (status, {}, json.dumps(body).encode()))] * ATTEMPTS
    said: list[str] = []
    with caplog.at_level("DEBUG"), pytest.raises(UserError) as caught:
        collect(open_venue(say=said.append))
    shown = "".join([str(caught.value), repr(caught.value.__cause__), *said, caplog.text])
    assert str(status) in shown
    assert TOKEN[:9] not in shown
    assert "not-to-be-kept" not in shown


def test_requests_keep_their_distance_also_after_a_lost_connection(server, open_venue):
    server.add(VENUE, [Submitted("a", THREE)], api=2)
    server.faults = [("/pdf", "cut"), ("/pdf", (503, {}, b""))]
    collect(open_venue(seconds_between_requests=0.2))
    assert len(server.times) == 6  # group, list, replies, and the PDF three times
    # from when the server took one to when it took the next, less what the first took on its way
    assert all(later - earlier >= 0.18 for earlier, later in itertools.pairwise(server.times))


COLLECTOR = """
import sys
from pathlib import Path
from goldless.apps.gre.openreview import OpenReviewVenue
venue, api1, api2, cache = sys.argv[1:]
source = OpenReviewVenue(venue, cache=Path(cache), api1=api1, api2=api2, seconds_between_requests=0.0)
for name in source.papers():
    source.paper(name, reviews=3)
"""


@pytest.mark.parametrize("stopped_at", ["after=p1", "/pdf?id=p2"])
def test_after_kill_9_only_what_was_not_answered_is_asked_again(server, open_venue, tmp_path, stopped_at):
    server.most_a_page = 2
    server.add(VENUE, [Submitted(f"p{n}", THREE) for n in range(4)], api=2)
    command = [sys.executable, "-c", COLLECTOR, VENUE, server.api1, server.api2, str(tmp_path / "cache")]
    server.holds = lambda target: stopped_at in target
    with subprocess.Popen(command) as collecting:
        assert server.held.wait(60)
        collecting.send_signal(signal.SIGKILL)
    assert collecting.returncode == -signal.SIGKILL
    server.holds = lambda _: False
    before = list(server.asked)
    assert all(isinstance(paper, Paper) for paper in collect(open_venue()).values())
    assert set(before) & set(server.asked[len(before) :]) == {before[-1]}
    assert stopped_at in before[-1]
    assert max(Counter(before).values()) == 1


def test_a_damaged_file_of_replies_ends_in_a_sentence(server, open_venue, tmp_path):
    server.add(VENUE, [Submitted("a", THREE)], api=2)
    collect(open_venue())
    file = tmp_path / "cache" / "replies.sqlite"
    file.write_bytes(file.read_bytes()[:4096] + b"no page " * 4096)  # its head is left, so that it opens
    with pytest.raises(UserError, match=r"replies.sqlite: cannot store replies .* delete the file if it is damaged"):
        collect(open_venue())


def test_no_name_of_a_paper_leads_out_of_the_folder(server, tmp_path):
    server.add(VENUE, [Submitted("../../x", THREE), Submitted("/tmp/y", THREE), Submitted("a\0b", THREE)], api=2)
    server.notes["v2"].append({**server.notes["v2"][0], "id": None})
    edition = open_or_begin(tmp_path / "below" / "edition")
    asked = {"venue": VENUE}
    made = collect_edition(edition, asked, seconds_between_requests=0, api1=server.api1, api2=server.api2)
    assert made.study().task("../../x").extra["address"] == "https://openreview.net/forum?id=..%2F..%2Fx"
    assert [path.name for path in tmp_path.iterdir()] == ["below"]
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["edition"]
    assert {path.name for path in made.folder.rglob("*") if path.is_dir()} == {"collected", "study"}
