"""BLEU and ROUGE give what sacreBLEU, NLTK and rouge_score give, whatever the texts; each text is cut once."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer
from nltk.translate.bleu_score import sentence_bleu
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenize import tokenize as rouge_tokens
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from goldless.metrics.catalogue import baseline
from goldless.metrics.chair import PanelScores
from goldless.metrics.label_agreement import Judge, accuracies
from goldless.metrics.lexical import Bleu, Length, Rouge, word_tokenizer
from goldless.metrics.pair_labels import pair_labels
from goldless.metrics.porter import stem
from goldless.studies import read_study

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


ENDINGS = st.sampled_from(
    (
        *("ational", "tional", "enci", "anci", "izer", "bli", "alli", "entli", "eli", "ousli", "ization", "ation"),
        *("ator", "alism", "iveness", "fulness", "ousness", "aliti", "iviti", "biliti", "fulli", "logi", "icate"),
        *("ative", "alize", "iciti", "ical", "ful", "ness", "al", "ance", "ence", "er", "ic", "able", "ible", "ant"),
        *("ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize", "e", "ll", "s", "es", "ies"),
        *("sses", "ed", "ing", "eed", "ied", "y", "at", "bl", "iz"),
    )
)
STARTS = st.text("aeiouybcdlstrnwxz1", min_size=1, max_size=5)
PORTER = PorterStemmer()


@given(st.lists(st.builds("".join, st.tuples(STARTS, ENDINGS, ENDINGS)), min_size=50, max_size=50))
def test_stems_are_those_of_nltk(words):
    assert [stem(word) for word in words] == [PORTER.stem(word) for word in words]


@pytest.mark.parametrize(
    "word", ["skies", "dying", "news", "innings", "proceed", "caresses", "ponies", "ties", "fizzed"]
)
def test_a_word_of_porters_paper_or_of_nltks_list_has_the_stem_of_nltk(word):
    assert stem(word) == PORTER.stem(word)


@given(texts)
def test_words_of_rouge_are_those_of_its_package(text):
    assert word_tokenizer("rouge")(text) == rouge_tokens(text, None)
    assert word_tokenizer("rouge-stems")(text) == rouge_tokens(text, PORTER)


WRITTEN = st.text("aZ09.,-–&;:<>/[]{}|~`!\"'() \n\t", max_size=60)
ENTITIES = st.just("&amp;quot; &lt;skipped&gt; <skipped> 3-\n4 - 5.5,x")


@given(st.one_of(texts, WRITTEN, ENTITIES))
def test_words_of_13a_are_those_of_sacrebleu(text):
    assert word_tokenizer("13a")(text) == Tokenizer13a()(text.rstrip()).split()


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


def test_length_counts_words_of_the_candidate_and_never_looks_at_the_reference():
    assert Length().scores([("one  two\nthree", ""), ("", "a b"), ("…", "x")]) == [3.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["bleu", "bleu-1", "rouge-1", "rouge-2", "rouge-l"])
def test_nothing_said_is_zero_and_nothing_to_compare_with_is_missing(name):
    assert baseline(name).scores([("", "some words here"), ("some words here", ""), ("", " \n")]) == [0.0, None, None]


# --- recorded data ---------------------------------------------------------------------------------------------------

PUBLISHED = {
    "pre-bleu-1": 0.5505,
    "pre-bleu-2": 0.5558,
    "pre-rouge-1": 0.5884,
    "pre-rouge-l": 0.5798,
}
"""Accuracy against people's pairs, PRE, table 2(b); its second row named ROUGE-1 is ROUGE-L (Auto-PRE, table 3)."""


@pytest.fixture(scope="module")
def xsum(recorded):
    """Texts, references and people's pair labels."""
    study = read_study(recorded / "xsum_peer_review")
    agents = tuple(agent.agent for agent in study.agents)
    tasks = tuple(study.tasks)
    texts = {(task, r.agent): r.text for task in tasks for r in study.responses(task)}
    pairs = [(texts[task, agent], study.task(task).reference) for task in tasks for agent in agents]
    labels = pair_labels(study.label_table, tasks=tasks, agents=agents)
    return tasks, agents, pairs, labels


def agreement(xsum, name):
    tasks, agents, pairs, labels = xsum
    scores = np.array(baseline(name).scores(pairs), dtype=float).reshape(len(tasks), len(agents))
    once = np.ones(scores.shape, dtype=np.int64)
    found = PanelScores(tasks, agents, scores, asked=once, used=once)
    return accuracies([Judge(name, "scores", found).credits(labels)], resamples=100)[0]


@pytest.mark.parametrize("name", PUBLISHED)
def test_agreement_with_people_is_as_published(xsum, name):
    found = agreement(xsum, name)
    assert found.share.value == pytest.approx(PUBLISHED[name], abs=0.01)
    assert (found.n_pairs, found.missing) == (1793, 0)
    assert found.share.low < PUBLISHED[name] < found.share.high


@pytest.mark.nightly
def test_rouge_2_agrees_with_people_more_than_published(xsum):
    """Published: .5636. No tokenisation that was tried comes nearer than .01 while the other cells stay met."""
    found = agreement(xsum, "pre-rouge-2")
    assert 0.01 < found.share.value - 0.5636 < 0.016
    assert found.share.low < 0.5636 < found.share.high
