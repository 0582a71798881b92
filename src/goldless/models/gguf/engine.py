"""The engine of GGUF models: two onnxruntime sessions, of the body and of the head."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from goldless.models.gguf.checkpoint import Architecture, FloatArray
from goldless.models.gguf.graph import past_names
from goldless.models.local_engine import HEAD_ELEMENTS, LocalEngine

CALL_TOKENS = 384
BLOCKED = np.float32(-1e30)
"""Added to the score of a position that must not be seen."""

Past = list[FloatArray]
"""Keys and values of a path, layer by layer: [key-value heads, tokens, head size]."""


class Engine(LocalEngine):
    """Computes with the graphs in a folder, on the CPU."""

    def __init__(self, architecture: Architecture, folder: Path, *, threads: int | None = None) -> None:
        super().__init__(call_tokens=CALL_TOKENS)
        self.architecture = architecture
        self._folder = folder
        self._threads = threads or available_cores()
        self._past_names = past_names(architecture)

    # weights are loaded when first needed: a run that finds everything in the journal needs none

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

    def _run(self, rows: Sequence[tuple[int, ...]], past: Past | None) -> tuple[FloatArray, Callable[[int], Past]]:
        if past is None:
            shape = (self.architecture.key_value_heads, 0, self.architecture.head_size)
            past = [np.zeros(shape, np.float32) for _ in self._past_names]
        lengths, before = np.asarray([len(row) for row in rows]), past[0].shape[1]
        column = np.arange(lengths.max())
        inside = column[None, :] < lengths[:, None]
        ends = np.cumsum(lengths)
        # padding is at the end of a row, so hiding the future keeps it out of every real position
        mask = np.where(np.arange(before + len(column)) > before + column[:, None], BLOCKED, np.float32(0))
        feed: dict[str, Any] = {
            "ids": np.concatenate([np.asarray(row, np.int64) for row in rows]),
            "positions": np.concatenate([np.arange(before, before + length, dtype=np.int64) for length in lengths]),
            "rows": np.where(inside, (ends - lengths)[:, None] + column[None, :], 0).astype(np.int64),
            "places": np.flatnonzero(inside).astype(np.int64),
            "mask": np.broadcast_to(mask, (len(rows), *mask.shape)),
            **{f"past_{name}": array for name, array in zip(self._past_names, past, strict=True)},
        }
        hidden, *new = self._body.run(None, feed)

        def extended(row: int) -> Past:
            own = slice(ends[row] - lengths[row], ends[row])
            return [
                np.concatenate([old, fresh[own].transpose(1, 0, 2)], axis=1)
                for old, fresh in zip(past, new, strict=True)
            ]

        return hidden, extended

    def _chosen(self, states: FloatArray, tokens: Sequence[int]) -> Iterator[float]:
        targets, size = np.asarray(tokens, np.int64), max(1, HEAD_ELEMENTS // self.architecture.vocabulary)
        for begin in range(0, len(targets), size):
            feed = {"hidden": states[begin : begin + size], "targets": targets[begin : begin + size]}
            yield from self._head.run(["chosen"], feed)[0]

    def _logprobs(self, state: FloatArray) -> FloatArray:
        feed = {"hidden": state, "targets": np.zeros(1, np.int64)}
        logits, normaliser = self._head.run(["logits", "normaliser"], feed)
        logprobs: FloatArray = (logits - normaliser)[0]
        return logprobs


def available_cores() -> int:
    """Cores this process may use; OMP_NUM_THREADS limits them, as Ray and batch systems set it for their workers."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
