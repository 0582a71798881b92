"""The crew: workers hired from a Ray cluster, each with a copy of the models; lost ones are replaced, others may join.

This runs in the driver, which alone writes the journal. A work item is the requests of one call of a model, computed
together by one worker: it is cut by the caller, never by the number of workers, so what a model computes does not
depend on them. A worker has one item at a time, which is all that is lost with it or with the driver.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless._version import __version__
from goldless.errors import GoldlessError, ModelError, PrerequisiteError, UserError
from goldless.fleet.cluster import Room, connect, room
from goldless.fleet.place import Place
from goldless.fleet.worker import Done, Loaded, ModelToLoad, Ready, Reply, Request, Worker, unlike
from goldless.models.provider import Say, Use
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
"""An item that cost this many workers is left as failed, and a slot that lost this many while they loaded is given up.
"""
SPARE_ITEMS = 4
"""Items under way beyond two for each worker, for workers that join."""


class LostError(Exception):
    """A worker that is gone or does not answer; the message continues "the worker …"."""


@dataclass(slots=True)
class Item:
    """Requests that one worker computes in one call."""

    model: int
    requests: Sequence[Request]
    outcome: asyncio.Future[Done]
    losses: int = 0


class Crew:
    """The workers of a run."""

    def __init__(self, place: Place, say: Say) -> None:
        """Nothing is started before ``start``."""
        self.place, self._say = place, say
        self.models: list[ModelToLoad] = []
        self.loaded: Sequence[Loaded] = ()
        """What every worker has loaded."""
        self._at_work: dict[int, Ready] = {}
        self._placed = False
        """Whether there was ever room for a worker."""
        self._slots: dict[int, asyncio.Task[None]] = {}
        self._numbers = 0
        self._growing: asyncio.Task[None] | None = None
        self._broken: GoldlessError | None = None
        self._last_seen = 0.0
        self._said: set[str] = set()
        self._ray: Any = None
        self._hire: Any = None
        self._shape: Room | None = None
        self._starting, self._opened, self._changed = asyncio.Lock(), asyncio.Event(), asyncio.Event()
        self._waiting: asyncio.Queue[Item] = asyncio.Queue()

    def add(self, given: Any, use: Use) -> int:
        """Have every worker load a model; returns its number."""
        self.models.append(ModelToLoad(given, use))
        return len(self.models) - 1

    @property
    def size(self) -> int:
        """Workers that have loaded the models."""
        return len(self._at_work)

    @property
    def at_once(self) -> int:
        """How many items to hand in at a time."""
        return 2 * len(self._slots) + SPARE_ITEMS

    async def answer(self, model: int, requests: Sequence[Request]) -> Sequence[Reply]:
        """The replies of a model to the requests, as one item. An item that no worker survives is failed calls."""
        item = Item(model, requests, asyncio.get_running_loop().create_future())
        self._waiting.put_nowait(item)
        try:
            while not (await asyncio.wait({item.outcome}, timeout=LOOK_SECONDS))[0]:
                self._check()
        finally:
            item.outcome.cancel()
        done = item.outcome.result()
        if done.error is not None:
            raise done.error
        for warning in done.warned:
            if warning not in self._said:
                self._said.add(warning)
                warnings.warn(warning, stacklevel=2)
        return done.replies

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken
        if not self._at_work and time.monotonic() - self._last_seen > PATIENCE_SECONDS:
            raise ModelError(
                f"there has been no worker for {PATIENCE_SECONDS / 60:.0f} minutes. Finished work is kept. Check the "
                "cluster with ray status, then run the same command again"
            )

    # --- beginning and end ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Hire workers and wait until they have loaded the models. Raises a UserError if there can be none."""
        async with self._starting:
            if self._opened.is_set():
                return
            self._ray, grows = connect(self.place)
            self._shape = free = room(self._ray.nodes(), self.place)
            if not free.workers and not grows:
                raise PrerequisiteError(f"this machine has no room for a worker with {free}. Ask for less with --on")
            self._hire = self._ray.remote(num_cpus=free.cpus, num_gpus=free.gpus, max_restarts=0)(Worker)
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
            self._opened.set()
            if self.place.workers is None and grows:
                self._growing = asyncio.create_task(self._grow())

    async def aclose(self) -> None:
        """Dismiss the workers. The connection to Ray stays, for the next models of this process."""
        tasks = [*self._slots.values(), *([] if self._growing is None else [self._growing])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._slots.clear()
        self._opened.clear()

    async def _first_workers(self, expected: int) -> None:
        """Wait for a worker, then as long again for the others that there is room for."""
        self._last_seen = began = time.monotonic()
        while not self._at_work:
            await self._change(GROW_SECONDS)
            if self._broken is not None:
                raise self._broken
            if not self._placed and not self._at_work:
                lacking = f"no machine of the Ray cluster has room for a worker with {self._shape}"
                self._tell(f"{lacking}; waiting for one")
                if time.monotonic() - began > PATIENCE_SECONDS:
                    raise PrerequisiteError(f"{lacking}. Add one, or ask for less, such as --on 'ray?cpus=1&gpus=0'")
        until = time.monotonic() + max(OTHERS_SECONDS, time.monotonic() - began)
        while self.size < min(expected, len(self._slots)) and time.monotonic() < until:
            await self._change(until - time.monotonic())

    async def _change(self, seconds: float) -> None:
        """Wait until workers come or go."""
        self._changed.clear()
        await asyncio.wait({waiting := asyncio.ensure_future(self._changed.wait())}, timeout=seconds)
        waiting.cancel()

    # --- workers -------------------------------------------------------------------------------------------------

    def _add(self, workers: int) -> None:
        for _ in range(workers):
            self._numbers += 1
            self._slots[self._numbers] = asyncio.create_task(self._employ(self._numbers))

    async def _grow(self) -> None:
        """Add workers as machines join."""
        while True:
            await asyncio.sleep(GROW_SECONDS)
            self._add(max(0, room(self._ray.nodes(), self.place).workers - len(self._slots)))

    async def _employ(self, number: int) -> None:
        """Keep a worker in a slot: hire one, and another when it is lost."""
        losses = 0
        while True:
            actor = self._hire.remote()
            try:
                await self._load(actor, number)
                losses = 0
                await self._serve(actor)
            except LostError as lost:
                ready = self._at_work.get(number)
                losses += ready is None
                if ready is not None:
                    self._say(f"a worker on {ready.machine} {lost}; another one takes its place")
                elif losses == TRIES:
                    return self._give_up(number, PrerequisiteError(f"a worker {lost} while it loaded the models"))
            except UserError as error:
                return self._give_up(number, error)
            except Exception as error:  # noqa: BLE001 - a task that ends silently would leave the run waiting
                return self._give_up(number, ModelError(f"the fleet failed: {type(error).__name__}: {error}"))
            finally:
                if self._at_work.pop(number, None) is not None:
                    self._last_seen = time.monotonic()
                self._changed.set()
                self._dismiss(actor)

    async def _load(self, actor: Any, number: int) -> None:
        """Wait until a worker has loaded the models, and until all can begin."""
        await _result(actor.answer.remote(), None)  # however long there is no room for it
        self._placed = True
        ready: Ready = await _result(actor.load.remote(self.models, Path.cwd()), LOAD_SECONDS)
        for said in ready.said:
            self._tell(said)
        if self._opened.is_set() and (refusal := unlike(self.loaded, ready)) is not None:
            raise PrerequisiteError(refusal)
        self._at_work[number] = ready
        self._changed.set()
        if self._opened.is_set():
            self._say(f"fleet: a worker on {ready.machine} is ready, {self.size} now")
        await self._opened.wait()

    async def _serve(self, actor: Any) -> None:
        """Hand items to a worker until it is lost. Raises LostError."""
        while True:
            item = await self._waiting.get()
            if item.outcome.done():
                continue  # the run was stopped
            try:
                # a worker that was lost while it had nothing to do is no item's fault
                await _result(actor.answer.remote(), ANSWER_SECONDS)
            except BaseException:
                self._waiting.put_nowait(item)
                raise
            try:
                done = await _result(actor.work.remote(item.model, item.requests), self.place.timeout)
            except LostError as lost:
                item.losses += 1
                if item.losses < TRIES:
                    self._waiting.put_nowait(item)
                    raise
                failure = CallFailure("server_error", f"the worker that computed it {lost}", attempts=item.losses)
                _settle(item, Done([failure] * len(item.requests)))
                raise
            except UserError as error:
                item.outcome.set_exception(error)
                raise
            _settle(item, done)

    def _give_up(self, number: int, error: GoldlessError) -> None:
        """Leave a slot empty; without any other the run cannot go on."""
        del self._slots[number]
        if self._slots:
            self._tell(f"a worker is left out: {error}")
        else:
            self._broken = error

    def _dismiss(self, actor: Any) -> None:
        try:
            self._ray.kill(actor)
        except Exception:  # noqa: BLE001 - it may be gone, and so may the cluster
            return

    def _tell(self, message: str) -> None:
        """Say a message once, however many workers have it to say."""
        if message not in self._said:
            self._said.add(message)
            self._say(message)


def _settle(item: Item, done: Done) -> None:
    if not item.outcome.done():
        item.outcome.set_result(done)


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
