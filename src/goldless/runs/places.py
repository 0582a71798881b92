"""Places where models of this machine compute instead, such as a Ray cluster. Apps add them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, Protocol

from goldless.errors import UserError
from goldless.plugins import added_by_apps


class Workers(Protocol):
    """Workers that compute the models of a run."""

    @property
    def size(self) -> int:
        """Workers that have loaded the models."""

    @property
    def at_once(self) -> int:
        """Number of requests to hand in at a time."""

    def model(self, given: Any, use: Any) -> Any:
        """A model, by its specification or as it is, that the workers compute; None: it is no model for them."""

    async def aclose(self) -> None:
        """Dismiss the workers."""


class Place(Protocol):
    """One kind of place, named by the beginning of an ``--on``."""

    forms: str
    """The ways to write it."""

    def check(self, written: str) -> None:
        """Raise UserError if this is not written as a place of this kind."""

    def workers(self, written: str, say: Callable[[str], None]) -> Workers:
        """The workers there; nothing is started yet."""


def find_place(written: str) -> Place:
    """The place that an ``--on`` names, checked. Raises UserError."""
    known = added_by_apps("goldless.places")
    name = re.split(r"[:?]", written)[0]
    if name not in known:
        forms = "; or ".join(resolve_name(one).forms for one in known.values())
        raise UserError(f"--on must be {forms or 'left out: no app adds a place'}, got {written!r}")
    found: Place = resolve_name(known[name])
    found.check(written)
    return found
