"""What all engines on this machine have in common."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from goldless.models.prefix_tree import Node

HEAD_ELEMENTS = 1 << 22
"""Maximum logits at once: 16 MiB in float32."""

FloatArray = npt.NDArray[np.float32]
Pair = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids of a context and of the target that follows it."""


Check = Callable[[], None]
"""Called between steps; raises Cancelled if the caller wants to stop."""


class Cancelled(Exception):  # noqa: N818 - not an error: somebody asked to stop
    """The caller wants to stop."""


class LocalEngine(ABC):
    """Computes log-probabilities and continuations of token ids, one call at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def score(
        self,
        requests: Sequence[Pair],
        *,
        cancelled: Callable[[], bool] = lambda: False,
        share: bool = True,
    ) -> list[FloatArray]:
        """Log p of each target token given context and earlier target tokens, for every (context, target).

        ``share=False`` computes every request from scratch, as the reference for benchmarks and canaries.
        """
        results = [np.zeros(len(target), np.float32) for _, target in requests]
        with self._computing():
            self._score(requests, results, raising(cancelled), share=share)
        return results

    def generate(
        self,
        context: tuple[int, ...],
        *,
        most: int,
        stop: frozenset[int],
        temperature: float = 0.0,
        seed: int | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[int, float]]:
        """Tokens that continue the context, each with its log p, up to ``most`` or before a stop token."""
        random = np.random.default_rng(seed)
        with self._computing():
            follow, new = self._follower(raising(cancelled)), context
            for _ in range(most):
                token, logprob = draw(follow(new), temperature, random)
                if token in stop:
                    return
                yield token, logprob
                new = (token,)

    @abstractmethod
    def _score(self, requests: Sequence[Pair], results: list[FloatArray], check: Check, *, share: bool) -> None:
        """Fill in the results."""

    @abstractmethod
    def _follower(self, check: Check) -> Callable[[tuple[int, ...]], npt.NDArray[Any]]:
        """A function that takes the tokens of one sequence piece by piece; returns log p of every next token."""

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """The context that is active during a computation."""
        with self._lock:
            yield


def raising(cancelled: Callable[[], bool]) -> Check:
    """Turn the stop predicate into a check that raises."""

    def check() -> None:
        if cancelled():
            raise Cancelled

    return check


@dataclass(frozen=True, slots=True)
class ScoredPosition:
    """A position whose next token is scored."""

    request: int
    offset: int
    """Index of the scored token in the request's target."""
    token: int
    """The scored token."""
    sibling: int
    """Index of its node among those computed together."""
    place: int
    """Index of the token in that node."""


def scored_positions(nodes: Sequence[Node], requests: Sequence[Pair]) -> Iterator[ScoredPosition]:
    """The positions of sibling nodes at which the head must be read, node by node."""
    for sibling, node in enumerate(nodes):
        for request in node.requests:
            context, target = requests[request]
            first = max(node.start, len(context) - 1)
            last = min(node.end, len(context) + len(target) - 1)
            for position in range(first, last):
                offset = position - len(context) + 1
                yield ScoredPosition(request, offset, target[offset], sibling, position - node.start)


def draw(logprobs: npt.NDArray[np.floating[Any]], temperature: float, random: np.random.Generator) -> tuple[int, float]:
    """A token sampled at a temperature (0: the most likely), and its log p before tempering."""
    row = logprobs.astype(np.float64)
    # the largest of (log p / temperature + Gumbel noise) is a draw from the tempered distribution
    ranked = row / temperature + random.gumbel(size=row.shape) if temperature > 0 else row
    token = int(np.argmax(ranked))
    return token, float(row[token])
