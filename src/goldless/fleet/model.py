"""A model of a fleet: every stage uses it like one model on this machine, and its workers compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goldless.errors import CapabilityError
from goldless.fleet.crew import Crew
from goldless.models.catalogue import find_provider, is_local, open_model
from goldless.models.interface import ChatReply, ChatRequest, Deliver, ScoreRequest, WrappedModel
from goldless.models.local_model import LocalModel
from goldless.models.provider import Use
from goldless.records import CallFailure


def belongs_on_fleet(given: Any) -> bool:
    """Whether a model computes where it is opened; a server is called from here, whoever computes for it."""
    if isinstance(given, str):
        provider = find_provider(given)
        return provider is not None and provider.local
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
        """Start the workers, unless another model of the run did."""
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
        """Score all requests on one worker and deliver them together."""
        replies = await self.crew.answer(self._number, requests)
        deliver(dict(enumerate(replies)))  # type: ignore[arg-type] # scores, since scores were asked for

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The reply of one worker."""
        (reply,) = await self.crew.answer(self._number, [request])
        return reply  # type: ignore[return-value] # a chat was asked for
