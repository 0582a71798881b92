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

from goldless._version import __version__
from goldless.errors import PrerequisiteError, UserError
from goldless.fleet.parts import Reply, Request, as_part, write_part
from goldless.models.catalogue import open_model
from goldless.models.interface import ChatRequest, ModelIdentity
from goldless.models.local_model import LocalModel
from goldless.models.provider import Use
from goldless.records import CallFailure


@dataclass(frozen=True, slots=True)
class ModelToLoad:
    """A model as the driver was given it."""

    given: Any
    """A specification, or the model itself."""
    use: Use


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that a worker loaded, or why it could not."""

    identity: ModelIdentity | None = None
    front: LocalModel | None = None
    """The model without its engine, so that the driver encodes requests and loads nothing. None: it is not of a kind
    that can be parted so.
    """
    error: UserError | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """What a worker reports once it has loaded its models."""

    machine: str
    process: int
    version: str
    models: tuple[Loaded, ...]
    shares_folder: bool
    """Whether it sees the driver's folder of parts."""
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """An item as a worker leaves it."""

    part: bytes = b""
    """The replies, as a Parquet file."""
    warned: tuple[str, ...] = ()
    error: UserError | None = None
    """What is wrong with the run as a whole."""
    failure: str = ""
    """What went wrong with this item."""


@dataclass(slots=True)
class Worker:
    """Runs as a Ray actor. Its methods raise nothing: an error of a model must not look like a lost worker."""

    folder: Path
    models: list[Any] = field(default_factory=list)
    loop: asyncio.Runner = field(default_factory=asyncio.Runner)
    shares_folder: bool = False

    def beat(self) -> None:
        """Answer, as a sign of life; runs in a thread of its own."""

    def load(self, models: Sequence[ModelToLoad], home: Path, mark: str) -> Ready:
        """Load the models. ``home``: where the driver runs, for relative paths. ``mark``: a file in its folder."""
        if home.is_dir():
            os.chdir(home)
        said: list[str] = []
        self.shares_folder = (self.folder / mark).exists()
        loaded = tuple(self._loaded(model, said) for model in models)
        return Ready(platform.node(), os.getpid(), __version__, loaded, self.shares_folder, tuple(said))

    def work(self, number: int, requests: Sequence[Request], name: str) -> Done:
        """The replies of a model to the requests of an item, also kept as a part of that name."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                replies = self.loop.run(_replies(self.models[number], requests))
                part = as_part(replies)
            except UserError as error:
                return Done(error=_plain(error))
            except Exception as error:  # noqa: BLE001 - whatever a model does, the worker goes on
                return Done(failure=f"{type(error).__name__}: {error}")
        if self.shares_folder:
            try:
                write_part(self.folder, name, part)
            except OSError:
                self.shares_folder = False  # a full disk costs a killed driver some work, not the run
        return Done(part, tuple(dict.fromkeys(str(one.message) for one in caught)))

    def _loaded(self, wanted: ModelToLoad, said: list[str]) -> Loaded:
        given = wanted.given
        try:
            model = open_model(given, use=wanted.use, say=said.append) if isinstance(given, str) else given
            self.loop.run(model.prepare())
        except UserError as error:
            self.models.append(None)
            return Loaded(error=_plain(error))
        except Exception as error:  # noqa: BLE001 - as above
            self.models.append(None)
            cause = f"{type(error).__name__}: {error}"
            return Loaded(error=PrerequisiteError(f"a worker on {platform.node()} cannot load {given}: {cause}"))
        self.models.append(model)
        return Loaded(model.identity, model if isinstance(model, LocalModel) else None)


async def _replies(model: Any, requests: Sequence[Request]) -> list[Reply]:
    if isinstance(requests[0], ChatRequest):
        return [await model.chat(request) for request in requests]
    found: dict[int, Reply] = {}
    await model.score(requests, found.update)
    return [found.get(place, CallFailure("bad_reply", "the model returned no reply")) for place in range(len(requests))]


def _plain(error: UserError) -> UserError:
    """The error without its cause, which may not be picklable, or may quote what is on another machine."""
    try:
        return type(error)(str(error))
    except TypeError:
        return UserError(str(error))
