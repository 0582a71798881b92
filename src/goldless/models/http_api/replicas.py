"""The servers of a fleet: which are up, whether they serve the same model, and which one a task's calls go to.

A task's server is found by rendezvous hashing: every server has a score for every task, and the highest that is up
gets it. So a task stays on one server, whose prefix cache is then warm, and when a server leaves only its own tasks
move. A server whose calls already wait passes on what exceeds 1.25 of the average load (hashing with bounded loads).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeVar

import anyio

from goldless.errors import CallError, ModelSpecError, PrerequisiteError, UserError
from goldless.models.canaries import INSTRUCTION, TEXTS
from goldless.models.http_api.fleet_addresses import FleetAddresses
from goldless.models.http_api.model import HttpModel
from goldless.models.interface import Message, ModelIdentity, ScoreReply, TokenLogprobs
from goldless.models.provider import Say
from goldless.records import CallFailure

Reply = TypeVar("Reply")

CHECK_SECONDS = 5.0
"""Between two looks at servers that are down, and at the file of addresses."""
MOST_LOAD = 1.25
NEW = "it is new"
MOST_DIFFERENCE_NATS = 0.1
"""Mean over the tokens of a test text between two servers: half precision moves a token by some hundredths."""


@dataclass(eq=False, slots=True)
class Replica:
    """One server that is up."""

    address: str
    model: HttpModel
    load: int = 0
    """Calls that were given to it and not answered yet."""
    gone: anyio.Event = field(default_factory=anyio.Event)
    """Set when it does not respond any more, or was taken off the list."""

    def score(self, key: str) -> bytes:
        """Its score for a key; the highest of all servers takes the work."""
        return blake2b(f"{key}\0{self.address}".encode(), digest_size=8).digest()

    async def while_up(self, work: Callable[[], Awaitable[Reply]]) -> Reply | CallFailure:
        """The result of the work, or a lost connection as soon as the server is known to be gone."""

        async def stop() -> None:
            await self.gone.wait()
            tasks.cancel_scope.cancel()

        if not self.gone.is_set():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop)
                done = await work()
                tasks.cancel_scope.cancel()
                return done
        return self.lost

    @property
    def lost(self) -> CallFailure:
        """The failure of a call that it had when it was gone."""
        return CallFailure("connection", f"{self.address} does not respond any more")


@dataclass(frozen=True, slots=True)
class _Known:
    """What every server must have in common, learned from the first."""

    address: str
    identity: ModelIdentity
    ids: tuple[object, ...]
    logprobs: tuple[float, ...]


class Replicas:
    """The servers of one model."""

    def __init__(self, addresses: FleetAddresses, make: Callable[[str], HttpModel], say: Say) -> None:
        """``make`` opens the model at an address; nothing is sent yet. Raises ModelSpecError for bad addresses."""
        self._addresses = addresses
        self._make = make
        self._say = say
        self._listed = addresses.read()
        self.up: dict[str, Replica] = {}
        """Servers that are used, by address."""
        self.down: dict[str, str] = {}
        """Why the other servers are not used, by address."""
        self._known: _Known | None = None
        self._joined = anyio.Event()
        self._left: list[HttpModel] = []
        """Models of servers that left; closed at the end, since a call may still be ending there."""
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect to all servers. Raises if none responds, or two that do serve different models."""
        errors: dict[str, UserError] = {}

        async def join(address: str) -> None:
            try:
                await self._join(address)
            except UserError as error:
                errors[address] = error

        others = list(self._listed)
        while others and self._known is None:
            await join(others.pop(0))
        async with anyio.create_task_group() as tasks:
            for address in others:
                tasks.start_soon(join, address)
        for error in errors.values():
            if not self.up or not isinstance(error, PrerequisiteError | CallError):
                await self.aclose()
                raise error
        for address, error in errors.items():
            self._leave(address, str(error))
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def aclose(self) -> None:
        """Close the connections."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        self._left += [replica.model for replica in self.up.values()]
        for model in self._left:
            await model.aclose()

    # --- placing -----------------------------------------------------------------------------------------------

    def place(self, key: str, tried: Counter[str]) -> Replica | None:
        """The server for a key, of those that were tried least; None if none is up."""
        if not self.up:
            return None
        least = min(tried[address] for address in self.up)
        able = [replica for address, replica in self.up.items() if tried[address] == least]
        able.sort(key=lambda replica: replica.score(key), reverse=True)
        most = MOST_LOAD * sum(replica.load for replica in self.up.values()) / len(self.up)
        free = [replica for replica in able if replica.load <= max(most, replica.model.calls_at_once - 1)]
        return (free or able)[0]

    async def wait(self, seconds: float) -> None:
        """Wait until a server joins, at most this long."""
        with anyio.move_on_after(seconds):
            await self._joined.wait()

    # --- health ------------------------------------------------------------------------------------------------

    async def suspect(self, replica: Replica) -> None:
        """Check a server that lost a connection, and leave it if it does not respond."""
        if replica.gone.is_set():
            return
        said = await replica.model.check()
        if said is not None and not replica.gone.is_set():
            self._leave(replica.address, said)

    def _leave(self, address: str, why: str) -> None:
        replica = self.up.pop(address, None)
        if replica is not None:
            replica.gone.set()
            self._left.append(replica.model)
        if self.down.get(address) != why:
            self.down[address] = why
            self._say(f"{address} is not used: {why}. The other servers take its work until it returns")

    async def _join(self, address: str) -> None:
        """Use a server from now on. Raises if it does not respond, or serves another model."""
        model = self._make(address)
        try:
            await model.prepare()
            found = await _what_it_is(address, model)
            if self._known is None:
                self._known = found
            _require_same(self._known, found)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await model.aclose()
            raise
        self.up[address] = Replica(address, model)
        if why := self.down.pop(address, None):
            self._say(f"{address} is used{' again' if why != NEW else ''}")
        self._joined.set()
        self._joined = anyio.Event()

    async def _watch(self) -> None:
        while True:
            await anyio.sleep(CHECK_SECONDS)
            self._read_again()
            async with anyio.create_task_group() as tasks:
                for address in self._listed:
                    if address not in self.up:
                        tasks.start_soon(self._try, address)

    async def _try(self, address: str) -> None:
        try:
            await self._join(address)
        except (PrerequisiteError, CallError) as error:
            self.down[address] = str(error)  # it was said when it left
        except UserError as error:
            self._leave(address, str(error))
        except Exception as error:  # noqa: BLE001 - whatever one server does, the others go on
            self._leave(address, f"{type(error).__name__} while connecting")

    def _read_again(self) -> None:
        try:
            listed = self._addresses.read()
        except ModelSpecError as error:
            if self.down.get(self._addresses.said) != str(error):
                self.down[self._addresses.said] = str(error)
                self._say(f"{error}\nThe servers read before are used")
            return
        self.down.pop(self._addresses.said, None)
        for address in set(self._listed) - set(listed):
            self._leave(address, "it was taken off the list")
        for address in set(listed) - set(self._listed):
            self.down[address] = NEW
        self._listed = listed


async def _what_it_is(address: str, model: HttpModel) -> _Known:
    """The identity of a server, and what it makes of a short text."""
    if not model.capabilities.scoring:
        return _Known(address, model.identity, (), ())
    request = await model.encode([INSTRUCTION, Message("user", TEXTS[0])], TEXTS[1])
    replies: dict[int, ScoreReply] = {}
    await model.score([request], replies.update)
    reply = replies[0]
    if not isinstance(reply, TokenLogprobs):
        raise CallError(reply)
    return _Known(address, model.identity, (request.context, request.target), reply.logprobs)


def _require_same(known: _Known, found: _Known) -> None:
    """Raise ModelSpecError if two servers do not serve the same model in the same way."""
    both = f"{known.address} and {found.address}"
    mine, other = _facts(known), _facts(found)
    different = [name for name in mine | other if mine.get(name) != other.get(name)]
    if different:
        said = "; ".join(f"{name} {mine.get(name)!r} and {other.get(name)!r}" for name in different)
        raise ModelSpecError(f"{both} serve different models: {said}. All servers must serve the same")
    if known.ids != found.ids:
        raise ModelSpecError(f"{both} turn a text into different tokens. Start them with the same tokenizer")
    gaps = [abs(a - b) for a, b in zip(known.logprobs, found.logprobs, strict=True)]
    if gaps and (mean := sum(gaps) / len(gaps)) > MOST_DIFFERENCE_NATS:
        raise ModelSpecError(
            f"{both} give different log-probabilities to the same text, by {mean:.2g} nats per token. Start them with "
            "the same weights and precision"
        )


def _facts(known: _Known) -> dict[str, str]:
    """What must be equal; the address of a server that does not name its weights is not a difference."""
    identity = known.identity
    settings = {name: value for name, value in identity.settings.items() if name != "server"}
    return {"name": identity.name, "revision": identity.revision, "tokenizer": identity.tokenizer, **settings}
