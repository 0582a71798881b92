"""BLEU, ROUGE and length: baselines from the words of a response alone.

They are cheap, exact, and blind to meaning. A candidate without a word scores 0, since it shares nothing; a reference
without a word gives None, since nothing can be shared with it.

BLEU and ROUGE count word tokens. There are four tokenisations, each with a name, because published numbers depend on
them:

``13a``
    sacreBLEU's default (that of WMT): punctuation on its own, case kept.
``nltk``
    NLTK's word tokenizer on each sentence, case kept. NLTK's own ``word_tokenize`` works the same way, but finds
    sentences with a model that is a separate download; here goldless finds them.
``rouge``
    As in the ROUGE script and ``rouge_score``: lower case, runs of the letters a-z and digits, nothing else.
``rouge-stems``
    The same, words of more than three letters stemmed by ``porter.py`` (``use_stemmer`` of ``rouge_score``).

NLTK is in the extra ``baselines``, since only the metrics of PRE's table need it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import ClassVar, Literal

from goldless.metrics.metric import Extra
from goldless.metrics.porter import stem
from goldless.sentences import split_sentences

Tokenisation = Literal["13a", "nltk", "rouge", "rouge-stems"]
Tokenizer = Callable[[str], Sequence[str]]
TextPairs = Sequence[tuple[str, str]]
NGrams = Counter[tuple[str, ...]]

NLTK = Extra("baselines", "nltk")
ENTITIES = {"<skipped>": "", "-\n": "", "\n": " ", "&quot;": '"', "&amp;": "&", "&lt;": "<", "&gt;": ">"}
"""Replacements that ``13a`` makes first, in this order."""
WORD_BOUNDARIES = (
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
"""Where ``13a`` puts spaces: around punctuation, full stops and commas but between digits, and after 3 in "3-"."""
ROUGE_WORD = re.compile("[a-z0-9]+")
LONGEST_UNSTEMMED = 3
"""Letters of the longest words that ROUGE does not stem."""


@cache
def word_tokenizer(tokenisation: Tokenisation) -> Tokenizer:
    """The tokenizer with this name. NLTK is imported here, since that takes a second."""
    if tokenisation == "nltk":
        NLTK.load("NLTK's word tokenizer")
        from nltk.tokenize.destructive import NLTKWordTokenizer  # type: ignore[import-untyped]  # noqa: PLC0415

        words = NLTKWordTokenizer()
        return lambda text: [word for sentence in split_sentences(text) for word in words.tokenize(sentence.text)]
    return OWN_TOKENIZERS[tokenisation]


def words_of_13a(text: str) -> list[str]:
    """Cut a text into words as the script mteval-v13a of WMT does."""
    line = text.rstrip()
    for written, meant in ENTITIES.items():
        line = line.replace(written, meant)
    line = f" {line} "
    for boundary, replacement in WORD_BOUNDARIES:
        line = boundary.sub(replacement, line)
    return line.split()


def rouge_words(text: str) -> list[str]:
    """Cut a text into lower-case words of the letters a-z and digits."""
    return ROUGE_WORD.findall(text.lower())


def rouge_stems(text: str) -> list[str]:
    """Cut a text into lower-case words, those of more than three letters stemmed."""
    return [stem(word) if len(word) > LONGEST_UNSTEMMED else word for word in rouge_words(text)]


OWN_TOKENIZERS: Mapping[Tokenisation, Tokenizer] = {
    "13a": words_of_13a,
    "rouge": rouge_words,
    "rouge-stems": rouge_stems,
}


def tokenisation_signature(tokenisation: Tokenisation) -> str:
    """The tokenisation, and the version of its package if it has one, for a signature."""
    return f"nltk by goldless's sentences (nltk {version('nltk')})" if tokenisation == "nltk" else tokenisation


@dataclass(frozen=True)
class Bleu:
    """Sentence-level BLEU of Papineni et al. (2002), 0 to 1, higher is better.

    brevity penalty · exp(Σ_{n ≤ max_order} ln p_n / max_order), with p_n the clipped share of the candidate's n-grams
    that are in the reference. Nothing is smoothed, as in NLTK's default and the GEM paper: where some order has no
    match, the score is 0.
    """

    name: str = "bleu"
    max_order: int = 4
    """The highest order of n-grams, all weighted equally: 4 for BLEU, n for the cumulative BLEU-n."""
    tokens: Tokenisation = "13a"
    brevity_penalty: bool = True
    """False: short candidates are not penalised, so BLEU-1 is the precision of words."""
    unit: str = "BLEU"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            "order": str(self.max_order),
            "tokens": tokenisation_signature(self.tokens),
            "smooth": "none",
            "brevity": "yes" if self.brevity_penalty else "no",
        }

    @property
    def extra(self) -> Extra | None:
        return NLTK if self.tokens == "nltk" else None

    def scores(self, pairs: TextPairs) -> list[float | None]:
        """The score of each (candidate, reference)."""
        tokens = _tokens(pairs, self.tokens)
        orders = range(1, self.max_order + 1)
        ngrams = {text: [_ngrams(words, n) for n in orders] for text, words in tokens.items()}

        def score(candidate: str, reference: str) -> float | None:
            said, held = len(tokens[candidate]), len(tokens[reference])
            if not held:
                return None
            shared = [_shared(*both) for both in zip(ngrams[candidate], ngrams[reference], strict=True)]
            if not all(shared):
                return 0.0
            logs = [math.log(100 * count / (said - n + 1)) for count, n in zip(shared, orders, strict=True)]
            is_short = self.brevity_penalty and said < held
            penalty = math.exp(1 - held / said) if is_short else 1.0
            return penalty * math.exp(sum(logs) / self.max_order) / 100

        return _of_distinct(pairs, score)


@dataclass(frozen=True)
class Rouge:
    """ROUGE of Lin (2004) between two texts, the F-measure, 0 to 1, higher is better.

    ROUGE-n counts shared n-grams, ROUGE-L the longest common subsequence of the whole texts: precision is its share of
    the candidate, recall its share of the reference, F their harmonic mean. By default the numbers are those of the
    package ``rouge_score`` with its stemmer.
    """

    name: str = "rouge-l"
    counts: Literal[1, 2, "l"] = "l"
    """Shared words, shared pairs of words, or the longest common subsequence."""
    tokens: Tokenisation = "rouge-stems"
    unit: str = "ROUGE F"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @property
    def settings(self) -> Mapping[str, str]:
        return {"tokens": tokenisation_signature(self.tokens), "measure": "F"}

    @property
    def extra(self) -> Extra | None:
        return NLTK if self.tokens == "nltk" else None

    def scores(self, pairs: TextPairs) -> list[float | None]:
        """The score of each (candidate, reference)."""
        tokens, n = _tokens(pairs, self.tokens), self.counts
        places = {reference: token_places(tokens[reference]) for _, reference in pairs} if n == "l" else {}
        ngrams = {text: _ngrams(words, n) for text, words in tokens.items()} if n != "l" else {}
        fewer = 0 if n == "l" else n - 1

        def score(candidate: str, reference: str) -> float | None:
            said, held = tokens[candidate], tokens[reference]
            if not held:
                return None
            if n == "l":
                shared = common_subsequence(said, places[reference], len(held))
            else:
                shared = _shared(ngrams[candidate], ngrams[reference])
            if not shared:
                return 0.0
            precision, recall = shared / (len(said) - fewer), shared / (len(held) - fewer)
            return 2 * precision * recall / (precision + recall)

        return _of_distinct(pairs, score)


@dataclass(frozen=True)
class Length:
    """Number of words in the candidate, split at white space; the reference is ignored.

    Not a measure of quality: a metric that correlates with length as well as with people might measure length.
    """

    name: str = "length"
    unit: str = "words"

    @property
    def settings(self) -> Mapping[str, str]:
        return {"tokens": "white space"}

    @property
    def extra(self) -> None:
        return None

    def scores(self, pairs: TextPairs) -> list[float | None]:
        """The number of words of each candidate."""
        return [float(len(candidate.split())) for candidate, _ in pairs]


def _ngrams(tokens: Sequence[str], n: int) -> NGrams:
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))


def _shared(one: NGrams, other: NGrams) -> int:
    """The number of n-grams two texts share, each as often as it is in both."""
    if len(other) < len(one):
        one, other = other, one
    return sum(min(count, other[ngram]) for ngram, count in one.items() if ngram in other)


def token_places(tokens: Sequence[str]) -> dict[str, int]:
    """The positions of each token, as the bits of a number: bit i for position i."""
    places: dict[str, int] = {}
    for i, token in enumerate(tokens):
        places[token] = places.get(token, 0) | 1 << i
    return places


def common_subsequence(tokens: Sequence[str], places: Mapping[str, int], length: int) -> int:
    """Length of the longest common subsequence of tokens and of a text given as ``token_places`` and its length.

    Bit-parallel (Hyyrö 2004): a row of the usual table is one number whose zero bits are the places where the row
    rises, so a row costs a few operations on whole numbers.
    """
    everywhere = (1 << length) - 1
    flat = everywhere
    for token in tokens:
        if here := places.get(token):
            met = flat & here
            flat = (flat + met | flat - met) & everywhere
    return length - flat.bit_count()


def _tokens(pairs: TextPairs, tokenisation: Tokenisation) -> dict[str, Sequence[str]]:
    cut = word_tokenizer(tokenisation)
    return {text: cut(text) for text in dict.fromkeys(text for pair in pairs for text in pair)}


def _of_distinct(pairs: TextPairs, score: Callable[[str, str], float | None]) -> list[float | None]:
    """The score of every pair, each distinct one computed once."""
    known = {pair: score(*pair) for pair in dict.fromkeys(map(tuple, pairs))}
    return [known[candidate, reference] for candidate, reference in pairs]
