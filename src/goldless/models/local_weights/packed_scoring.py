"""Scoring by packed sequences: plan, compute, read; and what is done where memory does not suffice."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from goldless.errors import PrerequisiteError
from goldless.models.local_engine import Cancelled, Pair
from goldless.models.local_weights.packed_network import PackedNetwork, free_memory
from goldless.models.local_weights.packing import Lengths, Pack, longest_branch, plan_packs

FloatArray = npt.NDArray[np.float32]


@dataclass(slots=True)
class Tally:
    """What went through the model since the engine was made."""

    packs: int = 0
    tokens: int = 0
    """Tokens that were computed, padding left out."""
    places: int = 0
    """Tokens with padding."""
    halvings: int = 0
    """Times a sequence had to be halved because memory did not suffice."""

    @property
    def fill(self) -> float:
        """Share of what was computed that is no padding."""
        return self.tokens / self.places if self.places else 1.0


class PackedScorer:
    """Scores requests of any number of tasks in packed sequences."""

    def __init__(self, network: PackedNetwork, lengths: Lengths | None = None) -> None:
        self.network = network
        self.tally = Tally()
        self.lengths = network.lengths if lengths is None else lengths
        """The lengths of its sequences: those of the network's plan, until memory does not suffice."""

    def score(
        self, requests: Sequence[Pair], results: Sequence[FloatArray], cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        """Fill in the log p of every target token of every request."""
        left = list(range(len(requests)))
        while left:
            done: set[int] = set()
            open_requests = [requests[i] for i in left]
            packs: Iterable[Pack] = plan_packs(open_requests, self.lengths)
            if longest_branch(open_requests) > self.lengths.longest:
                # where a text beyond the plan does not fit, that is found out before the rest is computed
                packs = sorted(packs, key=lambda pack: pack.length, reverse=True)
            short_of_memory = None
            for pack, values in self._computed(packs, cancelled):
                if values is None:
                    short_of_memory = pack
                    continue
                _spread(values, [results[left[i]] for i in pack.requests])
                done.update(left[i] for i in pack.requests)
            left = [i for i in left if i not in done]
            if short_of_memory is not None:
                self._halve(short_of_memory, longest_branch([requests[i] for i in left]))

    def _computed(
        self, packs: Iterable[Pack], cancelled: Callable[[], bool]
    ) -> Iterator[tuple[Pack, FloatArray | None]]:
        """Packs with their values; None for the values, and no more packs, where memory did not suffice.

        Values are fetched one pack late, so that the next one is prepared while the device computes.
        """
        waiting: tuple[Pack, Any] | None = None
        for pack in packs:
            if cancelled():
                raise Cancelled
            values = self._tried(pack)
            if values is None:
                # only now, when the failed pass holds nothing any more
                torch.cuda.empty_cache()
                yield pack, None
                break
            self.tally.packs += 1
            self.tally.tokens += len(pack.tokens)
            self.tally.places += pack.length
            if waiting is not None:
                yield waiting[0], waiting[1].cpu().numpy()
            waiting = pack, values
        if waiting is not None:
            yield waiting[0], waiting[1].cpu().numpy()

    def _tried(self, pack: Pack) -> Any:
        """The pack's values, or None where memory did not suffice."""
        try:
            return self.network.logprobs(pack)
        except torch.OutOfMemoryError:
            return None

    def _halve(self, pack: Pack, longest: int) -> None:
        """Go on with shorter sequences. Raises where the longest request alone does not fit one."""
        half = pack.length // 2
        if half < longest or (self.lengths.shortest or 1) > half:
            raise PrerequisiteError(self._too_little(longest))
        if not self.tally.halvings:
            warnings.warn(
                f"the graphics card's memory does not suffice for sequences of {pack.length} tokens, so they are "
                "halved. Something else may hold part of it. In half precision, numbers may differ in their last "
                "digits from those of a run that has all of it.",
                stacklevel=2,
            )
        self.tally.halvings += 1
        self.lengths = replace(self.lengths, longest=half)

    def _too_little(self, tokens: int) -> str:
        length = self.lengths.holding(tokens)
        needed = self.network.needed_bytes(length) / 1e9
        free = free_memory(self.network.network.device) / 1e9
        return (
            f"the graphics card's memory does not suffice: a text of {tokens} tokens with its context needs about "
            f"{needed:.1f} GB beside the model's weights, and {free:.1f} GB are free. Use a smaller model or one with "
            "quantised weights (hf:NAME?weights=4bit), free memory that other programs hold, or use the processor "
            "(hf:NAME?device=cpu)."
        )


def _spread(values: FloatArray, targets: Sequence[FloatArray]) -> None:
    """Put values that stand one after the other where they belong."""
    begin = 0
    for target in targets:
        target[:] = values[begin : begin + len(target)]
        begin += len(target)
