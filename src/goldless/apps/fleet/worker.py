"""A worker: a process of the cluster with its own copy of every model, which computes one item at a time."""

from __future__ import annotations

import asyncio
import os
import platform
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goldless import __version__
from goldless.errors import PrerequisiteError, UserError
from goldless.models.catalogue import open_model
from goldless.models.interface import ChatReply, ChatRequest, ModelIdentity, ScoreRequest, TokenLogprobs, Use
from goldless.models.local_model import LocalModel
from goldless.records import CallFailure

Request = ScoreRequest | ChatRequest
Reply = TokenLogprobs | ChatReply | CallFailure


@dataclass(frozen=True)
class ModelToLoad:
    """A model as the driver was given it."""

    given: Any
    """A specification, or the model itself."""
    use: Use


@dataclass(frozen=True)
class Loaded:
    """A model that a worker loaded, or why it could not."""

    identity: ModelIdentity | None = None
    front: LocalModel | None = None
    """The model without its engine, so that the driver encodes requests and loads nothing. None: it is not of a kind
    that can be parted so.
    """
    error: UserError | None = None


@dataclass(frozen=True)
class Ready:
    """The report of a worker that has loaded its models."""

    machine: str
    version: str
    models: tuple[Loaded, ...]
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Done:
    """An item as a worker leaves it."""

    replies: Sequence[Reply] = ()
    warned: tuple[str, ...] = ()
    error: UserError | None = None
    """An error of the run as a whole."""


@dataclass
class Worker:
    """Runs as a Ray actor. Its methods raise nothing: an error of a model must not look like a lost worker."""

    models: list[Any] = field(default_factory=list)
    loop: asyncio.Runner = field(default_factory=asyncio.Runner)

    def answer(self) -> None:
        """Show that it runs."""

    def load(self, models: Sequence[ModelToLoad], home: Path) -> Ready:
        """Load the models. ``home``: where the driver runs, for relative paths."""
        if home.is_dir():
            os.chdir(home)
        said: list[str] = []
        loaded = tuple(self._loaded(model, said) for model in models)
        return Ready(platform.node(), __version__, loaded, tuple(said))

    def work(self, number: int, requests: Sequence[Request]) -> Done:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                replies = self.loop.run(_replies(self.models[number], requests))
            except UserError as error:
                return Done(error=_plain(error))
        return Done(replies, tuple(dict.fromkeys(str(one.message) for one in caught)))

    def _loaded(self, wanted: ModelToLoad, said: list[str]) -> Loaded:
        given = wanted.given
        self.models.append(None)
        try:
            model = open_model(given, use=wanted.use, say=said.append) if isinstance(given, str) else given
            self.loop.run(model.prepare())
        except UserError as error:
            return Loaded(error=_plain(error))
        except Exception as error:  # noqa: BLE001 - whatever a model does, the worker goes on
            cause = f"{type(error).__name__}: {error}"
            return Loaded(error=PrerequisiteError(f"a worker on {platform.node()} cannot load {given}: {cause}"))
        self.models[-1] = model
        return Loaded(model.identity, model if isinstance(model, LocalModel) else None)


async def _replies(model: Any, requests: Sequence[Request]) -> list[Reply]:
    """All replies; a request on which the model raises is a failed call, and the others are asked one by one."""
    found: dict[int, Reply] = {}
    try:
        if isinstance(requests[0], ChatRequest):
            return [await model.chat(request) for request in requests]
        await model.score(requests, found.update)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        if len(requests) > 1:
            return [reply for request in requests for reply in await _replies(model, [request])]
        return [CallFailure("server_error", f"{type(error).__name__}: {error}")]
    return [found.get(place, CallFailure("bad_reply", "the model returned no reply")) for place in range(len(requests))]


def _plain(error: UserError) -> UserError:
    """The error without its cause, which may not be picklable, or may quote what is on another machine."""
    try:
        return type(error)(str(error))
    except TypeError:
        return UserError(str(error))


def unlike(known: Sequence[Loaded], ready: Ready) -> str | None:
    """The reason why a worker cannot work with others that loaded these models; None: it computes the same numbers."""
    if ready.version != __version__:
        return (
            f"{ready.machine} has goldless {ready.version}, and here it is {__version__}. Install the same version on "
            "all machines"
        )
    for one, other in zip(known, ready.models, strict=True):
        if one.identity == other.identity:
            continue
        if other.identity is None:
            return f"{ready.machine} cannot load a model that another worker loaded: {other.error}"
        if one.identity is None:
            return f"{ready.machine} loaded {other.identity.short}, which another worker cannot load: {one.error}"
        ours, theirs = ({**each.as_dict(), **each.settings} for each in (one.identity, other.identity))
        names = [name for name in {**ours, **theirs} if name != "settings" and ours.get(name) != theirs.get(name)]
        return (
            f"{ready.machine} computes {one.identity.short} in another way than the other machines "
            f"({', '.join(f'{name}: {ours.get(name)} and {theirs.get(name)}' for name in names)}), so its numbers "
            "would differ. Use machines of one kind, or set what differs in the model's specification"
        )
    return None
