"""A real HTTP server on this machine that speaks the parts of OpenReview's two APIs we use, and misbehaves on request.

``with OpenReviewServer() as server``: ``server.add(venue, submissions, api=1)`` puts a venue on one of them. API v1
lies at ``server.api1`` and v2 at ``server.api2``; what was asked stands in ``server.asked``.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from tests.support.servers.loopback import Json, LoopbackServer

Fault = Literal["hang", "cut"] | tuple[int, dict[str, str], bytes]
"""What happens to one request instead of an answer; a tuple is status, headers and body."""
TOKEN = "token-of-the-loopback-account"


def paper_pdf(*lines: str) -> bytes:
    """A PDF of one page with these lines in Helvetica, written by hand after the PDF reference, section 3.4."""
    shown = " ".join(f"({line}) Tj T*" for line in lines)
    stream = f"BT /F1 11 Tf 14 TL 72 720 Td {shown} ET".encode("ascii")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return out + b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start


def rate_limit(seconds: float) -> Fault:
    """What OpenReview answers to one who asked too often, who may ask again in so many seconds: a body, no header."""
    reset = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
    minutes, rest = divmod(round(seconds), 60)
    said = (
        "Too many requests: You have made 37 requests, surpassing the limit of 36 requests. "
        f"Please try again in {minutes} minutes and {rest} seconds (2026-08-31-4689127)"
    )
    details = {"limit": 36, "remaining": 0, "resetTime": reset.replace("+00:00", "Z"), "used": 37, "current": 37}
    body = {"name": "RateLimitError", "message": said, "status": 429, "details": details}
    return 429, {"Content-Type": "application/json; charset=utf-8"}, json.dumps(body).encode()


PDF = paper_pdf(
    "We study how plants grow when nobody looks at them.",
    "Forty pots stood in a dark room for three weeks.",
    "Those that were talked to grew as tall as the others.",
)


@dataclass
class Submitted:
    """A submission as a venue has it, whichever API it is on."""

    id: str
    reviews: Sequence[Mapping[str, Any]] = ()
    """Content of each review, unwrapped."""
    outcome: Literal["", "Withdrawn_Submission", "Desk_Rejected_Submission"] = ""
    abstract: str = "Plants grow in the dark, talked to or not."
    pdf: bytes | None = PDF
    pdf_field: str | None = "/pdf/0123.pdf"
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the note itself, such as its dates."""


class OpenReviewServer(LoopbackServer):
    """The server in a thread of its own; a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, dict[str, Json]] = {"v1": {}, "v2": {}}
        self.notes: dict[str, list[Json]] = {"v1": [], "v2": []}
        self.pdfs: dict[str, bytes] = {}
        self.asked: list[str] = []
        """Method, path and query of every request, in the order they came."""
        self.times: list[float] = []
        self.headers: list[Mapping[str, str]] = []
        self.faults: list[tuple[str, Fault]] = []
        """Each is taken once, by the next request whose path and query hold the text."""
        self.holds: Callable[[str], bool] = lambda _: False
        """Which requests are held open until ``release`` is set."""
        self.held = threading.Event()
        self.release = threading.Event()
        self.most_a_page = 1000

    @property
    def api1(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def api2(self) -> str:
        return f"http://127.0.0.1:{self.port}/v2"

    def __exit__(self, *error: object) -> None:
        self.release.set()
        super().__exit__(*error)

    # --- what venues have --------------------------------------------------------------------------------------

    def add(self, venue: str, submissions: Sequence[Submitted], *, api: Literal[1, 2], listing: str = "") -> None:
        """A venue with its submissions, laid out as this API lays them out."""
        if api == 2:
            names = {"submission_name": listing or "Submission", "review_name": "Official_Review"}
            content = {name: {"value": value} for name, value in names.items()}
            self.groups["v2"][venue] = {"id": venue, "domain": venue, "content": content}
        else:
            # Both APIs know the groups of all venues; those of API v1 have neither domain nor content.
            self.groups["v1"][venue] = self.groups["v2"][venue] = {"id": venue}
        for number, one in enumerate(submissions, 1):
            notes = _first_notes if api == 1 else _second_notes
            self.notes[f"v{api}"] += notes(venue, one, number, listing)
            if one.pdf is not None:
                self.pdfs[one.id] = one.pdf

    # --- requests ----------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.asked.append(f"{request.method} {request.raw_path}")
        self.times.append(time.monotonic())
        self.headers.append(dict(request.headers))
        fault = self.fault(request.raw_path)
        if fault == "hang" or self.holds(request.raw_path):
            self.held.set()
            await asyncio.to_thread(self.release.wait, 60)
        if isinstance(fault, tuple):
            status, headers, body = fault
        else:
            status, headers, body = self.answer(request.method, request.raw_path)
        if fault != "cut":
            return web.Response(status=status, headers=headers, body=body)
        response = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(body))})
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        if request.transport is not None:
            request.transport.abort()
        return response

    def answer(self, method: str, target: str) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(target)
        api, kind = parts.path.strip("/").split("/")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if (method, kind) == ("POST", "login"):
            return _json({"token": TOKEN, "user": {"profile": {"id": "~Loop_Back1"}}})
        if kind == "groups":
            group = self.groups[api].get(query["id"])
            return (
                _json({"groups": [group]}) if group else _error(404, "NotFoundError", f"Group Not Found: {query['id']}")
            )
        if kind == "notes":
            return _json(self._notes(api, query))
        if kind == "pdf" and query["id"] in self.pdfs:
            return 200, {"Content-Type": "application/pdf"}, self.pdfs[query["id"]]
        return _error(404, "NotFoundError", "not found")

    def _notes(self, api: str, query: Mapping[str, str]) -> Json:
        found = [note for note in self.notes[api] if _matches(note, query)]
        count = len(found)
        if query.get("sort") == "id":
            found.sort(key=lambda note: str(note["id"]))
        if "after" in query:
            found = [note for note in found if str(note["id"]) > query["after"]]
        start = int(query.get("offset", 0))
        return {"notes": found[start : start + min(int(query.get("limit", 1000)), self.most_a_page)], "count": count}

    def fault(self, target: str) -> Fault | None:
        for place, (text, fault) in enumerate(self.faults):
            if text in target:
                del self.faults[place]
                return fault
        return None


def _first_notes(venue: str, one: Submitted, number: int, listing: str) -> list[Json]:
    """Submission and reviews as API v1 has them: one invitation a note, content as it is."""
    content: Json = {"title": f"On {one.id}", "abstract": one.abstract, "venue": "Loopback 2023"}
    content |= {"pdf": one.pdf_field} if one.pdf_field else {}
    invitation = f"{venue}/-/{one.outcome or listing or 'Blind_Submission'}"
    notes = [_note(one.id, one.id, number, content) | {"invitation": invitation, **one.more}]
    for place, review in enumerate(one.reviews, 1):
        signature = f"{venue}/Paper{number}/Reviewer_{place}"
        reply = _note(f"{one.id}-r{place}", one.id, place, dict(review), replyto=one.id, signature=signature)
        notes.append(reply | {"invitation": f"{venue}/Paper{number}/-/Official_Review"})
    comment = _note(f"{one.id}-c", one.id, 1, {"comment": "We thank all reviewers for their kind words."})
    return [*notes, comment | {"invitation": f"{venue}/Paper{number}/-/Official_Comment"}]


def _second_notes(venue: str, one: Submitted, number: int, listing: str) -> list[Json]:
    """Submission and reviews as API v2 has them: several invitations a note, content wrapped."""
    listing = listing or "Submission"
    content: Json = {"title": f"On {one.id}", "abstract": one.abstract, "venue": "Loopback 2023"}
    content |= {"pdf": one.pdf_field} if one.pdf_field else {}
    content |= {"venueid": f"{venue}/{one.outcome}" if one.outcome else venue}
    left = [f"{venue}/-/{one.outcome}"] if one.outcome else []
    invitations = [f"{venue}/-/{listing}", f"{venue}/-/Post_{listing}", *left]
    notes = [_note(one.id, one.id, number, _wrapped(content)) | {"invitations": invitations, **one.more}]
    for place, review in enumerate(one.reviews, 1):
        signature = f"{venue}/{listing}{number}/Reviewer_{place}"
        reply = _note(f"{one.id}-r{place}", one.id, place, _wrapped(review), replyto=one.id, signature=signature)
        notes.append(reply | {"invitations": [f"{venue}/{listing}{number}/-/Official_Review", f"{venue}/-/Edit"]})
    rebuttal = _note(f"{one.id}-c", one.id, 1, _wrapped({"rebuttal": "We thank the reviewer for the kind words."}))
    return [*notes, rebuttal | {"invitations": [f"{venue}/{listing}{number}/Official_Review1/-/Rebuttal"]}]


def _note(name: str, forum: str, number: int, content: Json, *, replyto: str = "", signature: str = "") -> Json:
    return {
        "id": name,
        "forum": forum,
        "replyto": replyto or None,
        "number": number,
        "signatures": [signature] if signature else [],
        "readers": ["everyone"],
        "writers": [],
        "tcdate": 1_660_000_000_000 + number,
        "cdate": 1_660_000_000_000 + number,
        "content": content,
    }


def _wrapped(content: Mapping[str, Any]) -> Json:
    return {name: {"value": value} for name, value in content.items()}


def _matches(note: Json, query: Mapping[str, str]) -> bool:
    invitations = [note["invitation"]] if "invitation" in note else note["invitations"]
    return query.get("invitation", invitations[0]) in invitations and query.get("forum", note["forum"]) == note["forum"]


def _json(data: Json) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json; charset=utf-8"}, json.dumps(data).encode()


def _error(status: int, name: str, message: str) -> tuple[int, dict[str, str], bytes]:
    return status, _json({})[1], json.dumps({"name": name, "message": message, "status": status}).encode()
