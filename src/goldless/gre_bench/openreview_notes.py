"""Notes of OpenReview in one form, whichever of its two APIs they come from.

Submissions, reviews and comments are all notes. API v1 gives a note one invitation and plain content; API v2 gives it
several invitations and wraps each field of its content as ``{"value": …}``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Api = Literal[1, 2]
"""Which of the two APIs."""

_OUTCOMES: tuple[tuple[Literal["withdrawn", "desk_rejected"], re.Pattern[str]], ...] = (
    ("withdrawn", re.compile(r"withdrawn", re.IGNORECASE)),
    ("desk_rejected", re.compile(r"desk[ _-]?reject", re.IGNORECASE)),
)
_FIRST_REVIEWS = ("/official_review", "/official/review")
"""How invitations to review end on API v1, through the years."""


@dataclass(frozen=True, slots=True)
class Posting:
    """A note."""

    id: str
    api: Api
    invitations: tuple[str, ...]
    """What it answers: names such as ``ICLR.cc/2024/Conference/-/Submission``."""
    content: Mapping[str, Any]
    """Fields by name, without the wrapping of API v2."""
    number: int | None = None
    signature: str = ""
    """Last part of its author's name, such as ``Reviewer_a1B2``."""
    created: int | None = None
    """When it was written, in milliseconds since 1970."""
    public_date: str | None = None
    """Day from which everybody could read it, as an ISO date in UTC."""
    deleted: bool = False

    def text(self, field: str) -> str:
        """A field of its content as text without space around it; empty where there is none."""
        value = self.content.get(field)
        return value.strip() if isinstance(value, str) else ""

    @property
    def outcome(self) -> Literal["withdrawn", "desk_rejected"] | None:
        """Whether the submission was taken back or never reviewed.

        On API v2 the name of the venue it now belongs to decides: a withdrawal that was undone leaves its invitation
        behind. On API v1 a note moves to another invitation, and its venue is often empty.
        """
        venue_id = self.text("venueid").rpartition("/")[2]
        said = [venue_id, self.text("venue")]
        if self.api == 1 or not venue_id:
            said += [invitation.rpartition("/")[2] for invitation in self.invitations]
        return next((name for name, pattern in _OUTCOMES if any(map(pattern.search, said))), None)

    def is_review(self, review_name: str) -> bool:
        """Whether it is a review by somebody the venue asked. ``review_name``: what an API v2 venue calls one."""
        if self.api == 2:
            return any(invitation.endswith(f"/-/{review_name}") for invitation in self.invitations)
        return any(invitation.lower().endswith(_FIRST_REVIEWS) for invitation in self.invitations)


def posting_of(note: Any, api: Api) -> Posting | None:
    """A note as the client gives it, in our form; none where it has no name."""
    if not isinstance(note.id, str) or not note.id:
        return None
    invitations = [note.invitation] if api == 1 else note.invitations
    content = note.content if isinstance(note.content, dict) else {}
    opened = [when for when in map(_milliseconds, (note.odate, note.pdate)) if when is not None]
    written = next((when for when in map(_milliseconds, (note.tcdate, note.cdate)) if when is not None), None)
    return Posting(
        id=note.id,
        api=api,
        invitations=tuple(_texts(invitations)),
        content=plain_content(content) if api == 2 else content,
        number=note.number if isinstance(note.number, int) else None,
        signature=next(iter(_texts(note.signatures)), "").rpartition("/")[2],
        created=written,
        public_date=_day(min(opened) if opened else written),
        deleted=_milliseconds(note.ddate) is not None,
    )


def plain_content(content: Any) -> dict[str, Any]:
    """The content of an API v2 note or group without its wrapping. Fields without a value are left out."""
    if not isinstance(content, dict):
        return {}
    return {
        name: field["value"]
        for name, field in content.items()
        if isinstance(field, dict) and field.get("value") is not None
    }


def _texts(values: Any) -> Iterable[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _milliseconds(value: Any) -> int | None:
    """A time in milliseconds since 1970; none where it is no time of this calendar."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 253_402_300_800_000:
        return None
    return int(value)


def _day(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).date().isoformat()
