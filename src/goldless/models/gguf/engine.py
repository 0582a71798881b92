"""The engine: onnxruntime sessions, the walk over the prefix tree, and generation.

One call of the body computes several siblings of the tree under the keys and values of their common path. So a shared
part is computed once, and no position attends to a token outside its own past.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

from goldless.models.gguf.checkpoint import Architecture, FloatArray
from goldless.models.gguf.graph import past_names
from goldless.models.local_engine import HEAD_ELEMENTS, Check, LocalEngine, Pair, read_scored
from goldless.models.prefix_tree import Node, build_tree

if TYPE_CHECKING:
    from pathlib import Path

MOST_TOKENS_A_CALL = 384
BLOCKED = np.float32(-1e30)
"""Added to the score of a position that must not be seen."""

Past = list[FloatArray]
"""Keys and values of a path, layer by layer: [key-value heads, tokens, head size]."""


class Engine(LocalEngine):
    """Computes log-probabilities and continuations of token ids."""

    def __init__(self, architecture: Architecture, folder: Path, *, threads: int | None = None) -> None:
        """Weights are loaded when first needed: a run that finds everything in the journal needs none."""
        super().__init__()
        self.architecture = architecture
        self._folder = folder
        self._threads = threads or available_cores()
        self._past_names = past_names(architecture)

    @cached_property
    def _body(self) -> Any:
        return self._session("body.onnx")

    @cached_property
    def _head(self) -> Any:
        return self._session("head.onnx")

    def _session(self, name: str) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 3
        options.enable_mem_pattern = False  # made for inputs of one shape; with ours it only keeps memory
        return onnxruntime.InferenceSession(self._folder / name, options, providers=["CPUExecutionProvider"])

    def _score(self, requests: Sequence[Pair], results: list[FloatArray], check: Check) -> None:
        # the last token of a target is predicted, never read: it need not be computed
        root = build_tree([context + target[:-1] for context, target in requests])
        stack = [(pack, self._empty_past()) for pack in _packs(root.children)]
        while stack:
            check()
            nodes, past = stack.pop()
            hidden, new = self._run_siblings(nodes, past)
            self._read(nodes, hidden, requests, results)
            row = 0
            for node in nodes:
                if node.children:
                    path = _extended(past, new, row, row + len(node.tokens))
                    stack.extend((pack, path) for pack in _packs(node.children))
                row += len(node.tokens)

    def _run_siblings(self, nodes: Sequence[Node], past: Past) -> tuple[FloatArray, Past]:
        """Hidden states of all tokens of sibling nodes, and their keys and values, packed."""
        lengths = [len(node.tokens) for node in nodes]
        ids = np.concatenate([np.asarray(node.tokens, np.int64) for node in nodes])
        positions = np.concatenate([np.arange(node.start, node.end, dtype=np.int64) for node in nodes])
        longest, before = max(lengths), past[0].shape[1]
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        column = np.arange(longest)
        inside = column[None, :] < np.asarray(lengths)[:, None]
        rows = np.where(inside, starts[:, None] + column[None, :], 0).astype(np.int64)
        # padding is at the end of a row, so hiding the future keeps it out of every real position
        mask = np.where(np.arange(before + longest) > before + column[:, None], BLOCKED, np.float32(0))
        feed: dict[str, Any] = {
            "ids": ids,
            "positions": positions,
            "rows": rows,
            "places": np.flatnonzero(inside).astype(np.int64),
            "mask": np.broadcast_to(mask, (len(nodes), *mask.shape)),
            **{f"past_{name}": array for name, array in zip(self._past_names, past, strict=True)},
        }
        hidden, *new = self._body.run(None, feed)
        return hidden, new

    def _read(self, nodes: Sequence[Node], hidden: FloatArray, requests: Any, results: list[FloatArray]) -> None:
        """Run the head on the positions whose next token is scored, and store the results."""
        starts = np.cumsum([0, *(len(node.tokens) for node in nodes)])
        size = max(1, HEAD_ELEMENTS // self.architecture.vocabulary)

        def chosen(siblings: list[int], places: list[int], tokens: list[int]) -> Iterator[float]:
            rows, targets = starts[siblings] + places, np.asarray(tokens, np.int64)
            for begin in range(0, len(rows), size):
                end = begin + size
                feed = {"hidden": hidden[rows[begin:end]], "targets": targets[begin:end]}
                yield from self._head.run(["chosen"], feed)[0]

        read_scored(nodes, requests, results, chosen)

    def _follower(self, check: Check) -> Callable[[tuple[int, ...]], FloatArray]:
        past, position = self._empty_past(), 0

        def behind(tokens: tuple[int, ...]) -> FloatArray:
            nonlocal past, position
            hidden = np.zeros((1, 1), np.float32)
            for begin in range(0, len(tokens), MOST_TOKENS_A_CALL):
                check()
                piece = tokens[begin : begin + MOST_TOKENS_A_CALL]
                hidden, new = self._run_siblings([Node(position, piece, [])], past)
                hidden, past = hidden[-1:], _extended(past, new, 0, len(piece))
                position += len(piece)
            feed = {"hidden": hidden, "targets": np.zeros(1, np.int64)}
            logits, normaliser = self._head.run(["logits", "normaliser"], feed)
            logprobs: FloatArray = (logits - normaliser)[0]
            return logprobs

        return behind

    def _empty_past(self) -> Past:
        shape = (self.architecture.key_value_heads, 0, self.architecture.head_size)
        return [np.zeros(shape, np.float32) for _ in self._past_names]


def available_cores() -> int:
    """Cores this process may use; OMP_NUM_THREADS limits them, as Ray and batch systems set it for their workers."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _packs(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Siblings in groups of similar length that fill a call."""
    pack: list[Node] = []
    size = 0
    for node in sorted(nodes, key=lambda n: len(n.tokens)):
        if pack and size + len(node.tokens) > MOST_TOKENS_A_CALL:
            yield pack
            pack, size = [], 0
        pack.append(node)
        size += len(node.tokens)
    if pack:
        yield pack


def _extended(past: Past, new: Past, begin: int, end: int) -> Past:
    """The past followed by some of the new tokens."""
    return [
        np.concatenate([old, fresh[begin:end].transpose(1, 0, 2)], axis=1) for old, fresh in zip(past, new, strict=True)
    ]
