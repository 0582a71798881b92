"""The crew: workers hired from a Ray cluster, each with a copy of the models; lost ones are replaced, others may join.

This runs in the driver, which alone writes the journal. The requests of one call of a model are computed together by
one worker: they are cut by the caller, never by the number of workers, so what a model computes does not depend on
them. A worker has one call at a time, which is all that is lost with it or with the driver.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from goldless import __version__
from goldless.apps.fleet.cluster import FORMS, RayPlace, Room, connect, parse_place, room
from goldless.apps.fleet.worker import Done, Loaded, ModelToLoad, Ready, Reply, Request, Worker, unlike
from goldless.errors import CapabilityError, GoldlessError, ModelError, PrerequisiteError, UserError
from goldless.models.catalogue import is_local, open_model
from goldless.models.interface import ChatReply, ChatRequest, Deliver, ScoreRequest, Use, WrappedModel
from goldless.models.local_model import LocalModel
from goldless.records import CallFailure

LOAD_SECONDS = 3600.0
"""Longest time to fetch and load the models."""
ANSWER_SECONDS = 60.0
"""Longest time that an idle worker may take to answer."""
PATIENCE_SECONDS = 600.0
"""Longest time without any worker: machines may be starting, or coming back."""
OTHERS_SECONDS = 60.0
"""Least time to wait for the other workers after the first one."""
GROW_SECONDS = 10.0
"""Between two looks for machines that joined."""
LOOK_SECONDS = 5.0
"""Between two looks whether there are workers at all."""
TRIES = 3
"""A call that cost this many workers is left as failed, and a slot that lost this many while they loaded is given up.
"""
SPARE_CALLS = 4
"""Calls under way beyond two for each worker, for workers that join."""


class LostError(Exception):
    """A worker that is gone or does not answer; the message continues "the worker …"."""


class Crew:
    """The workers of a run."""

    def __init__(self, place: RayPlace, say: Callable[[str], None]) -> None:
        """Nothing is started before ``start``."""
        self.place, self._say = place, say
        self.models: list[ModelToLoad] = []
        self.loaded: Sequence[Loaded] = ()
        """The models that every worker has loaded."""
        self._slots: dict[int, asyncio.Task[None]] = {}
        """The hiring of each worker that the crew has, or is to have."""
        self._actors: dict[int, Any] = {}
        self._at_work: dict[int, Ready] = {}
        self._free: asyncio.Queue[int] = asyncio.Queue()
        """Workers that have loaded the models and have no call."""
        self._placed = False
        """True if there was ever room for a worker."""
        self._numbers = 0
        self._growing: asyncio.Task[None] | None = None
        self._broken: GoldlessError | None = None
        self._last_seen = 0.0
        self._said: set[str] = set()
        self._ray: Any = None
        self._worker: Any = None
        self._shape: Room | None = None
        self._starting, self._open = asyncio.Lock(), False

    def add(self, given: Any, use: Use) -> int:
        """Have every worker load a model; returns its number."""
        self.models.append(ModelToLoad(given, use))
        return len(self.models) - 1

    def model(self, given: Any, use: Use) -> Any:
        """A model that every worker loads; None: it is on a server."""
        return FleetModel(self, given, use) if belongs_on_fleet(given) else None

    @property
    def size(self) -> int:
        return len(self._at_work)

    @property
    def at_once(self) -> int:
        return 2 * len(self._slots) + SPARE_CALLS

    async def answer(self, model: int, requests: Sequence[Request]) -> Sequence[Reply]:
        """The replies of a model to the requests, by one worker; failed calls if no worker survives them."""
        done, losses = Done(), 0
        while losses < TRIES:
            number = await self._free_worker()
            try:
                # a worker that was lost while it had nothing to do is no call's fault
                await _result(self._actors[number].answer.remote(), ANSWER_SECONDS)
            except LostError as lost:
                self._replace(number, lost)
                continue
            call = self._actors[number].work.remote(model, requests)
            try:
                done = await _result(call, self.place.timeout)
            except LostError as lost:
                losses += 1
                self._replace(number, lost)
                failure = CallFailure("server_error", f"the worker that computed it {lost}", attempts=losses)
                done = Done([failure] * len(requests))
            except asyncio.CancelledError:
                self._slots[number] = asyncio.create_task(self._finish(number, call))
                raise
            else:
                self._free.put_nowait(number)
                break
        if done.error is not None:
            raise done.error
        for warning in done.warned:
            if warning not in self._said:
                self._said.add(warning)
                warnings.warn(warning, stacklevel=2)
        return done.replies

    async def _free_worker(self) -> int:
        while True:
            if self._broken is not None:
                raise self._broken
            if not self._at_work and time.monotonic() - self._last_seen > PATIENCE_SECONDS:
                raise ModelError(
                    f"there has been no worker for {PATIENCE_SECONDS / 60:.0f} minutes. Finished work is kept. Check "
                    "the cluster with ray status, then run the same command again"
                )
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(self._free.get(), LOOK_SECONDS)

    # --- beginning and end ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Hire workers and wait until they have loaded the models. Raises a UserError if there can be none."""
        async with self._starting:
            if self._open:
                return
            self._ray, grows = connect(self.place)
            self._shape = free = room(self._ray.nodes(), self.place)
            if not free.workers and not grows:
                raise PrerequisiteError(f"this machine has no room for a worker with {free}. Ask for less with --on")
            self._worker = self._ray.remote(num_cpus=free.cpus, num_gpus=free.gpus, max_restarts=0)(Worker)
            self._add(self.place.workers or max(1, free.workers))
            await self._first_workers(min(len(self._slots), max(1, free.workers)))
            found = list(self._at_work.values())
            self.loaded = found[0].models
            for ready in found:
                if (refusal := unlike(self.loaded, ready)) is not None:
                    raise PrerequisiteError(refusal)
            machines = len({ready.machine for ready in found})
            workers = f"{len(found)} worker{'s' * (len(found) != 1)}"
            self._say(f"fleet: {workers} on {machines} machine{'s' * (machines != 1)}, {self._shape} each")
            self._open = True
            if self.place.workers is None and grows:
                self._growing = asyncio.create_task(self._grow())

    async def aclose(self) -> None:
        """Dismiss the workers. The connection to Ray stays, for the next models of this process."""
        tasks = [*self._slots.values(), *([] if self._growing is None else [self._growing])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for number in list(self._actors):
            self._dismiss(number)
        self._slots.clear()
        self._free = asyncio.Queue()
        self._open = False

    async def _first_workers(self, expected: int) -> None:
        """Wait for a worker, then as long again for the others that there is room for."""
        self._last_seen = began = time.monotonic()
        while not self._at_work:
            await self._next_worker(GROW_SECONDS)
            if self._broken is not None:
                raise self._broken
            if not self._placed and not self._at_work:
                lacking = f"no machine of the Ray cluster has room for a worker with {self._shape}"
                self._tell(f"{lacking}; waiting for one")
                if time.monotonic() - began > PATIENCE_SECONDS:
                    raise PrerequisiteError(f"{lacking}. Add one, or ask for less, such as --on 'ray?cpus=1&gpus=0'")
        until = time.monotonic() + max(OTHERS_SECONDS, time.monotonic() - began)
        while self.size < min(expected, len(self._slots)) and time.monotonic() < until:
            await self._next_worker(until - time.monotonic())

    async def _next_worker(self, seconds: float) -> None:
        """Wait until one more worker is ready, or given up."""
        hiring = [task for task in self._slots.values() if not task.done()]
        await asyncio.wait(hiring, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    # --- workers -------------------------------------------------------------------------------------------------

    def _add(self, workers: int) -> None:
        for _ in range(workers):
            self._numbers += 1
            self._slots[self._numbers] = asyncio.create_task(self._hire(self._numbers))

    async def _grow(self) -> None:
        while True:
            await asyncio.sleep(GROW_SECONDS)
            self._add(max(0, room(self._ray.nodes(), self.place).workers - len(self._slots)))

    async def _hire(self, number: int) -> None:
        """Fill a slot with a worker that has loaded the models."""
        refusal: GoldlessError | None = None
        for _ in range(TRIES):
            actor = self._actors[number] = self._worker.remote()
            try:
                await _result(actor.answer.remote(), None)  # however long there is no room for it
                self._placed = True
                ready: Ready = await _result(actor.load.remote(self.models, Path.cwd()), LOAD_SECONDS)
                for said in ready.said:
                    self._tell(said)
                if self._open and (unfit := unlike(self.loaded, ready)) is not None:
                    raise PrerequisiteError(unfit)  # noqa: TRY301 - as any other refusal
            except LostError as lost:
                refusal = PrerequisiteError(f"a worker {lost} while it loaded the models")
                self._dismiss(number)
                continue
            except UserError as error:
                refusal = error
                break
            except Exception as error:  # noqa: BLE001 - a task that ends silently would leave the run waiting
                refusal = ModelError(f"the fleet failed: {type(error).__name__}: {error}")
                break
            self._at_work[number] = ready
            self._free.put_nowait(number)
            if self._open:
                self._say(f"fleet: a worker on {ready.machine} is ready, {self.size} now")
            return
        self._dismiss(number)
        del self._slots[number]
        if self._slots:
            self._tell(f"a worker is left out: {refusal}")
        else:  # without any other the run cannot go on
            self._broken = refusal

    async def _finish(self, number: int, call: Any) -> None:
        """Let a worker finish a call that nobody waits for any more."""
        try:
            await _result(call, self.place.timeout)
            self._free.put_nowait(number)
        except LostError as lost:
            self._replace(number, lost)

    def _replace(self, number: int, lost: LostError) -> None:
        self._say(f"a worker on {self._at_work[number].machine} {lost}; another one takes its place")
        self._dismiss(number)
        self._slots[number] = asyncio.create_task(self._hire(number))

    def _dismiss(self, number: int) -> None:
        if self._at_work.pop(number, None) is not None:
            self._last_seen = time.monotonic()
        with contextlib.suppress(Exception):  # it may be gone, and so may the cluster
            self._ray.kill(self._actors.pop(number))

    def _tell(self, message: str) -> None:
        """Say a message once, however many workers have it to say."""
        if message not in self._said:
            self._said.add(message)
            self._say(message)


async def _result(reference: Any, seconds: float | None) -> Any:
    """The result of a call of a Ray actor. Raises LostError if the worker is gone or too slow."""

    async def awaited() -> Any:
        return await reference

    try:
        return await asyncio.wait_for(awaited(), seconds)
    except TimeoutError:
        raise LostError(f"did not finish within {seconds:g} seconds") from None
    except Exception as error:
        said = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        if any("ModuleNotFoundError" in line or "failed to import" in line for line in said):
            raise PrerequisiteError(
                f"the workers cannot import what they need ({said[-1]}). Install goldless {__version__}, and what the "
                "model needs, on every machine, in the Python that runs Ray"
            ) from error
        raise LostError(f"was lost ({said[0][:200]})") from error


# --- models -----------------------------------------------------------------------------------------------------------


def belongs_on_fleet(given: Any) -> bool:
    """True if a model computes where it is opened; a server is called from here, whoever computes for it."""
    if isinstance(given, str):
        return is_local(given)
    if isinstance(given, LocalModel):
        return True
    try:
        return is_local(given.identity)
    except CapabilityError:
        return False


class FleetModel(WrappedModel):
    """A model of which every worker has a copy. Requests are encoded here; each call is one work item."""

    def __init__(self, crew: Crew, given: Any, use: Use) -> None:
        """``given``: a specification, or a model, which is sent to the workers without its engine."""
        super().__init__(open_model(given, use=use) if isinstance(given, str) else given)
        self.crew = crew
        self._number = crew.add(given, use)

    async def prepare(self) -> None:
        await self.crew.start()
        loaded = self.crew.loaded[self._number]
        if loaded.error is not None:
            raise loaded.error
        if loaded.front is None:
            await self._model.prepare()
        else:
            self._model = loaded.front

    async def aclose(self) -> None:
        """Nothing to do: the workers are dismissed with the crew."""

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        replies = await self.crew.answer(self._number, requests)
        deliver(dict(enumerate(replies)))  # type: ignore[arg-type] # scores, since scores were asked for

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        (reply,) = await self.crew.answer(self._number, [request])
        return reply  # type: ignore[return-value] # a chat was asked for


class Ray:
    """The place ``ray``."""

    forms = FORMS

    def check(self, written: str) -> None:
        parse_place(written)

    def workers(self, written: str, say: Callable[[str], None]) -> Crew:
        return Crew(parse_place(written), say)


RAY = Ray()
