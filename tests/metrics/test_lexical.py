"""BLEU and ROUGE give what sacreBLEU, NLTK and rouge_score give, whatever the texts; each text is cut once."""

from __future__ import annotations

import logging
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.bleu_score import sentence_bleu
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU

from goldless.metrics.catalogue import baseline
from goldless.metrics.lexical import Bleu, Length, Rouge, word_tokenizer

logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # it advises against what the paper did

WORDS = ("the", "cat", "cats", "sat", "running", "runs", "3.5", "e.g.", "Don't", "naïve", "-", ".", "\n", "[[A]]", "🎉")
texts = st.one_of(st.lists(st.sampled_from(WORDS), max_size=90).map(" ".join), st.text(max_size=40))
pairs = st.lists(st.tuples(texts, texts), max_size=4)
ROUGE = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
PLAIN_ROUGE = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)


@given(pairs)
def test_rouge_is_that_of_rouge_score_with_its_stemmer(drawn):
    for name, theirs in (("rouge-1", "rouge1"), ("rouge-2", "rouge2"), ("rouge-l", "rougeL")):
        for (candidate, reference), score in zip(drawn, baseline(name).scores(drawn), strict=True):
            if score is None:
                assert not word_tokenizer("rouge-stems")(reference)
            else:
                assert score == ROUGE.score(reference, candidate)[theirs].fmeasure


@given(texts, texts)
def test_rouge_without_stems_is_that_of_rouge_score_without_its_stemmer(candidate, reference):
    for counts, theirs in ((1, "rouge1"), (2, "rouge2"), ("l", "rougeL")):
        score = Rouge(counts=counts, tokens="rouge").scores([(candidate, reference)])[0]
        assert score is None or score == PLAIN_ROUGE.score(reference, candidate)[theirs].fmeasure


@given(pairs)
def test_bleu_is_that_of_sacrebleu_without_smoothing(drawn):
    for name, order in (("bleu", 4), ("bleu-1", 1), ("bleu-2", 2)):
        theirs = BLEU(smooth_method="none", effective_order=False, max_ngram_order=order, tokenize="13a")
        for (candidate, reference), score in zip(drawn, baseline(name).scores(drawn), strict=True):
            if score is None:
                assert not word_tokenizer("13a")(reference)
            else:
                assert score == pytest.approx(theirs.sentence_score(candidate, [reference]).score / 100, abs=1e-15)


@pytest.mark.parametrize("order", [1, 2, 4])
@given(candidate=texts, reference=texts)
def test_bleu_is_that_of_nltk_with_equal_weights_and_no_smoothing(order, candidate, reference):
    """NLTK puts the least float for a share of 0, so it gives about 1e-77 where we give 0."""
    cut = word_tokenizer("nltk")
    score = Bleu(max_order=order, tokens="nltk").scores([(candidate, reference)])[0]
    if score is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = sentence_bleu([cut(reference)], cut(candidate), weights=(1 / order,) * order)
    assert score == pytest.approx(float(theirs), abs=1e-12)


def test_words_are_clipped_as_in_the_example_of_papineni():
    """Papineni et al. (2002), example 2: the modified unigram precision is 2/7, bigrams share nothing."""
    pair = ("the the the the the the the", "the cat is on the mat")
    assert Bleu(max_order=1, brevity_penalty=False).scores([pair]) == [pytest.approx(2 / 7)]
    assert Bleu(max_order=2).scores([pair]) == [0.0]


def test_rouge_l_is_that_of_lins_example():
    """Lin (2004), 3.1: of "police killed the gunman", S2 shares a subsequence of 3 of 4 words and S3 one of 2."""
    reference = "police killed the gunman"
    found = Rouge().scores([("police kill the gunman", reference), ("the gunman kill police", reference)])
    assert found == [pytest.approx(1.0), pytest.approx(1 / 2)], "stemmed, kill and killed are one word"
    assert Rouge(tokens="rouge").scores([("police kill the gunman", reference)]) == [pytest.approx(3 / 4)]


def test_a_short_candidate_is_punished_only_with_the_brevity_penalty():
    """2 of 2 words are right; the reference has 4: exp(1 - 4 / 2) = e^-1."""
    pair = [("two words", "two words or four")]
    assert Bleu(max_order=1).scores(pair) == [pytest.approx(0.36787944)]
    assert Bleu(max_order=1, brevity_penalty=False).scores(pair) == [pytest.approx(1.0)]


def test_length_counts_words_of_the_candidate_and_never_looks_at_the_reference():
    assert Length().scores([("one  two\nthree", ""), ("", "a b"), ("…", "x")]) == [3.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["bleu", "bleu-1", "rouge-1", "rouge-2", "rouge-l"])
def test_nothing_said_is_zero_and_nothing_to_compare_with_is_missing(name):
    assert baseline(name).scores([("", "some words here"), ("some words here", ""), ("", " \n")]) == [0.0, None, None]
