"""What the engines that compute on this machine have in common, whatever they compute with."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from goldless.models.prefix_tree import Node, build_tree, walk

HEAD_ELEMENTS = 1 << 22
"""Most logits at once: 16 MiB in float32."""

FloatArray = npt.NDArray[np.float32]
Pair = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids of a context and of the target that follows it."""


Check = Callable[[], None]
"""Called between steps; raises Cancelled where the caller asked to stop."""


class Cancelled(Exception):  # noqa: N818 - not an error: somebody asked to stop
    """The caller asked to stop."""


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

        ``share=False`` computes every request from scratch: the reference that benchmarks and canaries compare with.
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
        """Tokens that continue the context, each with its log p, up to ``most`` or until a stop token (not given)."""
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
        """A function that takes the tokens of one sequence piece by piece; it gives log p of everything behind each."""

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """What is held while something is computed."""
        with self._lock:
            yield


def raising(cancelled: Callable[[], bool]) -> Check:
    """The question whether to stop, as a check."""

    def check() -> None:
        if cancelled():
            raise Cancelled

    return check


@dataclass(frozen=True, slots=True)
class Wanted:
    """A position whose next token is scored."""

    request: int
    offset: int
    """Place of the scored token in the request's target."""
    token: int
    """The scored token."""
    sibling: int
    """Which of the nodes computed together the position is in."""
    place: int
    """Which token of that node it is."""


def wanted_positions(nodes: Sequence[Node], requests: Sequence[Pair]) -> Iterator[Wanted]:
    """The positions of sibling nodes at which the head must be read, node by node."""
    for sibling, node in enumerate(nodes):
        for request in node.requests:
            context, target = requests[request]
            first = max(node.start, len(context) - 1)
            last = min(node.end, len(context) + len(target) - 1)
            for position in range(first, last):
                offset = position - len(context) + 1
                yield Wanted(request, offset, target[offset], sibling, position - node.start)


def single_branch(request: int, sequence: tuple[int, ...]) -> Node:
    """One request as a tree of its own."""
    (branch,) = build_tree([sequence]).children
    for node in walk(branch):
        node.requests = [request]
    return Node(0, (), [request], [branch])


def draw(logprobs: npt.NDArray[np.floating[Any]], temperature: float, random: np.random.Generator) -> tuple[int, float]:
    """A token drawn at a temperature (0: the likeliest), and its log p before tempering."""
    row = logprobs.astype(np.float64)
    # the largest of (log p / temperature + Gumbel noise) is a draw from the tempered distribution
    ranked = row / temperature + random.gumbel(size=row.shape) if temperature > 0 else row
    token = int(np.argmax(ranked))
    return token, float(row[token])
