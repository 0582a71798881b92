"""A metric in ten lines: how many different long words of a response also occur in its peers' responses."""

from __future__ import annotations

import re


def informative(response: str, references: list[str]) -> float | None:
    """The mean over the peers of the number of words, six letters or longer, that both use; None without a peer."""
    words = [set(re.findall(r"[a-z]{6,}", text.lower())) for text in (response, *references)]
    shared = [len(words[0] & peer) for peer in words[1:]]
    return sum(shared) / len(shared) if shared else None
