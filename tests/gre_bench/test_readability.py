"""Bounds of readability, on the recorded English reviews and on invented text, plain and encoded."""

from __future__ import annotations

import base64
import json
import random
import string

import pytest

from goldless.gre_bench.extracted_text import garble

PLAIN = """We study how far a reader can tell a careful review from a careless one when nobody knows the right answer.
Three groups of volunteers read forty short reports each and marked every claim that they could check on their own.
Agreement between the groups was high for claims about numbers (0.81) and low for claims about style (0.32), and it
did not depend on how long the reports were. We argue that this is what one should expect: a number is either there
or not, while style is judged against taste. The data and the forms that the readers filled in are in the appendix."""


def _shifted(text: str, by: int) -> str:
    return "".join(chr(max(1, ord(c) + by)) if 32 < ord(c) < 127 else c for c in text)


def _substituted(text: str) -> str:
    letters = list(string.ascii_letters)
    others = letters.copy()
    random.Random(1).shuffle(others)
    return text.translate(str.maketrans("".join(letters), "".join(others)))


ENCODED = {
    "shifted by the 29 places of a glyph number": lambda text: _shifted(text, -29),
    "shifted by one place": lambda text: _shifted(text, 1),
    "another alphabet": _substituted,
    "private-use characters": lambda text: "".join(c if c.isspace() else chr(0xF000 + ord(c)) for c in text),
    "replacement characters": lambda text: "".join(c if c.isspace() else "\ufffd" for c in text),
    "glyph numbers": lambda text: "".join(c if c.isspace() else f"(cid:{ord(c)})" for c in text[:400]),
    "glyph names": lambda text: " ".join("/".join(["", *(f"g{ord(c)}" for c in w)]) for w in text[:400].split()),
    "letters set apart": lambda text: " ".join(text.replace(" ", "")),
    "words run together": lambda text: text.replace(" ", ""),
    "base64": lambda text: base64.encodebytes(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(" ", 30),
}


@pytest.fixture
def reviews(recorded) -> list[str]:
    path = recorded / "iclr23_reviews" / "responses.jsonl"
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_plain_english_can_be_read():
    assert garble(PLAIN) == ""


@pytest.mark.parametrize("encoding", ENCODED)
def test_encoded_english_cannot_be_read(encoding):
    assert garble(ENCODED[encoding](PLAIN)) != ""


@pytest.mark.nightly
@pytest.mark.recorded
def test_every_recorded_review_can_be_read(reviews):
    assert [review for review in reviews if garble(review)] == []


@pytest.mark.nightly
@pytest.mark.recorded
@pytest.mark.parametrize("encoding", [name for name in ENCODED if name != "words run together"])
def test_no_recorded_review_can_be_read_once_encoded(reviews, encoding):
    long = [review for review in reviews[:100] if len(review) > 800]
    assert len(long) > 50
    assert [review for review in long if not garble(ENCODED[encoding](review))] == []


@pytest.mark.parametrize(
    "text",
    [
        "La lecture d’un article demande du temps, et peu de relecteurs en ont assez pour vérifier chaque calcul. " * 4,
        "Die Gutachten wurden von drei Personen geschrieben, die einander nicht kannten und nicht sprachen. " * 4,
        "Recenze byly napsány třemi lidmi, kteří se navzájem neznali a nemluvili spolu o výsledcích. " * 4,
        "審査員は論文を読み、主張を一つずつ確かめ、結果を報告書にまとめた。" * 12,
        "Рецензенты читали статьи независимо друг от друга и отмечали каждое утверждение. " * 5,
    ],
)
def test_other_languages_can_be_read(text):
    assert garble(text) == ""


def test_a_table_of_numbers_with_labels_can_be_read():
    rows = "\n".join(f"model {name} mean score 0.{n} interval 0.{n} to 0.{n + 3}" for n, name in enumerate("abcdefgh"))
    assert garble(rows) == ""


def test_a_table_of_contents_can_be_read():
    headings = ["Introduction", "Related work", "What readers were asked", "Results", "Appendix"]
    assert garble("\n".join(f"{heading} {'. ' * 40} {n}" for n, heading in enumerate(headings, 1))) == ""


def test_of_a_short_text_nothing_is_said():
    assert garble("\ufffd" * 199) == ""
    assert garble("\ufffd" * 200) != ""


def test_letters_that_are_in_no_word_do_no_harm():
    assert garble("µ " * 300) != ""
    assert garble("µµµµ " * 300) == ""
