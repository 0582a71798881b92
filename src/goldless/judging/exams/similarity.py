"""How alike two prompts are, by their words: the cosine of TF-IDF weights. No model is asked.

A word is a run of letters, digits and underscores in lower case. Its weight in a prompt is the number of times it
stands there times ln((1 + n) / (1 + d)) + 1, for n prompts of which d hold it. So 1 is the same words in the same
shares, 0 is no word in common, and words that stand in every prompt, as instructions do, count least.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from scipy import sparse

DIGITS = 12
"""Similarities that differ by rounding alone are equal, so that names decide between them."""


class PromptSimilarity:
    """The prompts of a study, by task, ready to be compared."""

    def __init__(self, prompts: Mapping[str, str]) -> None:
        self.tasks = tuple(sorted(prompts))
        """Sorted by name: the order of rows must change nothing."""
        self._place = {task: place for place, task in enumerate(self.tasks)}
        counts = [Counter(re.findall(r"\w+", prompts[task].casefold())) for task in self.tasks]
        held = Counter(word for count in counts for word in count)
        column = {word: number for number, word in enumerate(sorted(held))}
        rarity = np.log((1 + len(counts)) / (1 + np.array([held[word] for word in column], dtype=float))) + 1
        places = np.repeat(np.arange(len(counts)), [len(count) for count in counts])
        words = np.array([column[word] for count in counts for word in count], dtype=np.int64)
        times = np.array([n for count in counts for n in count.values()], dtype=float)
        weights = sparse.csr_array((times * rarity[words], (places, words)), shape=(len(counts), len(column)))
        lengths = np.sqrt(weights.multiply(weights).sum(axis=1))
        shares = weights.data / np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(weights.indptr))
        self._weights = sparse.csr_array((shares, weights.indices, weights.indptr), shape=weights.shape)

    def with_all(self, task: str) -> npt.NDArray[np.float64]:
        """The similarity of the task's prompt with that of each of ``tasks``, in their order."""
        place = self._place[task]
        found = self._weights @ self._weights[[place]].toarray().ravel()
        rounded: npt.NDArray[np.float64] = np.round(found, DIGITS)
        return rounded

    def nearest_first(self, task: str) -> list[tuple[str, float]]:
        """The other tasks with their similarity, the most alike first; equal ones by name."""
        values = self.with_all(task)
        order = np.argsort(-values, kind="stable").tolist()  # tasks are sorted, so equal ones stay in that order
        return [(self.tasks[place], float(values[place])) for place in order if self.tasks[place] != task]


def same_words(one: str, other: str) -> bool:
    """Whether two texts differ in nothing but case, spaces and punctuation at their ends."""
    return _plain(one) == _plain(other)


def _plain(text: str) -> str:
    return re.sub(r"^[\W_]+|[\W_]+$", "", " ".join(text.split()).casefold())
