"""The crew: workers hired from a Ray cluster, each with a copy of the models; lost ones are replaced, others may join.

This runs in the driver, which alone writes the journal.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from goldless.errors import GoldlessError, ModelError, PrerequisiteError, UserError
from goldless.fleet.cluster import Room, connect, room
from goldless.fleet.likeness import settled, unlike
from goldless.fleet.parts import Parts, Request
from goldless.fleet.place import Place
from goldless.fleet.signs_of_life import LostError, alive, heard, placed
from goldless.fleet.work_items import Answer, Item, WorkItems
from goldless.fleet.worker import Done, Loaded, ModelToLoad, Ready, Worker
from goldless.models.interface import ModelIdentity
from goldless.models.provider import Say, Use

LOAD_SECONDS = 3600.0
"""Longest time to fetch and load the models."""
PATIENCE_SECONDS = 600.0
"""Longest time without any worker: machines may be starting, or coming back."""
OTHERS_SECONDS = 60.0
"""Least time to wait for the other workers after the first one."""
GROW_SECONDS = 10.0
"""Between two looks for machines that joined."""
LOSSES_WHILE_LOADING = 3
SPARE_ITEMS = 4
"""Items under way beyond two for each worker, for workers that join."""


class Crew:
    """The workers of a run."""

    def __init__(self, place: Place, folder: Path, say: Say) -> None:
        """``folder``: for finished items, until the journal has them. Nothing is started before ``start``."""
        self.place, self.folder, self._say = place, folder, say
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
        self._mark = f".{uuid.uuid4().hex}"
        self._ray: Any = None
        self._hire: Any = None
        self._shape: Room | None = None
        self._starting, self._opened, self._changed = asyncio.Lock(), asyncio.Event(), asyncio.Event()
        self._items: WorkItems | None = None

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

    @property
    def items(self) -> WorkItems:
        """The items that wait; known after ``start``."""
        if self._items is None:
            raise ModelError("the fleet is not running. Call prepare() first")
        return self._items

    async def answer(self, model: int, identity: ModelIdentity, requests: Sequence[Request]) -> Answer:
        """The replies of a model to the requests, as one item."""
        return await self.items.answer(model, identity, requests, self._check)

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
            self._items = WorkItems(Parts(self.folder))
            (self.folder / self._mark).touch()
            self._ray, grows = connect(self.place)
            self._shape = free = room(self._ray.nodes(), self.place)
            if not free.workers and not grows:
                raise PrerequisiteError(f"this machine has no room for a worker with {free}. Ask for less with --on")
            self._hire = self._ray.remote(
                num_cpus=free.cpus, num_gpus=free.gpus, max_restarts=0, concurrency_groups={"beat": 1}
            )(Worker)
            self._add(self.place.workers or max(1, free.workers))
            await self._first_workers(min(len(self._slots), max(1, free.workers)))
            self.loaded = settled(list(self._at_work.values()))
            self._tell_start()
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
        (self.folder / self._mark).unlink(missing_ok=True)
        if self._items is not None:
            self._items.parts.close()

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

    def _tell_start(self) -> None:
        found = list(self._at_work.values())
        machines = len({ready.machine for ready in found})
        workers = f"{len(found)} worker{'s' * (len(found) != 1)}"
        self._say(f"fleet: {workers} on {machines} machine{'s' * (machines != 1)}, {self._shape} each")
        if not all(ready.shares_folder for ready in found):
            self._say(
                f"note: not all machines share {self.folder}, so a killed driver loses what is in flight. Name a "
                "shared folder with --on 'ray?folder=PATH'"
            )

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
            actor = self._hire.remote(self.folder)
            try:
                await self._load(actor, number)
                losses = 0
                await self._serve(actor)
            except LostError as lost:
                ready = self._at_work.get(number)
                losses += ready is None
                if ready is not None:
                    self._say(f"a worker on {ready.machine} {lost}; another one takes its place")
                elif losses == LOSSES_WHILE_LOADING:
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
        await placed(actor)
        self._placed = True
        ready: Ready = await heard(actor, actor.load.remote(self.models, Path.cwd(), self._mark), LOAD_SECONDS)
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
        async def compute(item: Item) -> Done:
            call = actor.work.remote(item.model, item.requests, item.name)
            done: Done = await heard(actor, call, self.place.timeout)
            return done

        await self.items.serve(partial(alive, actor), compute)

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
