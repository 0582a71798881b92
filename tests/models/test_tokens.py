"""The texts of tokens, joined, are the text that was encoded; how long a request is, counted or estimated."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from goldless.models.interface import Message
from goldless.models.tokens import (
    RequestLength,
    TextTokenizer,
    context_limit,
    estimated_tokens,
    fast_tokenizer,
    request_length,
    token_texts,
)

texts = st.text(alphabet=st.characters(exclude_categories=("Cs",)))


def byte_level(merges: list[tuple[str, str]] = ()) -> TextTokenizer:
    """One token a byte but for the merges; the library's own byte alphabet."""
    symbols = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(merge) for merge in merges)]
    tokenizer = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(symbols)}, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return fast_tokenizer(tokenizer)


def test_a_tokenizer_can_be_sent_to_another_process():
    own = byte_level([("a", "b")])
    own.text_ids("abc")
    sent = pickle.loads(pickle.dumps(own))
    assert sent.text_ids("abcab") == own.text_ids("abcab")
    assert sent.control == own.control


def byte_fallback(*, strips: bool) -> TextTokenizer:
    """A SentencePiece-like tokenizer that puts a blank before every text."""
    symbols = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a"]
    model = models.BPE({s: i for i, s in enumerate(symbols)}, [("▁", "a")], unk_token="<unk>", byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    end = [decoders.Strip(" ", 1, 0)] if strips else []
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *end])
    return fast_tokenizer(tokenizer)


def pieces(tokenizer: TextTokenizer, text: str) -> tuple[str, ...] | None:
    return token_texts(tokenizer, tokenizer.text_ids(text))


def test_a_character_of_several_bytes_belongs_to_the_token_that_completes_it():
    # é has two bytes in UTF-8, 你 three, 😀 four
    assert pieces(byte_level(), "aé你b😀") == ("a", "", "é", "", "", "你", "b", "", "", "", "😀")


@pytest.mark.parametrize("strips", [True, False])
def test_the_blank_that_a_tokenizer_adds_is_in_no_token(strips):
    tokenizer = byte_fallback(strips=strips)
    assert pieces(tokenizer, "a b a") == ("a", " ", "b", " a")
    assert "".join(pieces(tokenizer, "é b")) == "é b"
    assert "".join(pieces(tokenizer, " a")) == " a"


@given(texts)
def test_joined_pieces_are_the_text_one_piece_a_token(text):
    tokenizer = byte_level()
    found = pieces(tokenizer, text)
    assert "".join(found) == text
    assert len(found) == len(text.encode())


@pytest.mark.embedded
@pytest.mark.anyio
async def test_the_embedded_model_spells_its_target_and_ends_with_nothing(embedded):
    target = "Naïve 😀 你好: see Sec. 3.2,\n\n- <|im_end|> is only text.  Done "
    request = await embedded.encode([Message("user", "x")], target)
    found = await embedded.pieces(request)
    assert len(found) == len(request.target)
    assert found[-1] == ""
    assert "".join(found) == target


PAPER_LIKE = (
    "We fit y = Wx + b with W ∈ R^{d×k} by SGD (lr 3e-4, 10,000 steps). Table 2: 71.3 ± 0.4 | 68.9 ± 0.6 | 70.2 ± 0.5. "
    "Our method outperforms the baselines of Müller et al. [17] on 4/5 data sets, except Omniglot (cf. Sec. 4.2).\n"
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("x", 1), ("xxx", 1), ("xxxx", 2), ("a b", 1), ("12.5", 4), ("\n", 1), ("é", 2), ("ab∈", 3)],
)
def test_an_estimate_is_a_token_for_three_letters_or_one_sign_and_two_beyond_ascii(text, tokens):
    assert estimated_tokens(text) == tokens


@pytest.mark.embedded
@pytest.mark.anyio
async def test_a_model_on_this_machine_counts_the_tokens_that_it_reads_and_the_estimate_is_not_below(embedded):
    messages = (Message("system", "You read papers."), Message("user", PAPER_LIKE * 3))
    found = await request_length(embedded, messages)
    scored = await embedded.encode(messages, "Fine.")
    assert found == RequestLength(len(scored.context), exact=True)
    assert estimated_tokens(PAPER_LIKE * 3) > found.tokens
    assert context_limit(embedded, None) == 8192
    assert context_limit(embedded, 1000) == 1000
