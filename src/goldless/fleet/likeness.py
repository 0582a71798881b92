"""Whether workers are alike: the same version of goldless, and models that compute the same numbers."""

from __future__ import annotations

from collections.abc import Sequence

from goldless._version import __version__
from goldless.errors import PrerequisiteError
from goldless.fleet.worker import Loaded, Ready
from goldless.models.interface import ModelIdentity


def settled(found: Sequence[Ready]) -> Sequence[Loaded]:
    """What all workers have loaded. Raises PrerequisiteError if they differ."""
    best = min(found, key=lambda ready: sum(one.error is not None for one in ready.models))
    for other in found:
        refusal = unlike(best.models, other)
        if refusal is not None:
            raise PrerequisiteError(refusal)
    return best.models


def unlike(known: Sequence[Loaded], ready: Ready) -> str | None:
    """Why a worker cannot work with others that loaded these models; None if it can."""
    if ready.version != __version__:
        return (
            f"{ready.machine} has goldless {ready.version}, and here it is {__version__}. Install the same version on "
            "all machines"
        )
    for one, other in zip(known, ready.models, strict=True):
        if one.identity == other.identity:
            continue
        if one.identity is None or other.identity is None:
            return f"{ready.machine} cannot load a model that another worker loaded: {other.error}"
        return (
            f"{ready.machine} computes {one.identity.short} in another way than the other machines "
            f"({_differences(one.identity, other.identity)}), so its numbers would differ. Use machines of one kind, "
            "or set what differs in the model's specification"
        )
    return None


def _differences(one: ModelIdentity, other: ModelIdentity) -> str:
    ours, theirs = ({**each.as_dict(), **each.settings} for each in (one, other))
    names = [name for name in {**ours, **theirs} if name != "settings" and ours.get(name) != theirs.get(name)]
    return ", ".join(f"{name}: {ours.get(name)} and {theirs.get(name)}" for name in names)
