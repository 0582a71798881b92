"""all-MiniLM-L6-v2 on onnxruntime: sentences in, unit vectors out, on this machine's processor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from goldless.models.sentence_embedding.bert_graph import BertShape, FloatArray, encoder_graph, read_safetensors
from goldless.models.sentence_embedding.packaged import LIMIT, TOKENIZER, WEIGHTS

SHAPE = BertShape(layers=6, heads=12, norm_epsilon=1e-12)
BATCH_TOKENS = 1024
"""Tokens computed at once, padding counted: more is no faster on a processor."""


class BertEncoder:
    """The encoder and its tokenizer."""

    limit = LIMIT

    def __init__(self, folder: Path) -> None:
        """Reads the files in the folder; takes about a second."""
        self.tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.tokenizer.encode_special_tokens = True  # "[SEP]" in a response stays five characters
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        graph = encoder_graph(read_safetensors(folder / WEIGHTS), SHAPE)
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One vector of length 1 a text, none of which is longer than the limit."""
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        vectors = np.empty((len(ids), self._session.get_outputs()[0].shape[1]), dtype=np.float32)
        for batch in _batches([len(one) for one in ids]):
            longest = max(len(ids[i]) for i in batch)
            padded, mask = np.zeros((2, len(batch), longest), dtype=np.int64)
            for row, i in enumerate(batch):
                padded[row, : len(ids[i])] = ids[i]
                mask[row, : len(ids[i])] = 1
            vectors[batch] = self._session.run(None, {"ids": padded, "mask": mask})[0]
        return vectors


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Places of texts to compute together: of like length, so that little is padding."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[i] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
