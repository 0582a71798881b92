"""BERTScore over sentences: the best cosine for each sentence, averaged; expected values are done by hand."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from goldless.errors import PrerequisiteError
from goldless.metrics import sentence_embedding
from goldless.metrics.catalogue import baseline
from goldless.metrics.embedding_similarity import SentenceSimilarity
from goldless.metrics.sentence_embedding import SentenceEmbedder

EAST, NORTH, WEST = (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)
NORTH_EAST = (math.sqrt(0.5), math.sqrt(0.5))
DIRECTIONS = {"Go east.": EAST, "Go north.": NORTH, "Go west.": WEST, "Go north-east.": NORTH_EAST}


class Compass:
    """A model that knows four sentences; anything else points east."""

    limit = 12

    def __init__(self) -> None:
        self.tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
        self.tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        self.asked: list[str] = []

    def encode(self, texts):
        self.asked += texts
        return np.array([DIRECTIONS.get(text, EAST) for text in texts], dtype=np.float32)


@pytest.fixture
def compass():
    return Compass()


@pytest.fixture
def score(compass):
    embedder = SentenceEmbedder(lambda: compass, {"model": "compass"})

    def run(measure, *pairs):
        return SentenceSimilarity("bertscore", measure, lambda: embedder).scores(pairs)

    run.embedder = embedder
    return run


def test_precision_goes_over_the_candidates_sentences_and_recall_over_the_references(score):
    """Candidate east, north; reference east alone: cosines 1 and 0, so precision 1/2, recall 1, F1 2/3."""
    pair = ("Go east. Go north.", "Go east.")
    assert score("precision", pair) == [pytest.approx(1 / 2)]
    assert score("recall", pair) == [pytest.approx(1)]
    assert score("f1", pair) == [pytest.approx(2 / 3)]


def test_opposite_meanings_are_below_zero_and_f1_is_then_zero(score):
    assert score("precision", ("Go east.", "Go west.")) == [pytest.approx(-1)]
    assert score("f1", ("Go east.", "Go west.")) == [0.0]


def test_nothing_said_scores_zero_and_nothing_to_compare_with_is_missing(score):
    assert score("f1", ("", "Go east."), ("Go east.", " \n"), ("", "")) == [0.0, None, None]


def test_each_distinct_sentence_is_computed_once_even_over_several_metrics(score, compass):
    for measure in ("f1", "precision", "recall"):
        score(measure, ("Go east. Go north.", "Go north. Go west."), ("Go east.", "Go west."))
    assert sorted(compass.asked) == ["Go east.", "Go north.", "Go west."]


def test_a_sentence_too_long_for_the_model_is_cut_into_pieces_and_nothing_is_lost(score, compass):
    words = [f"word{i}" for i in range(40)]
    sentence = " ".join(words) + "."
    score("f1", (sentence, "Go east."))
    pieces = [piece for piece in compass.asked if piece.startswith("word")]
    assert " ".join(pieces) == sentence
    assert all(len(piece.split()) <= Compass.limit for piece in pieces)


def test_a_named_model_without_its_package_says_what_to_install(monkeypatch):
    def refuse(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(sentence_embedding.importlib, "import_module", partial(refuse))
    with pytest.raises(PrerequisiteError, match=r"pip install 'goldless\[embeddings\]'"):
        baseline("bertscore[some/model]").scores([("a", "b")])


@pytest.mark.embedded
def test_the_packaged_model_puts_a_paraphrase_above_another_topic():
    """Not a value but an order: what the metric is for."""
    reference = "The experiments use too few data sets. The writing is clear."
    same = "There should be experiments on more data. It is well written."
    other = "The soup needs salt. Bread goes stale faster in the fridge."
    try:
        found = baseline("bertscore").scores([(same, reference), (other, reference), (reference, reference)])
    except PrerequisiteError as error:
        pytest.skip(f"no embedding model: {str(error).splitlines()[0]}")
    assert found[1] < found[0] < found[2] == pytest.approx(1, abs=1e-6)
