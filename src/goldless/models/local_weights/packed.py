"""Scoring in packed sequences of prefix trees: one forward pass, and the head on its scored positions.

On a GPU the model's layers are compiled, once per sequence length, and attention is block-sparse.
Elsewhere everything is as transformers computes it, under a dense mask.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from goldless.errors import PrerequisiteError
from goldless.models.cache import compiled_folder
from goldless.models.local_engine import HEAD_ELEMENTS, Cancelled, FloatArray, Pair, Stop
from goldless.models.local_weights.engine import TorchEngine, free_memory, total_memory
from goldless.models.local_weights.packing import Lengths, Pack, longest_branch, plan_packs
from goldless.models.local_weights.tree_attention import NAME, NO_WINDOW, BlockMasks, UnsupportedAttention, dense_mask

HEAD_ROWS = 2048
"""Scored positions per batch of logits on a GPU."""
SHORTEST_CUDA = 1024
LONGEST_CUDA = 65_536
LONGEST_CPU = 1024
"""Longer ones would be filled better, but a dense mask is computed in full."""
MEMORY_SHARE = 0.9
"""Share of the available memory that is planned with; the rest is for fragmentation."""
RECOMPILE_LIMIT = 64
"""Every length, and every kind of layer, is one compilation; torch's own limit is 8."""


class PackedScorer:
    """Scores requests of any number of tasks in packed sequences."""

    def __init__(self, engine: TorchEngine, windows: Sequence[int], *, compiled: bool | None = None) -> None:
        """``windows``: the sliding windows of the model's layers; no window is 0. ``compiled``: None: on a GPU."""
        self.engine = engine
        self.token_bytes = 0
        """Memory per additional token of a sequence on a GPU, measured on the shortest one."""
        self._windows = sorted(set(windows))
        self._card = engine.device.type == "cuda"
        self._compiled = self._card if compiled is None else compiled
        self.lengths = Lengths(LONGEST_CPU, SHORTEST_CUDA if self._compiled else None)
        """The lengths of its sequences; on a GPU they are planned when the model is loaded, until memory runs out."""
        self._block_masks: dict[int, BlockMasks] = {}
        self._layers = _Layers(engine) if self._compiled else None
        self._choose: Callable[..., Any] = self._chosen
        self._warned = False
        self._too_long = 0
        """The length for which memory ran out last."""
        if self._compiled:
            # torch itself writes its default, a temporary folder, into the environment
            if os.environ.get("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir()).startswith(tempfile.gettempdir()):
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(compiled_folder())
            self._choose = torch.compile(self._chosen, dynamic=False)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "sharing": "packed prefix tree",
            "attention": "tree, block-sparse" if self._compiled else "tree, dense",
            # the neighbours of a text in its sequence decide how its last digits are rounded
            "longest sequence": f"{self.lengths.longest} tokens",
        }

    def score(
        self,
        requests: Sequence[Pair],
        *,
        cancelled: Stop = lambda: False,
        device: AbstractContextManager[Any] | None = None,
    ) -> list[FloatArray]:
        """The log p of every target token of every request.

        ``device`` is held while sequences are given to the device, not while the first is planned and the last is read.
        """
        results = [np.zeros(len(target), np.float32) for _, target in requests]
        left = list(range(len(requests)))
        while left:
            waiting = [requests[i] for i in left]
            packs = plan_packs(waiting, self.lengths)
            if longest_branch(waiting) > self.lengths.longest:
                # where a text beyond the plan does not fit, that is found out before the rest is computed
                packs = iter(sorted(packs, key=lambda pack: pack.length, reverse=True))
            planned = itertools.chain(list(itertools.islice(packs, 1)), packs)
            done: set[int] = set()
            for pack, values in self._computed(planned, cancelled, device or nullcontext()):
                targets = [results[left[i]] for i in pack.requests]
                ends = np.cumsum([len(target) for target in targets])
                for target, found in zip(targets, np.split(values, ends[:-1]), strict=True):
                    target[:] = found
                done.update(pack.requests)
            left = [i for place, i in enumerate(left) if place not in done]
            if left:
                self._halve(longest_branch([requests[i] for i in left]))
        return results

    def _computed(
        self, packs: Iterable[Pack], cancelled: Stop, device: AbstractContextManager[Any]
    ) -> Iterator[tuple[Pack, FloatArray]]:
        """Packs with their values, up to the first for which memory runs out.

        Values are read one pack late, so that the next one is prepared while the device computes.
        """
        waiting: list[tuple[Pack, Callable[[], FloatArray]]] = []
        with device:
            for pack in packs:
                if cancelled():
                    raise Cancelled
                try:
                    values = self.logprobs(pack)
                except torch.OutOfMemoryError:
                    values = None
                if values is None:
                    torch.cuda.empty_cache()  # only now, when the failed pass holds nothing any more
                    self._too_long = pack.length
                    break
                waiting.append((pack, _arriving(values)))
                if len(waiting) > 1:
                    before, read = waiting.pop(0)
                    yield before, read()
        for pack, read in waiting:
            yield pack, read()

    def _halve(self, longest: int) -> None:
        """Continue with shorter sequences. Raises if the longest request alone does not fit one."""
        half = self._too_long // 2
        if half < longest or (self.lengths.shortest or 1) > half:
            needed = self.needed_bytes(self.lengths.holding(longest)) / 1e9
            free = free_memory(self.engine.device) / 1e9
            raise PrerequisiteError(
                f"out of GPU memory: a text of {longest} tokens with its context needs about {needed:.1f} GB besides "
                f"the model's weights, and {free:.1f} GB are free. Use a smaller model or one with quantised weights "
                "(hf:NAME?weights=4bit), stop other programs on the GPU, or use the CPU (hf:NAME?device=cpu)"
            )
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"out of GPU memory for sequences of {self._too_long} tokens, so they are halved. Other programs "
                "may be using part of it. In half precision, numbers may differ in their last digits from those of a "
                "run with all of the memory",
                stacklevel=2,
            )
        self.lengths = replace(self.lengths, longest=half)

    def plan_lengths(self, token_bytes: int) -> None:
        """Choose the longest sequence that fits the GPU besides the weights and what other programs use now."""
        self.token_bytes = token_bytes
        device = self.engine.device
        room = MEMORY_SHARE * min(total_memory(device) - self.engine.weight_bytes, free_memory(device))
        longest = LONGEST_CUDA
        while longest > SHORTEST_CUDA and self.needed_bytes(longest) > room:
            longest //= 2
        self.lengths = Lengths(longest, SHORTEST_CUDA)

    def needed_bytes(self, length: int) -> int:
        # the logits that are there at once take 6 bytes each, in half precision and in float32
        return length * self.token_bytes + HEAD_ROWS * self.engine.vocabulary * 6

    def logprobs(self, pack: Pack) -> Any:
        """Log p of the pack's chosen tokens, in order, on the device; a GPU may still be computing them."""
        count = len(pack.rows)
        size = HEAD_ROWS if self._compiled else max(1, HEAD_ELEMENTS // self.engine.vocabulary)
        # compiled code is for one number of rows: the last piece is filled up
        padded = -(-count // size) * size if self._compiled else count
        with torch.inference_mode():
            states = self.states(pack)
            rows, chosen = self._there(padded, pack.rows, pack.chosen)
            pieces = [
                self._choose(states[rows[begin : begin + size]], chosen[begin : begin + size])
                for begin in range(0, padded, size)
            ]
            return torch.cat(pieces)[:count]

    def states(self, pack: Pack) -> Any:
        """Hidden states of the packed tokens: [length, size]."""
        tokens, positions = self._there(pack.length, pack.tokens, pack.positions)[:, None]
        compiled = nullcontext() if self._layers is None else self._layers.compiled()
        with _tree_attention(self.engine.config), compiled:
            output = self.engine.body(
                input_ids=tokens, position_ids=positions, use_cache=False, tree_masks=self._masks(pack)
            )
        return output.last_hidden_state[0]

    def _masks(self, pack: Pack) -> dict[int, Any]:
        if not self._compiled:
            return {window: dense_mask(pack, window).to(self.engine.device) for window in self._windows}
        if pack.length not in self._block_masks:
            self._block_masks[pack.length] = BlockMasks(pack.length, self._windows, self.engine.device)
        masks = self._block_masks[pack.length]
        masks.fill(pack)
        return masks.by_window

    def _chosen(self, states: Any, tokens: Any) -> Any:
        logits = self.engine.logits(states).float()
        return logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(-1)

    def _there(self, length: int, *rows: Any) -> Any:
        """Rows of numbers, filled up with zeros, copied to the device without waiting for it."""
        filled = np.zeros((len(rows), length), np.int64)
        for place, row in zip(filled, rows, strict=True):
            place[: len(row)] = row
        source = torch.from_numpy(filled)
        return source.pin_memory().to(self.engine.device, non_blocking=True) if self._card else source


def _arriving(values: Any) -> Callable[[], FloatArray]:
    """A function that waits for values on their way from the device, which goes on to what was given to it later."""
    if not values.is_cuda:
        return values.numpy  # type: ignore[no-any-return]
    copied = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    copied.copy_(values, non_blocking=True)
    there = torch.cuda.Event(blocking=True)
    there.record()

    def read() -> FloatArray:
        there.synchronize()
        found: FloatArray = copied.numpy()
        return found

    return read


class _Layers:
    """The layers of a model, which can be compiled for a while."""

    def __init__(self, engine: TorchEngine) -> None:
        lists = [module for module in engine.body.modules() if isinstance(module, torch.nn.ModuleList)]
        self._layers = next((list(found) for found in lists if len(found) == engine.config.num_hidden_layers), [])
        if not self._layers:
            raise UnsupportedAttention("its layers are not found")
        # one compilation serves all layers of a kind: their weights are arguments
        kinds = {type(layer): torch.compile(type(layer).forward, dynamic=False) for layer in self._layers}
        self._forwards = [functools.partial(kinds[type(layer)], layer) for layer in self._layers]

    @contextlib.contextmanager
    def compiled(self) -> Iterator[None]:
        """Compiled during the block; afterwards unchanged, for writing and for caches of keys and values."""
        from torch._dynamo import config as compiler  # noqa: PLC0415 - slow to import, and not needed on the CPU

        for layer, forward in zip(self._layers, self._forwards, strict=True):
            layer.forward = forward
        try:
            with compiler.patch(recompile_limit=RECOMPILE_LIMIT):
                yield
        finally:
            for layer in self._layers:
                del layer.forward


# --- trying the model --------------------------------------------------------------------------------------------


class _Recorded(dict[int, Any]):
    """Masks made as they are asked for; keeps the windows that the layers name, in order."""

    def __init__(self, pack: Pack, device: Any) -> None:
        super().__init__()
        self._pack, self._device = pack, device
        self.asked: list[int] = []

    def __getitem__(self, window: int) -> Any:
        self.asked.append(window)
        return dense_mask(self._pack, window).to(self._device)


def open_packed(engine: TorchEngine) -> PackedScorer:
    """The scorer in packed sequences, tested on a few tokens. Raises UnsupportedAttention where it does not work.

    The reason is the same in every run, because it is in the model's identity; the detail is only shown.
    """
    if not engine.has_apart_head:
        raise UnsupportedAttention("its head cannot be run apart")
    if engine.rotates_by_length:
        raise UnsupportedAttention("its positions are scaled by a text's length")
    on_card, probe = engine.device.type == "cuda", engine.probe
    # a small tree of two tasks, one with two branches
    requests = [(probe[:8], probe[8:12]), (probe[:8], probe[12:]), (probe[4:9], probe[9:16])]
    try:
        with torch.inference_mode():
            (pack,) = plan_packs(requests, Lengths(SHORTEST_CUDA))
            scorer = PackedScorer(engine, _windows(engine, pack))
            (pack,) = plan_packs(requests, Lengths(SHORTEST_CUDA, SHORTEST_CUDA if on_card else None))
            found = scorer.logprobs(pack).tolist()
            if on_card:
                scorer.plan_lengths(_token_bytes(scorer, pack))
    except torch.OutOfMemoryError:
        raise
    except UnsupportedAttention as error:
        raise UnsupportedAttention(f"its attention is of another kind: {error.reason}") from error
    except Exception as error:  # an architecture or a compiler fails in its own way
        detail = next(iter(str(error).strip().splitlines()), "")
        raise UnsupportedAttention(f"tree attention failed: {type(error).__name__}", detail) from error
    if engine.differ(found, [requests[i] for i in pack.requests]):
        raise UnsupportedAttention("tree attention gives other values")
    return scorer


def _windows(engine: TorchEngine, pack: Pack) -> list[int]:
    """The sliding window of each layer, as the layers pass it to the attention."""
    masks, config = _Recorded(pack, engine.device), engine.config
    ids = torch.from_numpy(np.stack([pack.tokens, pack.positions])).to(engine.device)[:, None]
    with _tree_attention(config):
        engine.body(input_ids=ids[0], position_ids=ids[1], use_cache=False, tree_masks=masks)
    window = getattr(config, "sliding_window", None) or NO_WINDOW
    count = config.num_hidden_layers
    kinds = getattr(config, "layer_types", None) or ["sliding_attention" if window else "full_attention"] * count
    if masks.asked != [{"full_attention": NO_WINDOW, "sliding_attention": window}.get(kind) for kind in kinds]:
        raise UnsupportedAttention("not every layer says which window it keeps")
    return masks.asked


def _token_bytes(scorer: PackedScorer, pack: Pack) -> int:
    """Memory of one token of a sequence, from a pass that is already compiled."""
    device = scorer.engine.device
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    scorer.states(pack)
    torch.cuda.synchronize(device)
    return max(1, int((torch.cuda.max_memory_allocated(device) - before) / pack.length))


@contextlib.contextmanager
def _tree_attention(config: Any) -> Iterator[None]:
    """Make the model use our attention during the block."""
    own = config._attn_implementation  # noqa: SLF001 - transformers' own layers read this name at every call
    config._attn_implementation = NAME  # noqa: SLF001
    try:
        yield
    finally:
        config._attn_implementation = own  # noqa: SLF001
