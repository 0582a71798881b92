"""Where models run: ``--on ray``, ``--on ray://HOST:PORT``, with options as in ``?workers=4&gpus=1``.

The Ray cluster is an existing one, or one on this machine; ray is imported when it is needed.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goldless.errors import PrerequisiteError, UserError, check_known

FORMS = "ray, or ray://HOST:PORT for the Ray client of a cluster, with options such as ?workers=4&gpus=1"
ITEM_SECONDS = 3600.0
"""Longest time for a work item; a compilation on first use takes minutes."""


@dataclass(frozen=True, kw_only=True)
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
        check_known([name], OPTIONS, f"--on {written}: unknown option", "Options")
        must_be, read, least = OPTIONS[name]
        try:
            found[name] = read(value)
        except ValueError:
            found[name] = math.nan
        if not least <= found[name] < math.inf:
            raise UserError(f"{name} in --on must be {must_be}, got {value!r}")
    return RayPlace(address=None if address == "ray" else address, **found)


# --- the cluster -----------------------------------------------------------------------------------------------------

INSTALL = "pip install 'goldless[ray]'"
CORES_A_WORKER = 4
"""Without a GPU. Two small workers compute more than a large one, but each holds the whole model."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # otherwise it warns of its own future
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # otherwise every worker would install everything again under uv run
}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""A cluster on this machine listens on the loopback interface only."""


@dataclass(frozen=True)
class Room:
    """The shape of a worker, and how many fit."""

    cpus: float
    gpus: float
    workers: int
    machines: int

    def __str__(self) -> str:
        parts = [f"{count:g} {kind}{'s' * (count != 1)}" for count, kind in ((self.cpus, "CPU"), (self.gpus, "GPU"))]
        return " and ".join(parts if self.gpus else parts[:1])


def connect(place: RayPlace) -> tuple[Any, bool]:
    """The ray module, connected, and whether machines may join: not where the cluster is started here.

    A connection that is there already is used as it is.
    """
    address = place.address or os.environ.get("RAY_ADDRESS")
    for name, value in (QUIET if address else QUIET | LOOPBACK).items():
        os.environ.setdefault(name, value)
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise PrerequisiteError(f"--on ray needs ray, which cannot be imported ({error}). Run: {INSTALL}") from error
    if ray.is_initialized():
        return ray, True
    # Ray prints lost workers on standard output, where results go; there is no public way to stop that
    ray._private.worker._worker_logs_enabled = False  # noqa: SLF001
    try:
        if address:
            ray.init(address=address, log_to_driver=False, logging_level="error")
        else:
            ray.init(
                address="local",
                # the cores of this machine, or as many as the workers that are asked for need
                num_cpus=max(os.cpu_count() or 1, int((place.workers or 1) * (place.cpus or 1) + 0.5)),
                include_dashboard=False,
                log_to_driver=False,
                logging_level="error",
            )
    except Exception as error:  # Ray raises errors of many kinds: versions, addresses, gRPC
        raise PrerequisiteError(_why_not(address, error)) from error
    return ray, address is not None


def _why_not(address: str | None, error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = " ".join(lines[:6]) or type(error).__name__
    if "ray[client]" in cause or "grpc" in cause.lower():
        hint = "The Ray client needs the extra 'ray[client]' and the same versions of ray and Python as the cluster"
    elif "ersion mismatch" in cause:
        hint = "Install the same versions of ray and Python here and on the cluster"
    else:
        hint = "Check the address and that ray status works here, or unset RAY_ADDRESS to use this machine alone"
    where = f"the Ray cluster at {address}" if address else "Ray on this machine"
    return f"cannot use {where}: {cause}. {hint}"


def room(nodes: Sequence[Mapping[str, Any]], place: RayPlace) -> Room:
    """The room for workers on the machines that are alive."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    gpus = place.gpus if place.gpus is not None else float(any(one.get("GPU", 0) for one in alive))
    cpus = place.cpus if place.cpus is not None else 1 if gpus else _cores_of_each(alive, place)
    fits = [
        min(int(one.get(kind, 0) // need) for kind, need in (("CPU", cpus), ("GPU", gpus)) if need)
        if cpus or gpus
        else 1
        for one in alive
    ]
    return Room(cpus, gpus, sum(fits), sum(map(bool, fits)))


def _cores_of_each(alive: Sequence[Mapping[str, float]], place: RayPlace) -> float:
    largest = max((one.get("CPU", 0) for one in alive), default=0)
    if place.workers is not None and len(alive) == 1:
        return max(1, largest // place.workers)
    return max(1, min(CORES_A_WORKER, largest))
