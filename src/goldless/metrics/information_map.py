"""The information map: which parts of a candidate's response predict which parts of a peer's.

For a candidate x and a peer y to the same task, token k of y gains log p(y_k | x, y_<k) - log p(y_k | y_<k) nats from
x; the gains of all tokens sum to the pair's PMI (see GEM). Sentence i of x contributes
log p(y | x) - log p(y | x without i), the nats of y that are lost when the sentence is left out.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from goldless.sentences import Sentence, split_sentences


@dataclass(frozen=True)
class TokenGain:
    """One token of the peer's response."""

    text: str
    """Empty for an end-of-turn token, and for a token that is only the first bytes of a character."""
    start: int
    """Index of its first character in the peer's text."""
    end: int
    gain_nats: float
    """Nats by which the candidate makes it likelier; negative where the candidate misleads."""


@dataclass(frozen=True)
class PeerSentence(Sentence):
    """One sentence of the peer's response."""

    gain_nats: float
    """Sum over its tokens, including the white space before it."""


@dataclass(frozen=True)
class CandidateSentence(Sentence):
    """One sentence of the candidate's response."""

    contribution_nats: float
    """Nats of the peer's response that are lost when this sentence is left out."""
    end_contribution_nats: float | None
    """The part of it on the end-of-turn token, which belongs to no sentence; None where there is none."""


@dataclass(frozen=True)
class InformationMap:
    """The sentences of a candidate's response that tell about a peer's, and the parts they tell about."""

    task: str
    agent: str
    """Whose response was known (x)."""
    peer: str
    """Whose response was predicted (y)."""
    total_nats: float
    """The pair's PMI: the gains of all sentences and of the end together."""
    end_gain_nats: float | None
    """Gain of the end-of-turn token; None where the scorer sums none."""
    tokens: tuple[TokenGain, ...]
    peer_sentences: tuple[PeerSentence, ...]
    candidate_sentences: tuple[CandidateSentence, ...]
    matrix_nats: tuple[tuple[float, ...], ...]
    """[candidate sentence][peer sentence]: the contribution of the one to the other."""
    agent_text: str
    peer_text: str
    """The text as the scorer's tokens spell it."""
    signature: str
    """The signature of the numbers."""

    def helps_most(self, candidate_sentence: int) -> int | None:
        """The peer sentence that loses most without this one; None if none loses anything."""
        row = self.matrix_nats[candidate_sentence]
        best = max(range(len(row)), key=row.__getitem__)
        return best if row[best] > 0 else None


def make_information_map(
    *,
    task: str,
    agent: str,
    peer: str,
    agent_text: str,
    agent_sentences: Sequence[Sentence],
    peer_sentences: Sequence[Sentence],
    pieces: Sequence[str],
    conditional_nats: Sequence[float],
    marginal_nats: Sequence[float],
    without_nats: Sequence[Sequence[float]],
    signature: str = "",
) -> InformationMap:
    """The map of one pair.

    ``pieces`` are the texts of y's tokens; the others are log-probabilities in nats of the same tokens: given x, given
    nothing, and given x without each of its sentences in turn. ``peer_sentences`` are those of the pieces joined.
    """
    peer_text, ends = "".join(pieces), list(itertools.accumulate(map(len, pieces)))
    starts = [0, *ends][: len(pieces)]
    homes = _homes(pieces, peer_sentences)
    gains = [value - base for value, base in zip(conditional_nats, marginal_nats, strict=True)]
    *by_sentence, end_gain = _sums(conditional_nats, marginal_nats, homes, len(peer_sentences))
    has_end = len(peer_sentences) in homes
    rows = [_sums(conditional_nats, values, homes, len(peer_sentences)) for values in without_nats]
    return InformationMap(
        task=task,
        agent=agent,
        peer=peer,
        total_nats=math.fsum(gains),
        end_gain_nats=end_gain if has_end else None,
        tokens=tuple(
            TokenGain(piece, start, end, gain)
            for piece, start, end, gain in zip(pieces, starts, ends, gains, strict=True)
        ),
        peer_sentences=tuple(
            PeerSentence(s.text, s.start, s.end, gain) for s, gain in zip(peer_sentences, by_sentence, strict=True)
        ),
        candidate_sentences=tuple(
            CandidateSentence(s.text, s.start, s.end, math.fsum(row), row[-1] if has_end else None)
            for s, row in zip(agent_sentences, rows, strict=True)
        ),
        matrix_nats=tuple(tuple(row[:-1]) for row in rows),
        agent_text=agent_text,
        peer_text=peer_text,
        signature=signature,
    )


def map_of_stored_values(
    candidate: str, peer: str, given: Sequence[float], marginal: Sequence[float], pieces: Sequence[str] | None
) -> tuple[InformationMap, bool] | None:
    """The map from the stored log p(y|x) and log p(y) of each token, and whether tokens have a position in the text.

    Contributions of the candidate's sentences are not known. None: these are not the values of the same tokens.
    """
    sentences, known = split_sentences(peer), split_sentences(candidate)
    if len(given) != len(marginal) or not given or not sentences or not known:
        return None
    placed = pieces is not None and len(pieces) == len(given) and "".join(pieces) == peer
    found = make_information_map(
        task="",
        agent="",
        peer="",
        agent_text=candidate,
        agent_sentences=known,
        peer_sentences=sentences,
        pieces=pieces if placed and pieces is not None else [""] * len(given),
        conditional_nats=given,
        marginal_nats=marginal,
        without_nats=[given] * len(known),  # no sentence was left out
    )
    return found, placed


def sentence_gains(
    pieces: Sequence[str], sentences: Sequence[Sentence], nats: Sequence[float], baseline_nats: Sequence[float]
) -> list[float]:
    """The gain in nats of each sentence of the pieces joined, from two log-probabilities of each piece."""
    return _sums(nats, baseline_nats, _homes(pieces, sentences), len(sentences))[:-1]


def _homes(pieces: Sequence[str], sentences: Sequence[Sentence]) -> list[int]:
    """The sentence each token belongs to, by where it starts; ``len(sentences)`` for one after the end of the text.

    It is the sentence of the token's first character, or the next one where that is white space between two; behind
    the last sentence it is the last.
    """
    ends, length, start, homes = [sentence.end for sentence in sentences], sum(map(len, pieces)), 0, []
    for piece in pieces:
        inside = min(bisect.bisect_right(ends, start), len(sentences) - 1)
        homes.append(len(sentences) if start == length else inside)
        start += len(piece)
    return homes


def _sums(nats: Sequence[float], baseline: Sequence[float], homes: Sequence[int], sentences: int) -> list[float]:
    """Sums of the differences by sentence, and last that of the tokens after the end of the text."""
    gains: list[list[float]] = [[] for _ in range(sentences + 1)]
    for value, base, home in zip(nats, baseline, homes, strict=True):
        gains[home].append(value - base)
    return list(map(math.fsum, gains))
