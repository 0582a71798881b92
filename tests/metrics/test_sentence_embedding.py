"""The packaged sentence encoder computes what torch computes, reads hostile texts as text, and is fetched safely."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from goldless.errors import PrerequisiteError
from goldless.metrics.sentence_embedding import (
    PACKAGED,
    BertEncoder,
    SentenceEmbedder,
)

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
