"""Where models run: ``--on ray``, ``--on ray://HOST:PORT``, with options as in ``?workers=4&gpus=1``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from goldless.errors import UserError, nearest

FORMS = "ray, or ray://HOST:PORT for the Ray client of a cluster, with options such as ?workers=4&gpus=1"
ITEM_SECONDS = 3600.0
"""Longest time for a work item; a compilation on first use takes minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayPlace:
    """A Ray cluster and the shape of its workers."""

    address: str | None = None
    """None: the cluster of RAY_ADDRESS, or else one that is started on this machine."""
    workers: int | None = None
    """None: as many as there is room for, more when machines join."""
    cpus: float | None = None
    """For each worker. None: 1 beside a GPU, otherwise 4, or all that a smaller machine has."""
    gpus: float | None = None
    """For each worker. None: 1 if the cluster has any, otherwise 0."""
    timeout: float = ITEM_SECONDS
    """Seconds after which a worker that has not finished its item is replaced."""


OPTIONS: Mapping[str, tuple[str, Callable[[str], float], float]] = {
    "workers": ("a whole number of at least 1", int, 1),
    "cpus": ("a number of at least 0", float, 0),
    "gpus": ("a number of at least 0", float, 0),
    "timeout": ("a number of seconds of at least 1", float, 1),
}
"""Allowed values of each option in words, its parser, and its least value."""


def parse_place(written: str) -> RayPlace:
    """The place of an ``--on``. Raises UserError for anything else."""
    address, _, options = written.partition("?")
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address != "ray" and not (address.startswith("ray://") and host and port.isdigit()):
        raise UserError(f"--on must be {FORMS}, got {written!r}")
    found: dict[str, Any] = {}
    for option in filter(None, options.split("&")):
        name, _, value = option.partition("=")
        if name not in OPTIONS:
            known = f"Options: {', '.join(OPTIONS)}"
            raise UserError(f"unknown option {name!r} in --on {written!r}{nearest(name, OPTIONS) or '.'} {known}")
        must_be, read, least = OPTIONS[name]
        try:
            found[name] = read(value)
        except ValueError:
            found[name] = math.nan
        if not least <= found[name] < math.inf:
            raise UserError(f"{name} in --on must be {must_be}, got {value!r}")
    return RayPlace(address=None if address == "ray" else address, **found)
