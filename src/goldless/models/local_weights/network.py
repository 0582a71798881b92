"""A transformers model as two functions: states of new tokens under a past, and log-probabilities of states.

Transformers itself computes logits of the same columns for all rows of a batch, and all of them at once. Here the
model's body gives hidden states, and its head is run on the scored positions alone, piece by piece. Which parts a
model has, and whether its past can be shared among branches, is tried out once on a few tokens.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import torch
from transformers import DynamicCache

from goldless.errors import PrerequisiteError
from goldless.models.local_engine import HEAD_ELEMENTS

SHARED_CACHE_LAYERS = frozenset({"DynamicLayer", "DynamicSlidingWindowLayer"})
"""Kinds of memory that are keys and values position by position, so that a batch can begin with the same ones and be
cut afterwards. Windows are kept by the mask; the cache here keeps every position."""
NOISE_NATS = {torch.float32: 1e-3, torch.float64: 1e-3}
COARSE_NOISE_NATS = 0.5
"""How far a log p may move when the same tokens are computed in another batch: wrong sharing moves it further."""

Past = list[tuple[Any, Any]]
"""Keys and values of a path, layer by layer: [1, heads, tokens, head size]."""
Function = TypeVar("Function", bound=Callable[..., Any])


def _without_gradients(function: Function) -> Function:
    return cast("Function", torch.inference_mode()(function))


class Network:
    """What the engine needs of a transformers model."""

    def __init__(self, model: Any, probe: tuple[int, ...]) -> None:
        """``probe`` are a few ordinary tokens, to try the model with."""
        self.device = model.device
        self._model = model
        self._body = _body(model)
        self._head = model.get_output_embeddings()
        self.vocabulary = int(self._head.weight.shape[0] if self._head is not None else model.config.vocab_size)
        self._rule: Callable[[Any], Any] | None = None
        tokens = tuple(itertools.islice(itertools.cycle(probe), 24))
        self._rule = self._find_rule(tokens)
        if self._rule is None:
            self._body = model
        self._accepted = frozenset(inspect.signature(self._body.forward).parameters)
        self.shares = self._can_share(tokens)

    @property
    def settings(self) -> dict[str, str]:
        """How it computes, for the identity."""
        return {
            "head": "scored positions" if self._rule is not None else "all positions",
            "sharing": "prefix tree" if self.shares else "none: one by one",
        }

    @property
    def longest_call(self) -> int | None:
        """Most tokens of one call, where every token's logits are computed; None where they are not."""
        return max(1, HEAD_ELEMENTS // self.vocabulary) if self._rule is None else None

    @_without_gradients
    def run(self, rows: Sequence[tuple[int, ...]], cache: DynamicCache) -> Any:
        """States [rows, longest, …] of new tokens behind what the cache holds; the cache takes them up.

        Shorter rows are padded at their end, where causality keeps the padding out of every real position.
        """
        before, longest = cache.get_seq_length(), max(map(len, rows))
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        mask = torch.ones((len(rows), before + longest), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, before + len(row) :] = 0
        positions = torch.arange(before, before + longest).expand(len(rows), -1)
        return self._states(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache)

    @_without_gradients
    def run_alone(self, tokens: tuple[int, ...]) -> Any:
        """States [1, tokens, …] of a whole sequence, from scratch and without a cache."""
        return self._states(input_ids=torch.tensor([tokens]))

    @_without_gradients
    def logprobs(self, states: Any) -> Any:
        """Log p of every token of the vocabulary after each state, in float32: [states, vocabulary]."""
        return torch.log_softmax(self._logits(states).float(), dim=-1)

    @_without_gradients
    def chosen_logprobs(self, states: Any, tokens: Sequence[int]) -> Iterator[float]:
        """Log p of one token after each state, computed in pieces of bounded memory."""
        size = max(1, HEAD_ELEMENTS // self.vocabulary)
        for begin in range(0, len(tokens), size):
            chosen = torch.tensor(tokens[begin : begin + size], device=self.device)[:, None]
            yield from self.logprobs(states[begin : begin + size]).gather(1, chosen)[:, 0].tolist()

    @_without_gradients
    def cache(self, past: Past, rows: int) -> DynamicCache:
        """A cache that holds the same past in each row."""
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(past):
            cache.update(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1), layer)
        return cache

    @_without_gradients
    def path(self, cache: DynamicCache, row: int, length: int) -> Past:
        """The first positions of one row of a cache, on their own so that the rest can be freed."""
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        return [(k[row : row + 1, :, :length].clone(), v[row : row + 1, :, :length].clone()) for k, v in layers]

    def _states(self, **inputs: Any) -> Any:
        accepted = {name: self._here(value) for name, value in inputs.items() if name in self._accepted}
        if "use_cache" in self._accepted:
            accepted["use_cache"] = "past_key_values" in inputs
        output = self._body(**accepted)
        return output.logits if self._rule is None else output.last_hidden_state

    def _here(self, value: Any) -> Any:
        return value.to(self.device) if isinstance(value, torch.Tensor) else value

    def _logits(self, states: Any) -> Any:
        return states if self._rule is None else self._rule(self._head(states))

    @_without_gradients
    def _find_rule(self, tokens: tuple[int, ...]) -> Callable[[Any], Any] | None:
        """What the model does to its head's output, or None where body and head apart do not give its logits."""
        if self._body is None or self._head is None:
            return None
        ids = torch.tensor([tokens], device=self.device)
        expected = self._model(input_ids=ids).logits.float()
        try:
            raw = self._head(self._body(input_ids=ids).last_hidden_state)
        except Exception:  # noqa: BLE001 - whatever an architecture does differently, its own forward still works
            return None
        for rule in _rules(self._model.config.get_text_config()):
            found = rule(raw).float()
            # not nearer: on a graphics card another kernel may round half precision differently
            if found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-2, atol=1e-3):
                return rule
        return None

    def _can_share(self, tokens: tuple[int, ...]) -> bool:
        """Whether two branches computed together under one past give what each gives alone."""
        stem, branches = tokens[:8], (tokens[8:20], tokens[20:])
        try:
            if not _has_plain_cache(self._model.config):
                return False
            first = self.cache([], 1)
            self.run([stem], first)
            shared = self.cache(self.path(first, 0, len(stem)), len(branches))
            together = self.run(branches, shared)
            apart = [self.run_alone(stem + branch)[0, len(stem) :] for branch in branches]
        except Exception:  # noqa: BLE001 - an architecture whose memory is another one fails in its own way
            return False
        if any(layer.keys.shape[-2] != len(stem) + len(branches[0]) for layer in shared.layers):
            return False
        noise = NOISE_NATS.get(self._model.dtype, COARSE_NOISE_NATS)
        return all(
            float((self._chosen(together[i, : len(branch)], branch) - self._chosen(alone, branch)).abs().max()) < noise
            for i, (branch, alone) in enumerate(zip(branches, apart, strict=True))
        )

    def _chosen(self, states: Any, tokens: tuple[int, ...]) -> Any:
        return torch.tensor(list(self.chosen_logprobs(states, tokens)))


@contextlib.contextmanager
def explained_memory() -> Iterator[None]:
    """Say what to do where a graphics card's memory does not suffice."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise PrerequisiteError(
            "the graphics card's memory does not suffice for this model: use a smaller model, another card, or HfModel "
            "with device='cpu'"
        ) from error


def _body(model: Any) -> Any:
    """The part below the head, or None where the model does not show it."""
    base = getattr(model, "base_model", None)
    if base is not None and base is not model:
        return base
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else None
    return None if decoder is model else decoder


def _rules(config: Any) -> Iterator[Callable[[Any], Any]]:
    """What models do to the output of their heads, those their config names first."""
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


def _has_plain_cache(config: Any) -> bool:
    """Whether transformers itself would keep nothing but keys and values for this model."""
    layers = DynamicCache(config=config).layers
    return {type(layer).__name__ for layer in layers} <= SHARED_CACHE_LAYERS
