"""The information map, with figures worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.metrics.information_map import make_information_map
from goldless.sentences import Sentence, split_sentences

PIECES = ("Red", " ca", "ts", ".", " ", "\n", "Blue", " dogs.", "  ", "")
# Red cats. | Blue dogs. | end;  the two blank tokens before Blue belong to it, the one behind to the last sentence
CONDITIONAL = (-1.0, -1.0, -0.5, -0.5, -0.25, -0.25, -2.0, -1.0, -0.5, -0.5)
MARGINAL = (-3.0, -2.0, -0.5, -0.25, -0.5, -0.5, -1.0, -4.0, -0.25, -1.5)
WITHOUT_1 = (-3.0, -1.0, -0.5, -0.5, -0.25, -0.25, -2.0, -1.0, -0.5, -1.0)
WITHOUT_2 = (-1.0, -1.0, -0.5, -0.5, -0.25, -0.25, -2.0, -3.5, -0.5, -0.25)


def made(**changes):
    text = "A cat. A dog."
    given_ = {
        "task": "t",
        "agent": "ann",
        "peer": "bob",
        "agent_text": text,
        "agent_sentences": split_sentences(text),
        "peer_sentences": split_sentences("".join(PIECES)),
        "pieces": PIECES,
        "conditional_nats": CONDITIONAL,
        "marginal_nats": MARGINAL,
        "without_nats": [WITHOUT_1, WITHOUT_2],
        "signature": "s",
    }
    return make_information_map(**{**given_, **changes})


def test_a_candidate_sentence_contributes_what_is_lost_without_it():
    found = made()
    assert [s.contribution_nats for s in found.candidate_sentences] == [2.5, 2.25]
    assert found.matrix_nats == ((2.0, 0.0), (0.0, 2.5))
    assert [s.end_contribution_nats for s in found.candidate_sentences] == [0.5, -0.25]
    assert [found.helps_most(0), found.helps_most(1)] == [0, 1]


def test_without_an_end_token_its_gain_is_absent_not_zero():
    found = made(
        pieces=PIECES[:-1],
        conditional_nats=CONDITIONAL[:-1],
        marginal_nats=MARGINAL[:-1],
        without_nats=[WITHOUT_1[:-1], WITHOUT_2[:-1]],
    )
    assert found.end_gain_nats is None
    assert found.candidate_sentences[0].end_contribution_nats is None
    assert found.total_nats == 5.0


def test_a_token_of_first_bytes_belongs_to_the_sentence_of_its_character():
    found = made(
        pieces=("Go.", " ", "", "é."),
        peer_sentences=(Sentence("Go.", 0, 3), Sentence("é.", 4, 6)),
        conditional_nats=(0.0, 0.0, -1.0, 0.0),
        marginal_nats=(0.0, 0.0, -3.0, 0.0),
        without_nats=[(0.0,) * 4] * 2,
    )
    assert [sentence.gain_nats for sentence in found.peer_sentences] == [0.0, 2.0]
    assert found.end_gain_nats is None


numbers = st.floats(-50, 0)


@given(st.lists(st.tuples(st.sampled_from([*PIECES, "no. ", "é", "x"]), numbers, numbers, numbers), min_size=1))
def test_gains_of_sentences_and_end_sum_to_the_pmi_and_rows_to_contributions(rows):
    pieces, conditional, marginal, without = zip(*rows, strict=True)
    sentences = split_sentences("".join(pieces))
    if not sentences:
        return
    found = made(
        pieces=pieces,
        peer_sentences=sentences,
        agent_sentences=[Sentence("A cat.", 0, 6)],
        conditional_nats=conditional,
        marginal_nats=marginal,
        without_nats=[without],
    )
    total = sum(s.gain_nats for s in found.peer_sentences) + (found.end_gain_nats or 0.0)
    assert total == pytest.approx(sum(conditional) - sum(marginal), abs=1e-9)
    assert found.total_nats == pytest.approx(sum(conditional) - sum(marginal), abs=1e-9)
    (candidate,), (row,) = found.candidate_sentences, found.matrix_nats
    assert sum(row) + (candidate.end_contribution_nats or 0.0) == pytest.approx(candidate.contribution_nats, abs=1e-9)
    assert candidate.contribution_nats == pytest.approx(sum(conditional) - sum(without), abs=1e-9)
