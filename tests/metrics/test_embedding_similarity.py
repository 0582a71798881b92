"""BERTScore over sentences: expected values by hand."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from goldless.errors import PrerequisiteError
from goldless.metrics.catalogue import baseline
from goldless.metrics.embedding_similarity import SentenceSimilarity
from goldless.metrics.sentence_embedding import DEFAULT_MODEL, LibraryEncoder, SentenceEmbedder

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


@pytest.mark.parametrize("name", ["bertscore", "bertscore[some/model]"])
def test_a_model_without_its_package_says_what_to_install(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(PrerequisiteError, match=r"Run: pip install 'goldless\[embeddings\]'"):
        baseline(name).scores([("a", "b")])


@pytest.mark.parametrize("text", ["word " * 600, "각" * 300, "x" * 5000, "🎉 " * 400, "a-b" * 300])
def test_every_piece_of_a_long_sentence_fits_and_no_letter_is_lost(byte_encoder, text):
    embedder = SentenceEmbedder(lambda: byte_encoder, {})
    pieces = embedder.pieces(text.strip())
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert max(len(byte_encoder.tokenizer.encode(piece).ids) for piece in pieces) <= byte_encoder.limit


@pytest.fixture
def byte_encoder():
    """A model whose tokens are bytes, at most 64 of a sentence."""
    tokenizer = Tokenizer(models.BPE(vocab={chr(code): code for code in range(0x200)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return SimpleNamespace(tokenizer=tokenizer, limit=64)


def test_the_package_is_asked_for_whole_sentences_and_unit_vectors(monkeypatch):
    """A stand-in for sentence-transformers, whose tokenizer cuts and pads by default."""
    asked = {}

    class Model:
        max_seq_length = 7

        def __init__(self, name):
            asked["name"] = name
            tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
            tokenizer.enable_truncation(2)
            tokenizer.enable_padding()
            self.tokenizer = SimpleNamespace(backend_tokenizer=tokenizer)

        def encode(self, texts, **settings):
            asked.update(settings)
            return [[1.0, 0.0] for _ in texts]

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Model))
    encoder = LibraryEncoder(DEFAULT_MODEL)
    assert (encoder.limit, encoder.tokenizer.truncation, encoder.tokenizer.padding) == (7, None, None)
    assert encoder.encode(["a", "b"]).tolist() == [[1, 0], [1, 0]]
    assert asked["normalize_embeddings"] is True
    assert asked["name"] == "sentence-transformers/all-MiniLM-L6-v2"
