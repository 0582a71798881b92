"""The Ray cluster: an existing one or one on this machine, and the room it has for workers. Imports ray when asked."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goldless.apps.fleet.place import RayPlace
from goldless.errors import PrerequisiteError

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


@dataclass(frozen=True, slots=True)
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
