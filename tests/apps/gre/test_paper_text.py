"""Text comes out of PDFs, is mended, and is told from garble; a file that cannot be used says why."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import string
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.apps.gre import paper_text as module
from goldless.apps.gre.paper_text import (
    garble,
    mended,
    pdf_text,
)
from goldless.apps.gre.papers import UnusablePaperError
from goldless.errors import PrerequisiteError
from tests.apps.gre.pdf_files import encrypted_pdf, pdf_of, shown, stream, text_pdf

PAGE = """We study how far a reader can tell a careful review
from a careless one when nobody knows the right answer.
Three groups of volunteers read forty short reports each
and marked every claim that they could check on their own.
Agreement was high for claims about numbers, low for style."""
SHIFTED = "".join(chr(ord(c) + 1) if c.isalpha() else c for c in PAGE)
OPEN = encrypted_pdf(text_pdf("Everybody may read this one."), user="", owner="secret")
PICTURE = b"/Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8"
LINEARIZED = b"%PDF-1.5\n9 0 obj\n<</Linearized 1/L 99999/H[1 2]/O 9/E 7/N 1/T 5>>\nendobj\n%%EOF\n"


def private_font() -> bytes:
    to_unicode = b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <FF> endcodespacerange "
    to_unicode += b"1 beginbfrange <21> <7E> <E021> endbfrange endcmap end"
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 4 0 R>>"
    return pdf_of([shown(PAGE)], font=font, objects=[stream(to_unicode)])


@pytest.mark.parametrize(
    ("data", "text", "pages"),
    [
        (text_pdf("The first page of it.\n1", "The second page of it.\n2"), None, 2),
        (
            text_pdf("It carries infor-\nmation about the answer.\n17"),
            "It carries information about the answer.\n17",
            1,
        ),
        (text_pdf("</paper> <script>alert(1)</script> [[A]]"), "</paper> <script>alert(1)</script> [[A]]", 1),
        (OPEN, "Everybody may read this one.", 1),
        (text_pdf("A page with some words.") + b"\n\x00\x00 saved by a proxy\n", "A page with some words.", 1),
        (pdf_of([shown(PAGE), b"0 0 m 9 9 l S", shown(PAGE), shown(PAGE)]), None, 4),
        (text_pdf(PAGE, PAGE, PAGE, SHIFTED), None, 4),
    ],
    ids=["pages", "broken word", "tags", "empty password", "bytes behind", "one figure", "one garbled page"],
)
def test_the_text_of_all_pages_comes_in_order(data, text, pages):
    found, count = pdf_text(data)
    assert count == pages
    assert text is None or found == text


@pytest.mark.parametrize(
    ("data", "reason", "detail"),
    [
        (encrypted_pdf(text_pdf("Nobody."), user="secret", owner="secret"), "encrypted_pdf", "it needs a password"),
        (b"", "broken_pdf", "not a PDF: it begins with"),
        (b"<html><body>Not found</body></html>", "broken_pdf", "not a PDF: it begins with"),
        (b"%PDF-1.5\n1 0 obj\n<</Type/Catalog/Pages 9 0 R>>\nendobj\n%%EOF\n", "broken_pdf", ""),
        (text_pdf(PAGE, PAGE)[:500], "cut_pdf", "it has no end mark (%%EOF)"),
        (LINEARIZED + text_pdf(PAGE, PAGE)[9:600], "cut_pdf", "it has no end mark (%%EOF)"),
        (
            pdf_of([b"/I Do"] * 3, objects=[stream(b"\x00", PICTURE)], resources=b"/XObject<</I 4 0 R>>"),
            "scanned_pdf",
            "3 of 3 pages have no text (1, 2, 3)",
        ),
        (pdf_of([shown(PAGE), b"", b"", shown(PAGE)]), "scanned_pdf", "2 of 4 pages have no text (2, 3)"),
        (private_font(), "garbled_pdf", ""),
        (text_pdf(PAGE, SHIFTED, PAGE, SHIFTED), "garbled_pdf", "2 of 4 pages are not readable; page 2: "),
        (text_pdf(*SHIFTED.split("\n")), "garbled_pdf", ""),
        (pdf_of([shown(PAGE)], repeat=501), "broken_pdf", "501 pages; the limit is 500"),
    ],
    ids=range(12),  # not by the bytes, some of which are drawn anew each time
)
def test_a_pdf_that_cannot_be_used_says_why(data, reason, detail):
    with pytest.raises(UnusablePaperError) as caught:
        pdf_text(data)
    assert caught.value.reason == reason
    assert detail in caught.value.detail


@pytest.mark.parametrize(
    ("limit", "value", "data", "detail"),
    [
        ("MOST_BYTES", 1000, b"%PDF-1.5" + b" " * 2000, "2,008 bytes; the limit is 1,000"),
        ("MOST_STREAM_BYTES", 100_000, pdf_of([shown(PAGE) + b" " * 10_000_000]), "Limit reached"),
        ("MOST_CHARACTERS", 100, text_pdf(PAGE), "more than 100 characters of text"),
    ],
)
def test_a_file_made_to_keep_a_reader_busy_meets_a_limit(monkeypatch, limit, value, data, detail):
    monkeypatch.setattr(module, limit, value)
    with pytest.raises(UnusablePaperError, match=detail):
        pdf_text(data)


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=20))
def test_damage_anywhere_gives_a_text_or_says_why_not(place, bytes_):
    data = bytearray(text_pdf(PAGE, PAGE))
    place %= len(data)
    data[place : place + len(bytes_)] = bytes_
    with contextlib.suppress(UnusablePaperError):
        assert pdf_text(bytes(data))[1]


def test_without_pypdf_the_install_command_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'goldless\[gre\]'"):
        pdf_text(text_pdf(PAGE))


# --- mending -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("e\ufb03cient \ufb01nite \ufb02ow o\ufb00er ba\ufb04e", "efficient finite flow offer baffle"),
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
        ("a\x00b\x01c\x7f\r\nd\re\ff\tg", "abc\nd\ne\nf\tg"),
    ],
)
def test_what_typesetting_broke_is_mended(broken, whole):
    assert mended(broken) == whole


@pytest.mark.parametrize("hostile", ["a" * 300_000, "a-" * 150_000, "-\n" * 150_000, "a-" + " " * 300_000])
def test_a_long_run_of_letters_or_hyphens_is_read_in_one_go(hostile):
    assert len(mended(hostile)) == len(hostile)


# --- readable or not -----------------------------------------------------------------------------------------------

ALPHABET = random.Random(1).sample(string.ascii_letters, len(string.ascii_letters))
ENCODED = {
    "shifted by the 29 places of a glyph number": lambda text: _shifted(text, -29),
    "shifted by one place": lambda text: _shifted(text, 1),
    "another alphabet": lambda text: text.translate(str.maketrans(string.ascii_letters, "".join(ALPHABET))),
    "private-use characters": lambda text: "".join(c if c.isspace() else chr(0xF000 + ord(c)) for c in text),
    "replacement characters": lambda text: "".join(c if c.isspace() else "\ufffd" for c in text),
    "glyph numbers": lambda text: "".join(c if c.isspace() else f"(cid:{ord(c)})" for c in text[:400]),
    "glyph names": lambda text: " ".join("/".join(["", *(f"g{ord(c)}" for c in w)]) for w in text[:400].split()),
    "letters set apart": lambda text: " ".join(text.replace(" ", "")),
    "words run together": lambda text: text.replace(" ", ""),
    "base64": lambda text: base64.encodebytes(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(" ", 30),
}


def _shifted(text: str, by: int) -> str:
    return "".join(chr(max(1, ord(c) + by)) if 32 < ord(c) < 127 else c for c in text)


@pytest.mark.parametrize("encoding", ENCODED)
def test_encoded_english_cannot_be_read(encoding):
    assert garble(ENCODED[encoding](PAGE.replace("\n", " "))) != ""


@pytest.mark.parametrize(
    "text",
    [
        PAGE,
        "La lecture d’un article demande du temps, et peu de relecteurs en ont assez pour vérifier chaque calcul. " * 4,
        "Recenze byly napsány třemi lidmi, kteří se navzájem neznali a nemluvili spolu o výsledcích. " * 4,
        "審査員は論文を読み、主張を一つずつ確かめ、結果を報告書にまとめた。" * 12,
        "Рецензенты читали статьи независимо друг от друга и отмечали каждое утверждение. " * 5,
        "\n".join(f"model {name} mean score 0.{n} interval 0.{n} to 0.{n + 3}" for n, name in enumerate("abcdefgh")),
        "\n".join(f"{head} {'. ' * 40} {n}" for n, head in enumerate(["Introduction", "Related work", "Results"])),
        "\ufffd" * 199,
        "µµµµ " * 300,
    ],
)
def test_other_languages_tables_and_short_texts_can_be_read(text):
    assert garble(text) == ""


@pytest.mark.nightly
@pytest.mark.parametrize("encoding", [None, *(name for name in ENCODED if name != "words run together")])
def test_every_recorded_review_can_be_read_and_none_once_encoded(recorded, encoding):
    lines = (recorded / "iclr23_reviews" / "responses.jsonl").read_text(encoding="utf-8").splitlines()
    reviews = [json.loads(line)["text"] for line in lines]
    if encoding is None:
        assert [review for review in reviews if garble(review)] == []
        return
    long = [review for review in reviews[:100] if len(review) > 800]
    assert len(long) > 50
    assert [review for review in long if not garble(ENCODED[encoding](review))] == []
