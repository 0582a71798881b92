"""What all engines on this machine have in common."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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
    ) -> list[FloatArray]:
        """Log p of each target token given context and earlier target tokens, for every (context, target)."""
        results = [np.zeros(len(target), np.float32) for _, target in requests]
        with self._computing():
            self._score(requests, results, raising(cancelled))
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
    def _score(self, requests: Sequence[Pair], results: list[FloatArray], check: Check) -> None:
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


def read_scored(
    nodes: Sequence[Node],
    requests: Sequence[Pair],
    results: Sequence[FloatArray],
    chosen: Callable[[list[int], list[int], list[int]], Iterable[float]],
) -> None:
    """Store log p of every token that is scored after a position of sibling nodes.

    ``chosen`` gives them, from the index of each position's node, that of the position in its node, and the token.
    """
    siblings: list[int] = []
    places: list[int] = []
    tokens: list[int] = []
    stored: list[tuple[int, int]] = []
    for sibling, node in enumerate(nodes):
        for request in node.requests:
            context, target = requests[request]
            first = max(node.start, len(context) - 1)
            last = min(node.end, len(context) + len(target) - 1)
            for position in range(first, last):
                offset = position - len(context) + 1
                siblings.append(sibling)
                places.append(position - node.start)
                tokens.append(target[offset])
                stored.append((request, offset))
    if stored:
        for (request, offset), value in zip(stored, chosen(siblings, places, tokens), strict=True):
            results[request][offset] = value


def draw(logprobs: npt.NDArray[np.floating[Any]], temperature: float, random: np.random.Generator) -> tuple[int, float]:
    """A token sampled at a temperature (0: the most likely), and its log p before tempering."""
    row = logprobs.astype(np.float64)
    # the largest of (log p / temperature + Gumbel noise) is a draw from the tempered distribution
    ranked = row / temperature + random.gumbel(size=row.shape) if temperature > 0 else row
    token = int(np.argmax(ranked))
    return token, float(row[token])
