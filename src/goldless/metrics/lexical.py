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
    The same, words of more than three letters stemmed by Porter's rules (``use_stemmer`` of ``rouge_score``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, ClassVar, Literal

from goldless.sentences import split_sentences

Tokenisation = Literal["13a", "nltk", "rouge", "rouge-stems"]
Tokenizer = Callable[[str], Sequence[str]]
TextPairs = Sequence[tuple[str, str]]
NGrams = Counter[tuple[str, ...]]

MADE_BY: dict[str, str] = {"13a": "sacrebleu", "nltk": "nltk", "rouge": "rouge-score", "rouge-stems": "rouge-score"}
STEMS_KEPT = 1 << 17
"""Words whose stems are remembered: stemming is most of the cost of ROUGE, and texts share most of their words."""


@cache
def word_tokenizer(tokenisation: Tokenisation) -> Tokenizer:
    """The tokenizer with this name. Its package is imported here, since that takes a second."""
    if tokenisation == "13a":
        from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a  # noqa: PLC0415

        # sacreBLEU's own cache would keep 65,536 texts alive
        cut: Callable[[Any, str], str] = Tokenizer13a.__call__.__wrapped__
        made = Tokenizer13a()  # type: ignore[no-untyped-call]
        return lambda text: cut(made, text.rstrip()).split()
    if tokenisation == "nltk":
        from nltk.tokenize.destructive import NLTKWordTokenizer  # type: ignore[import-untyped]  # noqa: PLC0415

        words = NLTKWordTokenizer()
        return lambda text: [word for sentence in split_sentences(text) for word in words.tokenize(sentence.text)]
    from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]  # noqa: PLC0415
    from rouge_score.tokenize import tokenize  # type: ignore[import-untyped]  # noqa: PLC0415

    stemmer = _RememberedStems(PorterStemmer()) if tokenisation == "rouge-stems" else None
    return lambda text: list(tokenize(text, stemmer))


class _RememberedStems:
    """A stemmer that stems each word once."""

    def __init__(self, stemmer: Any) -> None:
        self.stem = lru_cache(maxsize=STEMS_KEPT)(stemmer.stem)


def tokenisation_signature(tokenisation: Tokenisation) -> str:
    """The tokenisation and the version of the package that makes it, for a signature."""
    package = MADE_BY[tokenisation]
    sentences = " by goldless's sentences" if tokenisation == "nltk" else ""
    return f"{tokenisation}{sentences} ({package} {version(package)})"


@dataclass(frozen=True, slots=True)
class Bleu:
    """Sentence-level BLEU of Papineni et al. (2002), 0 to 1, higher is better.

    brevity penalty · exp(Σ_{n ≤ max_order} ln p_n / max_order), with p_n the clipped share of the candidate's n-grams
    that are in the reference. Nothing is smoothed, as in NLTK's default and the GEM paper: where some order has no
    match, the score is 0. The arithmetic is sacreBLEU's.
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

    def scores(self, pairs: TextPairs) -> list[float | None]:
        """The score of each (candidate, reference)."""
        from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415 - only when it is asked for

        tokens = _tokens(pairs, self.tokens)
        orders = range(1, self.max_order + 1)
        ngrams = {text: [_ngrams(words, n) for n in orders] for text, words in tokens.items()}

        def score(candidate: str, reference: str) -> float | None:
            said, held = len(tokens[candidate]), len(tokens[reference])
            if not held:
                return None
            correct = [_shared(*both) for both in zip(ngrams[candidate], ngrams[reference], strict=True)]
            total = [max(0, said - n + 1) for n in orders]
            length = held if self.brevity_penalty else said
            result = BLEU.compute_bleu(correct, total, said, length, "none", None, False, self.max_order)
            return float(result.score) / 100

        return _of_distinct(pairs, score)


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Length:
    """Number of words in the candidate, split at white space; the reference is ignored.

    Not a measure of quality: a metric that correlates with length as well as with people might measure length.
    """

    name: str = "length"
    unit: str = "words"

    @property
    def settings(self) -> Mapping[str, str]:
        return {"tokens": "white space"}

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
