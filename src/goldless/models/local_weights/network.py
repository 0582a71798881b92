"""A transformers model as two functions: states of new tokens under a past, and log-probabilities of states.

Transformers itself computes logits of the same columns for all rows of a batch, and all of them at once. Here the
model's body returns hidden states, and its head runs only on the scored positions, piece by piece. Which parts a
model has, and whether branches can share its past, is tested once on a few tokens.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import torch
from torch.nn.functional import pad
from transformers import DynamicCache

from goldless.errors import PrerequisiteError
from goldless.models.local_engine import HEAD_ELEMENTS

SHARED_CACHE_LAYERS = frozenset({"DynamicLayer", "DynamicSlidingWindowLayer"})
"""Kinds of memory that are keys and values position by position, so that a batch can begin with the same ones and be
cut afterwards. Windows are applied by the mask; the cache here keeps every position.
"""
CARD_HEAD_ELEMENTS = 1 << 28
"""Maximum logits at once on a GPU: with fewer rows it would mostly read the head's weights."""
NOISE_NATS = {torch.float32: 1e-3, torch.float64: 1e-3}
COARSE_NOISE_NATS = 0.5

ROTATED_BY_LENGTH = frozenset({"dynamic", "longrope"})
"""Rotary embeddings that depend on the length of a text: one set of angles is used for a whole call, chosen by the
largest position in it. What a short text shares with a long one then differs between them, and nothing
computed for one can be used for the other.
"""
ANGLES = "inv_freq"
"""The angles' name in transformers, after the kind of layer if a model has several."""

Past = list[tuple[Any, Any]]
"""Keys and values of a path, layer by layer: [1, heads, tokens, head size]."""
Function = TypeVar("Function", bound=Callable[..., Any])


def without_gradients(function: Function) -> Function:
    """The function without gradient tracking."""
    return cast("Function", torch.inference_mode()(function))


class Network:
    """What the engine needs of a transformers model."""

    def __init__(self, model: Any, probe: tuple[int, ...]) -> None:
        """``probe`` is a few ordinary tokens for trying the model."""
        self.device = model.device
        self.dtype = model.dtype
        """The precision it computes in."""
        self.noise_nats = NOISE_NATS.get(model.dtype, COARSE_NOISE_NATS)
        """How far a log p may change when tokens are computed in another batch: wrong sharing changes it more."""
        self.config = model.config.get_text_config()
        """The settings of the model's text part."""
        self._model = model
        self.body = _body(model)
        """The part of the model below its head; the whole model if the two cannot be separated."""
        self._head = model.get_output_embeddings()
        self.vocabulary = int(self.config.vocab_size if self._head is None else self._head.weight.shape[0])
        self.probe = tokens = tuple(itertools.islice(itertools.cycle(probe), 24))
        """Tokens for trying the model."""
        self._rule = self._find_rule(tokens)
        if self._rule is None:
            self.body = model
        self._accepted = frozenset(inspect.signature(self.body.forward).parameters)
        self.position_bytes = 0
        """Memory of one position's keys and values; 0 if they cannot be shared."""
        self.rotates_by_length = rotates_by_length(self.config)
        """Whether the same beginning is computed differently in a long text than in a short one."""
        self.shares = not self.rotates_by_length and self._can_share(tokens)

    @property
    def settings(self) -> dict[str, str]:
        """How it computes, for the identity."""
        return {
            "head": "scored positions" if self.has_apart_head else "all positions",
            "sharing": "prefix tree" if self.shares else "none: one by one",
        }

    @property
    def has_apart_head(self) -> bool:
        """Whether the head can run on some positions alone."""
        return self._rule is not None

    @property
    def weight_bytes(self) -> int:
        """Memory of the model's weights."""
        parts = itertools.chain(self._model.parameters(), self._model.buffers())
        return sum(tensor_bytes(part) for part in parts)

    @property
    def longest_call(self) -> int | None:
        """Maximum tokens of one call, if every token's logits are computed; None if they are not."""
        return max(1, HEAD_ELEMENTS // self.vocabulary) if self._rule is None else None

    @without_gradients
    def run(self, rows: Sequence[tuple[int, ...]], starts: Sequence[int], cache: DynamicCache) -> Any:
        """States [rows, longest, …] of new tokens after the cache's content; the cache is extended by them.

        A row's past ends where its new tokens begin, so a shorter past is padded before its beginning and masked
        there. Shorter rows are padded at their end, where causality keeps the padding out of every real position.
        """
        before, longest = max(starts), max(map(len, rows))
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        mask = torch.zeros((len(rows), before + longest), dtype=torch.long)
        for i, (row, start) in enumerate(zip(rows, starts, strict=True)):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, before - start : before + len(row)] = 1
        positions = torch.tensor(starts)[:, None] + torch.arange(longest)
        return self._states(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache)

    @without_gradients
    def run_alone(self, tokens: tuple[int, ...]) -> Any:
        """States [1, tokens, …] of a whole sequence, from scratch and without a cache."""
        if self.rotates_by_length:
            forget_length(self._model)
        return self._states(input_ids=torch.tensor([tokens]))

    @without_gradients
    def logprobs(self, states: Any) -> Any:
        """Log p of every token of the vocabulary after each state, in float32: [states, vocabulary]."""
        return torch.log_softmax(self.logits(states).float(), dim=-1)

    @without_gradients
    def chosen_logprobs(self, states: Any, tokens: Sequence[int]) -> list[float]:
        """Log p of one token after each state, computed in pieces of limited memory."""
        elements = HEAD_ELEMENTS if self.device.type == "cpu" else CARD_HEAD_ELEMENTS
        size = max(1, elements // self.vocabulary)
        chosen = torch.tensor(tokens, device=self.device)[:, None]
        pieces = [
            self.logprobs(states[begin : begin + size]).gather(1, chosen[begin : begin + size])
            for begin in range(0, len(tokens), size)
        ]
        # one transfer for all: each waits for the device
        found: list[float] = torch.cat(pieces)[:, 0].tolist()
        return found

    @without_gradients
    def cache(self, pasts: Sequence[Past]) -> DynamicCache:
        """A cache with one past in each row; shorter ones are padded before their beginning."""
        cache = DynamicCache()
        for layer, parts in enumerate(zip(*pasts, strict=True)):
            longest = max(keys.shape[-2] for keys, _ in parts)
            keys, values = (torch.cat([_filled(part, longest) for part in side]) for side in zip(*parts, strict=True))
            cache.update(keys, values, layer)
        return cache

    @without_gradients
    def path(self, cache: DynamicCache, row: int, begin: int, end: int) -> Past:
        """Some columns of one row of a cache, copied so that the rest can be freed."""
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        return [(k[row : row + 1, :, begin:end].clone(), v[row : row + 1, :, begin:end].clone()) for k, v in layers]

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

    @without_gradients
    def _find_rule(self, tokens: tuple[int, ...]) -> Callable[[Any], Any] | None:
        """What the model does to its head's output, or None if body and head separately do not give its logits."""
        if self.body is None or self._head is None:
            return None
        ids = torch.tensor([tokens], device=self.device)
        expected = self._model(input_ids=ids).logits.float()
        try:
            raw = self._head(self.body(input_ids=ids).last_hidden_state)
        except Exception:  # noqa: BLE001 - whatever an architecture does differently, its own forward still works
            return None
        for rule in _rules(self.config):
            found = rule(raw).float()
            # half precision is rounded differently by different kernels
            near = 1e-4 if self.dtype in NOISE_NATS else 1e-2
            if found.shape == expected.shape and torch.allclose(found, expected, rtol=near, atol=near):
                return rule
        return None

    def _can_share(self, tokens: tuple[int, ...]) -> bool:
        """Whether branches computed together, each under its own past, give the same as each alone."""
        stems, branches = (tokens[:8], tokens[4:9]), (tokens[8:12], tokens[12:])
        try:
            own = {type(layer).__name__ for layer in DynamicCache(config=self._model.config).layers}
            if not own <= SHARED_CACHE_LAYERS:
                return False
            first = self.cache([[], []])
            self.run(stems, [0, 0], first)
            shared = self.cache([self.path(first, i, 0, len(stem)) for i, stem in enumerate(stems)])
            together = self.run(branches, [len(stem) for stem in stems], shared)
            apart = [self.run_alone(stem + branch) for stem, branch in zip(stems, branches, strict=True)]
        except Exception:  # noqa: BLE001 - an architecture whose memory is another one fails in its own way
            return False
        if any(layer.keys.shape[-2] != len(stems[0]) + len(branches[1]) for layer in shared.layers):
            return False
        last = self.path(shared, 0, 0, 1)
        self.position_bytes = sum(part.numel() * part.element_size() for layer in last for part in layer)
        return all(
            self._differ(together[i, : len(branch)], alone[0, -len(branch) :], branch) < self.noise_nats
            for i, (branch, alone) in enumerate(zip(branches, apart, strict=True))
        )

    def _differ(self, states: Any, other_states: Any, tokens: tuple[int, ...]) -> float:
        """The largest difference between log p of the tokens after some states and after others, in nats."""
        both = zip(self.chosen_logprobs(states, tokens), self.chosen_logprobs(other_states, tokens), strict=True)
        return max(abs(one - other) for one, other in both)


def tensor_bytes(tensor: Any) -> int:
    """Memory of a tensor; a packed one is measured by its parts."""
    if hasattr(tensor, "__tensor_flatten__"):
        return sum(tensor_bytes(getattr(tensor, name)) for name in tensor.__tensor_flatten__()[0])
    return int(tensor.numel() * tensor.element_size())


def _filled(part: Any, length: int) -> Any:
    """Keys or values with blanks before them, up to a length."""
    missing = length - part.shape[-2]
    return pad(part, (0, 0, missing, 0)) if missing else part


def total_memory(device: Any) -> int:
    """Total memory of a GPU in bytes."""
    return int(torch.cuda.get_device_properties(device).total_memory)


def free_memory(device: Any) -> int:
    """Available memory of a GPU in bytes, including memory that torch has reserved but not used."""
    free, _ = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


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
        others = ", another GPU, or the CPU (hf:NAME?device=cpu)" if on_card else ", or another machine"
        said = ". ".join(str(error).split(". ")[:3])  # how much was needed, and how much there is
        raise PrerequisiteError(
            f"{whose} memory is too small for this model{weights}. Use a smaller model, one with fewer bits "
            f"(hf:NAME?weights=4bit){others}. torch says: {said}"
        ) from error


def short_of_memory(error: BaseException) -> bool:
    """Whether this is an out-of-memory error, of a GPU or of torch on the CPU."""
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator: " in str(error)


def _body(model: Any) -> Any:
    """The part below the head, or None if the model does not expose it."""
    base = getattr(model, "base_model", None)
    if base is not None and base is not model:
        return base
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else None
    return None if decoder is model else decoder


def _rules(config: Any) -> Iterator[Callable[[Any], Any]]:
    """What models do to the output of their heads, those named in their config first."""
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


def rotates_by_length(config: Any) -> bool:
    """Whether a model's rotary embedding depends on the length of the text."""
    found = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    # a model with several kinds of layers has a dictionary for each
    parts = [found, *(part for part in found.values() if isinstance(part, dict))]
    return any(str(part.get("rope_type") or part.get("type")) in ROTATED_BY_LENGTH for part in parts)


def forget_length(body: Any) -> None:
    """Reset a model to the angles of a short text: transformers keeps those of the longest text so far."""
    for module in body.modules():
        longest = getattr(module, "original_max_seq_len", None)
        if longest is None:
            continue
        for name, angles in list(module.named_buffers(recurse=False)):
            kind = name.removesuffix(ANGLES)
            first = getattr(module, f"{kind}original_{ANGLES}", None)
            if name.endswith(ANGLES) and first is not None:
                setattr(module, name, first.to(angles.device))
                setattr(module, f"{kind}max_seq_len_cached", longest)
