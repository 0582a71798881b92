"""The baselines by name: BLEU, ROUGE, length and BERTScore, each made anew when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from goldless.errors import MetricError, nearest
from goldless.metrics.embedding_similarity import Measure, SentenceSimilarity
from goldless.metrics.lexical import Bleu, Length, Rouge
from goldless.metrics.text_metrics import TextPairMetric
from goldless.models.sentence_embedding import named_embedder

Factory = Callable[[], TextPairMetric]

EMBEDDED: Mapping[str, Measure] = MappingProxyType(
    {"bertscore": "f1", "bertscore-precision": "precision", "bertscore-recall": "recall"}
)
"""Those that take a model: ``bertscore[NAME]``."""

BASELINES: Mapping[str, Factory] = MappingProxyType(
    {
        "bleu": Bleu,
        "bleu-1": partial(Bleu, "bleu-1", 1),
        "bleu-2": partial(Bleu, "bleu-2", 2),
        "rouge-1": partial(Rouge, "rouge-1", 1),
        "rouge-2": partial(Rouge, "rouge-2", 2),
        "rouge-l": Rouge,
        **{name: partial(SentenceSimilarity, name, measure) for name, measure in EMBEDDED.items()},
        "length": Length,
        # as in PRE's table 2(b): NLTK's words, case and endings kept, no brevity penalty
        "pre-bleu-1": partial(Bleu, "pre-bleu-1", 1, "nltk", brevity_penalty=False),
        "pre-bleu-2": partial(Bleu, "pre-bleu-2", 2, "nltk", brevity_penalty=False),
        "pre-rouge-1": partial(Rouge, "pre-rouge-1", 1, "nltk"),
        "pre-rouge-2": partial(Rouge, "pre-rouge-2", 2, "nltk"),
        "pre-rouge-l": partial(Rouge, "pre-rouge-l", "l", "nltk"),
    }
)
"""What makes each baseline. Making one loads and imports nothing."""


def baseline(name: str) -> TextPairMetric:
    """The baseline of this name: one of ``BASELINES``, or ``bertscore[NAME]`` with a sentence-transformers model."""
    if name in BASELINES:
        return BASELINES[name]()
    kind, bracket, model = name.removesuffix("]").partition("[")
    if kind in EMBEDDED and bracket and name.endswith("]") and model.strip():
        return SentenceSimilarity(name, EMBEDDED[kind], partial(named_embedder, model.strip()))
    raise MetricError(
        f"{name!r} is no baseline{nearest(name, BASELINES)}. There are {', '.join(BASELINES)}, and bertscore[NAME] "
        "with a model of sentence-transformers."
    )
