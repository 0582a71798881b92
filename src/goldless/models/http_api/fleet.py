"""One model on several servers: work goes to the server that has its task, and on to another where that one fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeGuard, TypeVar, Unpack
from urllib.parse import parse_qsl, urlencode

import anyio

from goldless.errors import CallError
from goldless.models.http_api.calls import RetryPolicy
from goldless.models.http_api.fleet_addresses import FleetAddresses
from goldless.models.http_api.model import HttpModel
from goldless.models.http_api.probed_model import HttpOptions
from goldless.models.http_api.probing import Finding
from goldless.models.http_api.replicas import Replica, Replicas
from goldless.models.http_api.specs import Specification, http_identity, http_model
from goldless.models.interface import (
    CacheCounts,
    Capabilities,
    ChatReply,
    ChatRequest,
    Deliver,
    Message,
    ModelIdentity,
    ScoreReply,
    ScoreRequest,
    Usage,
    content_hash,
)
from goldless.models.placing import TASK
from goldless.models.provider import Say
from goldless.models.usage import Ledger, most_chat_usage, most_score_usage
from goldless.records import CallFailure

Reply = TypeVar("Reply")
Answered = TypeVar("Answered", ChatReply | CallFailure, ScoreReply)
ATTEMPTS_AT_ONE = 2
"""Attempts at one server before another is tried."""
MOVED = frozenset({"connection", "timeout", "server_error", "rate_limited"})
"""Failures of a server, not of the call: another server may answer."""


def model_at(spec: str, *, say: Say = lambda _: None, **options: Unpack[HttpOptions]) -> HttpModel | FleetModel:
    """The model at an address, or on all servers of several addresses: ``ADDRESS[,ADDRESS…]#MODEL``."""
    said, _, rest = spec.partition("#")
    addresses = FleetAddresses.find(said)
    if addresses is None:
        return http_model(spec, **options)
    return FleetModel(addresses, rest, say=say, **options)


def identity_at(spec: str) -> ModelIdentity:
    """The identity of a model at one or several addresses, as far as they give it; nothing is sent."""
    said, mark, rest = spec.partition("#")
    addresses = FleetAddresses.find(said)
    if addresses is None:
        return http_identity(spec)
    return _of_fleet(http_identity(f"{addresses.read()[0]}{mark}{rest}"), addresses)


def _without_waiting(model: str) -> str:
    """The model without what the fleet does for its servers."""
    name, _, options = model.partition("?")
    kept = [pair for pair in parse_qsl(options, keep_blank_values=True) if pair[0] not in {"retries", "patience"}]
    return f"{name}?{urlencode(kept)}" if kept else name


def _of_fleet(identity: ModelIdentity, addresses: FleetAddresses) -> ModelIdentity:
    """The identity of a server as that of the fleet; one that names its weights has no address in it."""
    if "://" not in identity.settings.get("server", ""):
        return identity
    return replace(identity, settings={**identity.settings, "server": addresses.said})


class FleetModel:
    """One model on several servers, each with its own limit of calls."""

    def __init__(self, addresses: FleetAddresses, model: str, *, say: Say, **options: Unpack[HttpOptions]) -> None:
        """``model``: the model's name and options. Nothing is sent yet."""
        self._addresses = addresses
        calling = Specification.read(model, passes_on=True).calling(options)
        self._policy, self._own_retries = calling.get("retry") or RetryPolicy(), calling.get("own_retries", False)
        self._limits: tuple[float | None, int | None, int | None] = (None, None, None)
        # a server that is lost is not waited for: its work moves on
        attempts = min(ATTEMPTS_AT_ONE, self._policy.attempts)
        options["retry"] = replace(self._policy, attempts=attempts, lost_connections=False, patience_seconds=0.0)
        self._purse: Ledger | None = None
        self.replicas = Replicas(addresses, partial(self._open, f"#{_without_waiting(model)}", options), say)
        self._first = self._open(f"#{_without_waiting(model)}", options, addresses.read()[0])
        """What is known before any server responds; then the first that did."""
        self._identity: ModelIdentity | None = None

    def _open(self, rest: str, options: HttpOptions, address: str) -> HttpModel:
        model = http_model(f"{address}{rest}", **options)
        model.limit_calls(*self._limits)
        if self._purse is not None:
            model.charge_to(self._purse)
        return model

    def limit_calls(self, timeout_seconds: float | None, max_retries: int | None, max_in_flight: int | None) -> None:
        """Set limits of each server before anything is sent; what the specification says has precedence."""
        retries = None if self._own_retries else max_retries
        if retries is not None:
            self._policy = replace(self._policy, attempts=retries + 1)
            retries = min(ATTEMPTS_AT_ONE - 1, retries)
        self._limits = (timeout_seconds, retries, max_in_flight)

    def charge_to(self, purse: Ledger) -> None:
        """Let the ledger pay for probes, and for attempts that fail before another one succeeds."""
        self._purse = purse

    def __repr__(self) -> str:
        """The addresses; never the key."""
        return f"FleetModel({self._addresses.said!r}, {self._first.identity.name!r})"

    @property
    def identity(self) -> ModelIdentity:
        """The identity that all servers have."""
        return self._identity or _of_fleet(self._first.identity, self._addresses)

    @property
    def capabilities(self) -> Capabilities:
        """What was found so far; the same for all servers."""
        return self._first.capabilities

    @property
    def context_length(self) -> int | None:
        """Maximum tokens of context and target together; that of the smallest server."""
        found = [replica.model.context_length for replica in self.replicas.up.values()]
        return min((length for length in found if length is not None), default=None)

    @property
    def positions(self) -> str:
        """Which positions are summed."""
        return self._first.positions

    @property
    def thinking_tokens(self) -> int:
        """Tokens that a call may be charged for beyond its ``max_tokens``."""
        return self._first.thinking_tokens

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the servers were found to do, and which are used."""
        up = (Finding(address, works=True, answer="used") for address in self.replicas.up)
        down = (Finding(address, works=False, answer=why) for address, why in self.replicas.down.items())
        return (*self._first.findings, *up, *down)

    async def prepare(self) -> None:
        """Connect to all servers. Raises a UserError if none responds, or two serve different models."""
        if self._identity is None:
            await self.replicas.open()
            await self._first.aclose()
            self._first = next(iter(self.replicas.up.values())).model
            self._identity = _of_fleet(self._first.identity, self._addresses)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.replicas.aclose()
        await self._first.aclose()

    async def cache_counts(self) -> Mapping[str, CacheCounts]:
        """How much the prefix caches of the servers that are up saved, by address."""
        found: dict[str, CacheCounts] = {}
        for replica in list(self.replicas.up.values()):
            found |= await replica.model.cache_counts()
        return found

    async def recommendations(self, noise_nats: float) -> tuple[str, ...]:
        """How the servers should be started for scoring, each sentence once."""
        found = [await replica.model.recommendations(noise_nats) for replica in self.replicas.up.values()]
        return tuple(dict.fromkeys(sentence for one in found for sentence in one))

    # --- calls -------------------------------------------------------------------------------------------------

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The reply of the task's server, or of another where that one fails."""
        most = most_chat_usage(self, request)
        reply, earlier = await self._anywhere(_key(request.messages), lambda model: model.chat(request), most)
        return _after(reply, earlier)

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request for log p(target as the assistant's turn | messages). Raises CallError."""
        return await self._called(_key(messages), lambda model: model.encode(messages, target))

    async def pieces(self, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text; None if the servers cannot turn ids into text. Raises CallError."""
        return await self._called(TASK.get(), lambda model: model.pieces(request))

    async def count_tokens(self, messages: Sequence[Message]) -> int | None:
        """Tokens of the messages; None if the servers cannot count them. Raises CallError."""
        return await self._called(_key(messages), lambda model: model.count_tokens(messages))

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """Score the requests of a task on its server; those of no task on the server of their context."""
        groups: dict[str, dict[int, ScoreRequest]] = {}
        for index, request in enumerate(requests):
            groups.setdefault(TASK.get() or content_hash(request.context), {})[index] = request
        async with anyio.create_task_group() as tasks:
            for key, group in groups.items():
                tasks.start_soon(self._score, key, group, deliver)

    async def _score(self, key: str, left: dict[int, ScoreRequest], deliver: Deliver) -> None:
        """Score requests on one server after the other until none is left."""
        earlier: dict[int, tuple[CallFailure, ...]] = dict.fromkeys(left, ())
        tried: Counter[str] = Counter()
        while left and (replica := await self._server(key, tried)) is not None:
            await self._score_at(replica, left, earlier, deliver)
            for index in [i for i, request in left.items() if not self._pay(earlier[i], most_score_usage(request))]:
                del left[index]
                deliver({index: _given_up(earlier[index])})
        if left:
            deliver({index: _given_up(earlier[index]) for index in left})

    async def _score_at(
        self,
        replica: Replica,
        left: dict[int, ScoreRequest],
        earlier: dict[int, tuple[CallFailure, ...]],
        deliver: Deliver,
    ) -> None:
        """Deliver what one server answers; what it lost stays left."""
        places = list(left)
        replica.load += len(places)
        waiting = len(places)
        suspected = False
        failed: set[int] = set()

        def take(replies: Mapping[int, ScoreReply]) -> None:
            nonlocal waiting, suspected
            waiting -= len(replies)
            replica.load -= len(replies)
            done: dict[int, ScoreReply] = {}
            for number, reply in replies.items():
                index = places[number]
                if _moves(reply):
                    failed.add(index)
                    earlier[index] += (reply,)
                    if not suspected:
                        suspected = True
                        tasks.start_soon(self.replicas.suspect, replica)
                else:
                    del left[index]
                    done[index] = _after(reply, earlier[index])
            if done:
                deliver(done)

        try:
            async with anyio.create_task_group() as tasks:
                await replica.while_up(lambda: replica.model.score([left[index] for index in places], take))
        finally:
            replica.load -= waiting
        for index in left.keys() - failed:
            earlier[index] += (replica.lost,)

    async def _called(self, key: str, ask: Callable[[HttpModel], Awaitable[Reply]]) -> Reply:
        """What one of the servers returns. Raises CallError."""

        async def attempt(model: HttpModel) -> Reply | CallFailure:
            try:
                return await ask(model)
            except CallError as error:
                return error.failure

        reply, _ = await self._anywhere(key, attempt)
        if isinstance(reply, CallFailure):
            raise CallError(reply)
        return reply

    async def _anywhere(
        self, key: str, ask: Callable[[HttpModel], Awaitable[Reply | CallFailure]], most: Usage | None = None
    ) -> tuple[Reply | CallFailure, tuple[CallFailure, ...]]:
        """What a server returns, and the failures of those before it."""
        earlier: tuple[CallFailure, ...] = ()
        tried: Counter[str] = Counter()
        while (replica := await self._server(key, tried)) is not None:
            replica.load += 1
            try:
                reply = await replica.while_up(partial(ask, replica.model))
            finally:
                replica.load -= 1
            if not _moves(reply):
                return reply, earlier
            earlier += (reply,)
            await self.replicas.suspect(replica)
            if most is not None and not self._pay(earlier, most):
                break
        return _given_up(earlier), ()

    def _pay(self, earlier: tuple[CallFailure, ...], most: Usage) -> bool:
        """Pay for an attempt that failed at one server; False: the budget does not allow another one."""
        if not earlier or earlier[-1].charged is None or self._purse is None:
            return True
        aside = self._purse.set_aside(most)
        if aside is not None:
            self._purse.book_unkept(aside, earlier[-1].charged)
        return aside is not None

    async def _server(self, key: str, tried: Counter[str]) -> Replica | None:
        """The next server to try, counted as tried; None if there were enough, or none is up for too long."""
        if tried.total() >= self._policy.attempts:
            return None
        end = anyio.current_time() + self._policy.patience_seconds
        while (replica := self.replicas.place(key, tried)) is None:
            if (left := end - anyio.current_time()) <= 0:
                return None
            await self.replicas.wait(left)
        if again := tried[replica.address]:
            await anyio.sleep(self._policy.wait_seconds(again, None))
        tried[replica.address] += 1
        return replica


def _key(messages: Sequence[Message]) -> str:
    """What decides on the server: the task, or else the messages."""
    return TASK.get() or content_hash([message.content for message in messages])


def _moves(reply: object) -> TypeGuard[CallFailure]:
    """Whether another server may answer."""
    return isinstance(reply, CallFailure) and reply.kind in MOVED


def _after(reply: Answered, earlier: tuple[CallFailure, ...]) -> Answered:
    """The reply with the failures of other servers before it."""
    if not earlier:
        return reply
    if isinstance(reply, CallFailure):
        return replace(reply, attempts=reply.attempts + sum(failure.attempts for failure in earlier))
    return replace(reply, retries=(*earlier, *reply.retries))


def _given_up(earlier: tuple[CallFailure, ...]) -> CallFailure:
    """The failure of a call that no server answered."""
    if not earlier:
        return CallFailure("connection", "no server is up", attempts=0)
    return replace(earlier[-1], attempts=sum(failure.attempts for failure in earlier))
