from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.gre_bench.extracted_text import mended, storable, storable_value


def test_ligatures_become_letters():
    assert mended("e\ufb03cient \ufb01nite \ufb02ow o\ufb00er ba\ufb04e") == "efficient finite flow offer baffle"


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("infor-\nmation", "information"),
        ("infor- \n  mation", "information"),
        ("infor\u00ad\nmation", "information"),
        ("in\u00adfor\u00admation", "information"),
        ("state-of-the-\nart", "state-of-the-art"),
        ("a well-known fact, well-\nknown", "a well-known fact, well-known"),
        ("a reuse, a re-use, and re-\nuse", "a reuse, a re-use, and reuse"),
        ("Kullback-\nLeibler", "Kullback-Leibler"),
        ("pages 3-\n5", "pages 3-\n5"),
        ("a list -\nitem", "a list -\nitem"),
        ("größ-\nte", "größte"),
    ],
)
def test_a_word_that_a_line_end_broke_is_joined(broken, whole):
    assert mended(broken) == whole


def test_control_characters_go_and_line_ends_are_line_feeds():
    assert mended("a\x00b\x01c\x7f\r\nd\re\ff\tg") == "abc\nd\ne\nf\tg"


def test_halves_of_surrogate_pairs_go_and_whole_pairs_are_joined():
    assert storable("a\ud800b\udc00c\ud83d\ude00") == "abc\U0001f600"


@given(st.text(st.characters(exclude_categories=())))
def test_whatever_comes_can_be_stored_as_json(text):
    assert orjson.loads(orjson.dumps(storable(text))) == storable(text)
    mended(text).encode()


def test_a_value_is_cleaned_however_deep_its_texts_lie():
    value = {"a\x00": ["b\ud800", {"c": ("d\x00",)}], "n": 2**70, "x": float("inf"), "ok": 1.5}
    clean = storable_value(value)
    assert clean == {"a": ["b", {"c": ["d"]}], "n": "1180591620717411303424", "x": "inf", "ok": 1.5}
    orjson.dumps(clean)


@pytest.mark.parametrize("hostile", ["a" * 300_000, "a-" * 150_000, "-\n" * 150_000, "a-" + " " * 300_000])
def test_a_long_run_of_letters_or_hyphens_is_read_in_one_go(hostile):
    assert len(mended(hostile)) == len(hostile)
