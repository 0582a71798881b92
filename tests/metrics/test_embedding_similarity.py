"""BERTScore over sentences: expected values by hand; the packaged encoder computes what torch computes."""

from __future__ import annotations

import functools
import math
from functools import partial

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from goldless.errors import PrerequisiteError
from goldless.metrics import sentence_embedding
from goldless.metrics.catalogue import baseline
from goldless.metrics.embedding_similarity import SentenceSimilarity
from goldless.metrics.sentence_embedding import (
    PACKAGED,
    BertEncoder,
    SentenceEmbedder,
)

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


# --- the packaged encoder --------------------------------------------------------------------------------------------

SENTENCES = (
    "This is an example sentence",
    "Each sentence is converted",
    "The sample is small, and the third table contradicts the second.",
    "Brot wird im Kühlschrank schneller altbacken 🎉.",
    "no",
)
FIRST_FOUR = (
    (0.06765688, 0.06349587, 0.04871311, 0.07930495),
    (0.08643858, 0.10276254, 0.00539452, 0.00204437),
    (0.07399045, -0.03450198, -0.00665029, -0.01260487),
    (-0.03704112, 0.01045265, 0.01246293, -0.01980979),
    (-0.05909442, -0.00535651, 0.03958507, 0.02588294),
)
"""Of each vector, by transformers 5.22.2 on torch 2.13.0 (CPU): BertModel, mean over the mask, normalised."""
COSINES = {(0, 1): 0.4045592, (0, 2): 0.1671046, (1, 3): 0.1359768, (2, 3): 0.0089853, (3, 4): 0.1055848}
"""By the same."""


@functools.cache
def load() -> BertEncoder:
    return BertEncoder(PACKAGED.locate())


@pytest.fixture
def encoder() -> BertEncoder:
    try:
        return load()
    except PrerequisiteError as error:
        pytest.skip(f"no embedding model: {str(error).splitlines()[0]}")


@pytest.mark.embedded
def test_vectors_are_those_of_transformers(encoder):
    vectors = encoder.encode(SENTENCES)
    assert vectors.shape == (5, 384)
    assert vectors[:, :4] == pytest.approx(np.array(FIRST_FOUR), abs=2e-6)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-6)
    for (i, j), cosine in COSINES.items():
        assert vectors[i] @ vectors[j] == pytest.approx(cosine, abs=2e-6)


@pytest.mark.embedded
@pytest.mark.parametrize("text", ["word " * 600, "각" * 300, "x" * 5000, "🎉 " * 400, "a-b" * 300])
def test_every_piece_of_a_long_sentence_fits_and_no_letter_is_lost(encoder, text):
    embedder = SentenceEmbedder(lambda: encoder, {})
    pieces = embedder.pieces(text.strip())
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert max(len(encoder.tokenizer.encode(piece).ids) for piece in pieces) <= 256
    assert embedder.embed(pieces).shape == (len(pieces), 384)


# --- fetching ----------------------------------------------------------------------------------------------------


def test_without_a_package_index_the_message_says_what_to_copy_where(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(PrerequisiteError, match=r"copy model\.safetensors and tokenizer\.json .* bertscore\[NAME\]"):
        PACKAGED.locate()
