"""Word tokens: what BLEU and ROUGE count.

Four ways of cutting a text into words, each by name, because published figures hang on them:

``13a``
    sacreBLEU's default (that of WMT): punctuation on its own, case kept.
``nltk``
    NLTK's word tokenizer on one sentence after the other, case kept. NLTK's own ``word_tokenize`` works the same way,
    but finds sentences with a model that is a separate download; here they are goldless's.
``rouge``
    That of the ROUGE script and of ``rouge_score``: lower case, runs of the letters a-z and digits, nothing else.
``rouge-stems``
    The same, words of more than three letters stemmed by Porter's rules (``use_stemmer`` of ``rouge_score``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, Literal, get_args

from goldless.errors import MetricError, nearest
from goldless.sentences import split_sentences

Tokenisation = Literal["13a", "nltk", "rouge", "rouge-stems"]
Tokenizer = Callable[[str], Sequence[str]]

MADE_BY: dict[str, str] = {"13a": "sacrebleu", "nltk": "nltk", "rouge": "rouge-score", "rouge-stems": "rouge-score"}
STEMS_KEPT = 1 << 17
"""Words whose stems are remembered: stemming is most of the cost of ROUGE, and texts share most of their words."""


@cache
def word_tokenizer(tokenisation: Tokenisation) -> Tokenizer:
    """What cuts a text into tokens in this way. Packages are imported here, since they take a second."""
    if tokenisation not in get_args(Tokenisation):
        known = get_args(Tokenisation)
        raise MetricError(f"words are cut by {', '.join(known)}, not {tokenisation!r}{nearest(tokenisation, known)}")
    makers = {"13a": _sacrebleu, "nltk": _nltk, "rouge": _rouge, "rouge-stems": _rouge_stems}
    return makers[tokenisation]()


def tokenisation_signature(tokenisation: Tokenisation) -> str:
    """The tokenisation and the version of the package that makes it, for a signature."""
    package = MADE_BY[tokenisation]
    sentences = " by goldless's sentences" if tokenisation == "nltk" else ""
    return f"{tokenisation}{sentences} ({package} {version(package)})"


def _sacrebleu() -> Tokenizer:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a  # noqa: PLC0415

    # sacreBLEU's own cache would keep 65,536 texts alive
    cut: Callable[[Any, str], str] = Tokenizer13a.__call__.__wrapped__
    tokenizer = Tokenizer13a()  # type: ignore[no-untyped-call]
    return lambda text: cut(tokenizer, text.rstrip()).split()


def _nltk() -> Tokenizer:
    from nltk.tokenize.destructive import NLTKWordTokenizer  # type: ignore[import-untyped]  # noqa: PLC0415

    tokenizer = NLTKWordTokenizer()
    return lambda text: [word for sentence in split_sentences(text) for word in tokenizer.tokenize(sentence.text)]


def _rouge() -> Tokenizer:
    from rouge_score.tokenize import tokenize  # type: ignore[import-untyped]  # noqa: PLC0415

    return lambda text: list(tokenize(text, None))


def _rouge_stems() -> Tokenizer:
    from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]  # noqa: PLC0415
    from rouge_score.tokenize import tokenize  # noqa: PLC0415

    stemmer = _RememberedStems(PorterStemmer())
    return lambda text: list(tokenize(text, stemmer))


class _RememberedStems:
    """A stemmer that stems each word once."""

    def __init__(self, stemmer: Any) -> None:
        self.stem = lru_cache(maxsize=STEMS_KEPT)(stemmer.stem)
