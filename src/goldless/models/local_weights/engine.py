"""The engine of Hugging Face models: states of new tokens under a past, and log-probabilities of states.

Transformers itself computes logits of the same columns for all rows of a batch, and all of them at once. Here the
model's body returns hidden states, and its head runs only on the scored positions, piece by piece. Which parts a
model has, and whether branches can share its past, is tested once on a few tokens.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import DynamicCache

from goldless.errors import PrerequisiteError
from goldless.models.local_engine import HEAD_ELEMENTS, FloatArray, LocalEngine, Pair, Stop

SHARED_CACHE_LAYERS = frozenset({"DynamicLayer", "DynamicSlidingWindowLayer"})
"""Kinds of memory that are keys and values position by position, so that a batch can begin with the same ones and be
cut afterwards. Windows are applied by the mask; the cache here keeps every position.
"""
CPU_TOKENS, CPU_POSITIONS = 512, 8192
"""New tokens of a call, and these with their past in all rows."""
CUDA_TOKENS, CUDA_POSITIONS = 4096, 65_536
CACHE_SHARE = 0.04
"""Share of the GPU's memory for the keys and values of one call. Several times as much is used while branches wait."""
CUDA_HEAD_ELEMENTS = 1 << 28
"""Maximum logits at once on a GPU: with fewer rows it would mostly read the head's weights."""
NOISE_NATS = {torch.float32: 1e-3, torch.float64: 1e-3}
COARSE_NOISE_NATS = 0.5

ROTATED_BY_LENGTH = frozenset({"dynamic", "longrope"})
"""Rotary embeddings whose angles depend on the length of the text: nothing computed for one text serves another."""

Past = list[tuple[Any, Any]]
"""Keys and values of a path, layer by layer: [1, heads, tokens, head size]."""


class TorchEngine(LocalEngine):
    """Computes with a transformers model: over packed sequences if it can, otherwise from node to node."""

    def __init__(self, model: Any, probe: tuple[int, ...]) -> None:
        """``probe`` is a few ordinary tokens for trying the model."""
        self.device = model.device
        self.dtype = model.dtype
        """The precision it computes in."""
        self.noise_nats = NOISE_NATS.get(model.dtype, COARSE_NOISE_NATS)
        """Largest change of a log p when tokens are computed in another batch: wrong sharing changes it more."""
        self.config = model.config.get_text_config()
        """The settings of the model's text part."""
        self.packed: Any = None
        """Scores in packed sequences; None: the tree is walked from node to node."""
        self._model = model
        self._head = model.get_output_embeddings()
        self.vocabulary = int(self.config.vocab_size if self._head is None else self._head.weight.shape[0])
        self.probe = tuple(itertools.islice(itertools.cycle(probe), 24))
        self.weight_bytes = sum(map(tensor_bytes, itertools.chain(model.parameters(), model.buffers())))
        parts = [getattr(model, "base_model", None), model.get_decoder() if hasattr(model, "get_decoder") else None]
        self.body: Any = next((part for part in parts if part is not None and part is not model), None)
        """The part of the model below its head; the whole model if the two cannot be separated."""
        with torch.inference_mode():
            self._rule = self._find_rule()
            if self._rule is None:
                self.body = model
            self._accepted = frozenset(inspect.signature(self.body.forward).parameters)
            rope = getattr(self.config, "rope_parameters", None) or getattr(self.config, "rope_scaling", None) or {}
            # a model with several kinds of layers has a dictionary for each
            ropes = [rope, *(part for part in rope.values() if isinstance(part, dict))]
            self.rotates_by_length = any((r.get("rope_type") or r.get("type")) in ROTATED_BY_LENGTH for r in ropes)
            """True if the same beginning is computed differently in a long text than in a short one."""
            position_bytes = None if self.rotates_by_length else self._shared_position_bytes()
        tokens, positions = CPU_TOKENS, CPU_POSITIONS
        if self.device.type == "cuda":
            # by the GPU, not by its load, so that numbers are reproducible
            room = int(CACHE_SHARE * torch.cuda.get_device_properties(self.device).total_memory)
            tokens, positions = CUDA_TOKENS, min(CUDA_POSITIONS, room // max(1, position_bytes or 0))
        if not self.has_apart_head:  # every token's logits are computed
            tokens = min(tokens, max(1, HEAD_ELEMENTS // self.vocabulary))
        super().__init__(call_tokens=tokens, call_positions=positions, shares=position_bytes is not None)
        self.reads_last = self.rotates_by_length

    @property
    def settings(self) -> dict[str, str]:
        return {
            "head": "scored positions" if self.has_apart_head else "all positions",
            "sharing": "prefix tree" if self.shares else "none: one by one",
        }

    @property
    def has_apart_head(self) -> bool:
        """True if the head can run on some positions alone."""
        return self._rule is not None

    def score(self, requests: Sequence[Pair], *, cancelled: Stop = lambda: False) -> list[FloatArray]:
        if self.packed is None:
            return super().score(requests, cancelled=cancelled)
        # a packed call makes itself ready while the device computes an earlier one
        with explained_memory(self.weight_bytes):
            found: list[FloatArray] = self.packed.score(requests, cancelled=cancelled, device=self._lock)
        return found

    @contextlib.contextmanager
    def _computing(self) -> Iterator[None]:
        with self._lock, explained_memory(self.weight_bytes), torch.inference_mode():
            yield

    def _run(self, rows: Sequence[tuple[int, ...]], past: Any) -> tuple[Any, Callable[[int], Any]]:
        if self.shares:
            return self.run_siblings(rows, past or [])
        (row,) = rows
        whole = (past or ()) + row  # the past is its tokens
        return self.run_alone(whole)[-len(row) :], lambda _: whole

    def run_siblings(self, rows: Sequence[tuple[int, ...]], past: Past) -> tuple[Any, Callable[[int], Past]]:
        """States [tokens, …] of rows under one past, and a function of a row: the past with its tokens.

        Shorter rows are padded at their end, where causality keeps the padding out of every real position.
        """
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(past):
            shape = (len(rows), -1, -1, -1)
            cache.update(keys.expand(shape), values.expand(shape), layer)
        before, lengths = past[0][0].shape[-2] if past else 0, [len(row) for row in rows]
        ids = torch.zeros((len(rows), max(lengths)), dtype=torch.long)
        inside = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        ids[inside] = torch.tensor(list(itertools.chain.from_iterable(rows)))
        mask = torch.cat([torch.ones((len(rows), before), dtype=torch.long), inside.long()], dim=1)
        positions = torch.arange(before, before + max(lengths)).expand(len(rows), -1)
        states = self._states(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache)

        def extended(row: int) -> Past:
            # copied, so that the rest can be freed
            own = (slice(row, row + 1), slice(None), slice(before + lengths[row]))
            return [(layer.keys[own].clone(), layer.values[own].clone()) for layer in cache.layers]

        return states[inside.to(states.device)], extended

    def run_alone(self, tokens: tuple[int, ...]) -> Any:
        """States [tokens, …] of a whole sequence, from scratch and without a cache."""
        for module in self._model.modules() if self.rotates_by_length else ():
            # let it compute its angles anew: transformers keeps those of the longest text so far
            for name in [name for name in vars(module) if name.endswith("max_seq_len_cached")]:
                setattr(module, name, 0)
        return self._states(input_ids=torch.tensor([tokens]))[0]

    def _states(self, **inputs: Any) -> Any:
        here = {name: v.to(self.device) if isinstance(v, torch.Tensor) else v for name, v in inputs.items()}
        accepted = {name: value for name, value in here.items() if name in self._accepted}
        if "use_cache" in self._accepted:
            accepted["use_cache"] = "past_key_values" in inputs
        output = self.body(**accepted)
        return output.logits if self._rule is None else output.last_hidden_state

    def logits(self, states: Any) -> Any:
        """Scores of every token of the vocabulary after each state, in the model's own precision."""
        return states if self._rule is None else self._rule(self._head(states))

    def _chosen(self, states: Any, tokens: Sequence[int]) -> list[float]:
        size = max(1, (HEAD_ELEMENTS if self.device.type == "cpu" else CUDA_HEAD_ELEMENTS) // self.vocabulary)
        chosen = torch.tensor(tokens, device=self.device)[:, None]
        pieces = [
            self.logits(states[begin : begin + size]).float().log_softmax(-1).gather(1, chosen[begin : begin + size])
            for begin in range(0, len(tokens), size)
        ]
        # one transfer for all: each waits for the device
        found: list[float] = torch.cat(pieces)[:, 0].tolist()
        return found

    def _logprobs(self, state: Any) -> npt.NDArray[np.floating[Any]]:
        found: npt.NDArray[np.floating[Any]] = self.logits(state).float().log_softmax(-1)[0].cpu().numpy()
        return found

    def differ(self, logprobs: Sequence[float], requests: Sequence[Pair]) -> bool:
        """True if log p of the requests' targets are others than those of each request computed alone."""
        alone: list[float] = []
        with torch.inference_mode():
            for context, target in requests:
                alone += self._chosen(self.run_alone(context + target[:-1])[len(context) - 1 :], target)
        return any(abs(one - other) >= self.noise_nats for one, other in zip(logprobs, alone, strict=True))

    # --- trying the model ----------------------------------------------------------------------------------------

    def _find_rule(self) -> Callable[[Any], Any] | None:
        """The model's rule for its head's output, or None if body and head separately do not give its logits."""
        if self.body is None or self._head is None:
            return None
        ids = torch.tensor([self.probe], device=self.device)
        expected = self._model(input_ids=ids).logits.float()
        try:
            raw = self._head(self.body(input_ids=ids).last_hidden_state)
        except Exception:  # noqa: BLE001 - whatever an architecture does differently, its own forward still works
            return None
        near = 1e-4 if self.dtype in NOISE_NATS else 1e-2  # half precision is rounded differently by different kernels
        for rule in _rules(self.config):
            found = rule(raw).float()
            if found.shape == expected.shape and torch.allclose(found, expected, rtol=near, atol=near):
                return rule
        return None

    def _shared_position_bytes(self) -> int | None:
        """Memory of a position's keys and values; None if branches computed together differ from each alone."""
        stem, branches = self.probe[:8], (self.probe[8:12], self.probe[12:])
        try:
            own = {type(layer).__name__ for layer in DynamicCache(config=self._model.config).layers}
            if not own <= SHARED_CACHE_LAYERS:
                return None
            _, extended = self.run_siblings([stem], [])
            states, extended = self.run_siblings(branches, extended(0))
            past = extended(1)
            targets = [branch[1:] for branch in branches]
            found = self._chosen(states[:-1], branches[0][1:] + branches[1])
            del found[len(targets[0])]  # behind the first branch comes nothing
        except Exception:  # noqa: BLE001 - an architecture whose memory is another one fails in its own way
            return None
        if any(keys.shape[-2] != len(stem) + len(branches[1]) for keys, _ in past):
            return None
        requests = [(stem + branch[:1], target) for branch, target in zip(branches, targets, strict=True)]
        if self.differ(found, requests):
            return None
        return sum(int(part[:, :, :1].numel() * part.element_size()) for layer in past for part in layer)


def _rules(config: Any) -> Iterator[Callable[[Any], Any]]:
    """Rules that models apply to the output of their heads, those named in the config first."""
    cap = getattr(config, "final_logit_softcapping", None)
    if cap:
        yield lambda logits: torch.tanh(logits / cap) * cap
    scale = getattr(config, "logit_scale", None) or getattr(config, "lm_head_multiplier", None)
    if scale:
        yield lambda logits: logits * scale
    divisor = getattr(config, "logits_scaling", None)
    if divisor:
        yield lambda logits: logits / divisor
    yield lambda logits: logits


def tensor_bytes(tensor: Any) -> int:
    """Memory of a tensor; a packed one is measured by its parts."""
    if hasattr(tensor, "__tensor_flatten__"):
        return sum(tensor_bytes(getattr(tensor, name)) for name in tensor.__tensor_flatten__()[0])
    return int(tensor.numel() * tensor.element_size())


def short_of_memory(error: BaseException) -> bool:
    """True if this is an out-of-memory error, of a GPU or of torch on the CPU."""
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator: " in str(error)


@contextlib.contextmanager
def explained_memory(weight_bytes: int | None = None) -> Iterator[None]:
    """Turn out-of-memory errors of a GPU or CPU into an error that says what to do."""
    try:
        yield
    except RuntimeError as error:
        if not short_of_memory(error):
            raise
        on_card = isinstance(error, torch.OutOfMemoryError)
        whose = "the GPU's" if on_card else "this machine's"
        weights = "" if weight_bytes is None else f", whose weights take {weight_bytes / 1e9:.1f} GB"
        others = ", another GPU or the CPU (hf:NAME?device=cpu)" if on_card else ", or another machine"
        said = ". ".join(str(error).split(". ")[:3])  # how much was needed, and how much there is
        raise PrerequisiteError(
            f"{whose} memory is too small for this model{weights}, beside what other programs use. Use a smaller "
            f"model, one with fewer bits (hf:NAME?weights=4bit){others}. torch says: {said}"
        ) from error
