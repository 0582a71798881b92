"""BERTScore over sentences, as the GEM paper computes it (appendix D.3): how close two texts are in meaning.

Each text is cut into sentences and each sentence is embedded. Precision is the mean, over the candidate's sentences, of
the cosine to the nearest sentence of the reference; recall is the same over the reference's sentences; F1 is their
harmonic mean. The original BERTScore (Zhang et al. 2020) does this with tokens, so its numbers differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from goldless.metrics.metric import Extra
from goldless.metrics.sentence_embedding import SentenceEmbedder, default_embedder
from goldless.sentences import split_sentences

Measure = Literal["f1", "precision", "recall"]
FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class SentenceSimilarity:
    """BERTScore of sentences, at most 1, higher is better.

    A candidate without a sentence scores 0; a reference without one gives None. F1 is 0 where precision or recall is
    0 or less, the limit of the harmonic mean.
    """

    name: str = "bertscore"
    measure: Measure = "f1"
    embedder: Callable[[], SentenceEmbedder] = default_embedder
    """Returns the model, which is loaded for the first score."""
    unit: str = "cosine"

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings for the signature; does not load the model."""
        return {**self.embedder().settings, "sentences": "default", "measure": self.measure}

    @property
    def extra(self) -> Extra | None:
        return self.embedder().extra

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """The score of each (candidate, reference); each distinct sentence is embedded once."""
        vectors = self._vectors(list(dict.fromkeys(text for pair in pairs for text in pair)))
        known = {pair: _score(vectors[pair[0]], vectors[pair[1]], self.measure) for pair in dict.fromkeys(pairs)}
        return [known[pair] for pair in pairs]

    def _vectors(self, texts: Sequence[str]) -> dict[str, FloatArray]:
        """The vectors of each text's sentences, [sentences, width]."""
        embedder = self.embedder()
        cut = {t: [piece for s in split_sentences(t) for piece in embedder.pieces(s.text)] for t in texts}
        distinct = list(dict.fromkeys(piece for pieces in cut.values() for piece in pieces))
        if not distinct:
            return {text: np.empty((0, 0), dtype=np.float32) for text in texts}
        place = {piece: i for i, piece in enumerate(distinct)}
        matrix = embedder.embed(distinct)
        return {text: matrix[[place[piece] for piece in pieces]] for text, pieces in cut.items()}


def _score(candidate: FloatArray, reference: FloatArray, measure: Measure) -> float | None:
    if not len(reference):
        return None
    if not len(candidate):
        return 0.0
    cosines = candidate.astype(np.float64) @ reference.astype(np.float64).T
    precision, recall = float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())
    if measure != "f1":
        return precision if measure == "precision" else recall
    return 2 * precision * recall / (precision + recall) if min(precision, recall) > 0 else 0.0
