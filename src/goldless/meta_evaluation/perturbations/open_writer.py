"""The writer of a run: the chat model that makes perturbed texts, opened with the journal where one is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from goldless.meta_evaluation.perturbations.perturbation import Writer
from goldless.runs.collection import CALLS_AT_ONCE
from goldless.runs.opening import OpenModel, Part, Spending, open_journal, open_models, refuse_without_chat
from goldless.runs.options import Options, Progress


@dataclass(frozen=True, slots=True)
class OpenWriter:
    """Who writes, if anybody does."""

    options: Options
    model: OpenModel | None = None

    @property
    def chat(self) -> Writer | None:
        """The model to be asked; None: nobody is."""
        return None if self.model is None else self.model.chat

    @property
    def at_once(self) -> int:
        """Requests that are sent side by side."""
        return 1 if self.model is None or self.model.local else CALLS_AT_ONCE

    @property
    def spending(self) -> tuple[Spending, ...]:
        """What its calls came to."""
        return () if self.model is None else (self.model.spending,)

    def tell(self, stage: str, done: int, total: int) -> None:
        """Say how far a stage is; what needs no writer is done before anybody could look."""
        if self.model is not None:
            ledger = self.model.ledger
            tokens = ledger.usage.input_tokens + ledger.usage.output_tokens
            cost = None if ledger.price is None else ledger.spent_usd
            self.options.progress(Progress(stage, done, total, tokens, cost))


@asynccontextmanager
async def open_writer(given: Any, options: Options, *, to: str) -> AsyncIterator[OpenWriter]:
    """The writer, a model or its name, opened to do this; None: nobody is asked, and no journal is opened."""
    if given is None:
        yield OpenWriter(options)
        return
    parts = [Part("writer", given, "chat")]
    async with open_journal(options.journal) as journal, open_models(parts, options, journal) as models:
        refuse_without_chat(models["writer"], to)
        yield OpenWriter(options, models["writer"])
