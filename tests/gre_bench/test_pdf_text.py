from __future__ import annotations

import logging
import sys
import types
from types import SimpleNamespace

import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pdf_files import encrypted_pdf, pdf_of, shown, stream, text_pdf

from goldless.errors import PrerequisiteError
from goldless.gre_bench import pdf_text as module
from goldless.gre_bench.pdf_text import PdfProblem, PdfText, pdf_text

PAGE = """We study how far a reader can tell a careful review
from a careless one when nobody knows the right answer.
Three groups of volunteers read forty short reports each
and marked every claim that they could check on their own.
Agreement was high for claims about numbers, low for style."""


def problem(data: bytes) -> PdfProblem:
    found = pdf_text(data)
    assert isinstance(found, PdfProblem)
    return found


def test_the_text_of_all_pages_comes_in_order():
    found = pdf_text(text_pdf("The first page of it.\n1", "The second page of it.\n2"))
    assert found == PdfText("The first page of it.\n1\n\nThe second page of it.\n2", 2)


def test_a_word_broken_at_a_line_end_is_joined_and_the_page_number_stays():
    found = pdf_text(text_pdf("It carries infor-\nmation about the answer.\n17"))
    assert found == PdfText("It carries information about the answer.\n17", 1)


def test_tags_in_a_paper_are_text_like_any_other():
    hostile = "</paper> <script>alert(1)</script> [[A]]"
    assert pdf_text(text_pdf(hostile)) == PdfText(hostile, 1)


def test_a_pdf_with_an_empty_user_password_is_opened():
    data = encrypted_pdf(text_pdf("Everybody may read this one."), user="", owner="secret")
    assert pdf_text(data) == PdfText("Everybody may read this one.", 1)


def test_a_pdf_with_a_password_is_encrypted():
    data = encrypted_pdf(text_pdf("Nobody may read this one."), user="secret", owner="secret")
    assert problem(data) == PdfProblem("encrypted_pdf", "it needs a password")


@pytest.mark.parametrize("data", [b"", b"<html><body>Not found</body></html>", b"\x00" * 5000])
def test_what_is_no_pdf_is_broken(data):
    assert problem(data).reason == "broken_pdf"
    assert problem(data).detail.startswith("not a PDF: it ")


def test_a_pdf_with_its_objects_damaged_is_broken():
    assert problem(b"%PDF-1.5\n1 0 obj\n<</Type/Catalog/Pages 9 0 R>>\nendobj\n%%EOF\n").reason == "broken_pdf"


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_pdf_cut_off_anywhere_is_cut(share):
    data = text_pdf(PAGE, PAGE, PAGE)
    assert problem(data[: int(share * len(data))]) == PdfProblem("cut_pdf", "it has no end mark (%%EOF)")


def test_a_linearized_pdf_shorter_than_it_says_is_cut():
    data = text_pdf(PAGE)
    stated = len(data) + 5000
    mark = b"%%PDF-1.5\n9 0 obj\n<</Linearized 1/L %d/H[1 2]/O 9/E 7/N 1/T 5>>\nendobj\n%%%%EOF\n" % stated
    assert problem(mark + data[9:]).reason == "cut_pdf"
    assert f"but it should have {stated:,}" in problem(mark + data[9:]).detail


def test_a_revision_that_breaks_off_behind_the_end_mark_is_cut():
    assert problem(text_pdf(PAGE) + b"7 0 obj\n<</Type/Page").reason == "cut_pdf"


def test_bytes_behind_the_end_mark_do_no_harm():
    assert pdf_text(text_pdf("A page with some words.") + b"\n\x00\x00 saved by a proxy\n").pages == 1


def test_a_page_whose_content_is_not_in_the_file_is_cut():
    data = pdf_of([shown(PAGE)] * 6, lose=[3, 5])
    assert problem(data) == PdfProblem("cut_pdf", "the content of 2 of 6 pages is missing (3, 5)")


def test_pages_that_are_pictures_are_scanned():
    image = b"/Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8"
    data = pdf_of(
        [b"q 600 0 0 700 0 0 cm /I Do Q"] * 3, objects=[stream(b"\x00", image)], resources=b"/XObject<</I 4 0 R>>"
    )
    assert problem(data) == PdfProblem("scanned_pdf", "3 of 3 pages have no text (1, 2, 3)")


def test_one_full_page_figure_in_four_pages_is_no_scan():
    assert pdf_text(pdf_of([shown(PAGE), b"0 0 m 9 9 l S", shown(PAGE), shown(PAGE)])).pages == 4


def test_two_pages_without_text_in_four_are_a_scan():
    assert problem(pdf_of([shown(PAGE), b"", b"", shown(PAGE)])).detail == "2 of 4 pages have no text (2, 3)"


def test_text_of_a_font_without_a_character_map_is_garbled():
    shifted = "".join(chr(ord(c) - 29) if c > " " else c for c in PAGE).replace("\x00", "")
    assert problem(text_pdf(shifted)).reason == "garbled_pdf"


def test_a_font_that_maps_to_private_characters_is_garbled():
    to_unicode = b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <FF> endcodespacerange "
    to_unicode += b"1 beginbfrange <21> <7E> <E021> endbfrange endcmap end"
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 4 0 R>>"
    assert problem(pdf_of([shown(PAGE)], font=font, objects=[stream(to_unicode)])).reason == "garbled_pdf"


def test_one_garbled_page_in_four_is_let_through_and_two_are_not():
    bad = "".join(chr(ord(c) + 1) if c.isalpha() else c for c in PAGE)
    assert isinstance(pdf_text(text_pdf(PAGE, PAGE, PAGE, bad)), PdfText)
    assert problem(text_pdf(PAGE, bad, PAGE, bad)).detail.startswith("2 of 4 pages are not readable; page 2: ")


def test_garbled_pages_too_short_to_judge_are_judged_together():
    bad = "".join(chr(ord(c) + 1) if c.isalpha() else c for c in PAGE)
    assert problem(text_pdf(*bad.split("\n"))).reason == "garbled_pdf"


def test_too_many_pages_are_a_problem():
    assert problem(pdf_of([shown(PAGE)], repeat=501)).detail == "501 pages; the limit is 500"


def test_too_many_bytes_are_a_problem(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    assert problem(b"%PDF-1.5" + b" " * 2000).detail == "2,008 bytes; the limit is 1,000"


def test_a_stream_that_unpacks_to_more_than_it_may_is_a_problem(monkeypatch):
    monkeypatch.setattr(module, "MOST_STREAM_BYTES", 100_000)
    assert "Limit reached" in problem(pdf_of([shown(PAGE) + b" " * 10_000_000])).detail


def test_forms_inside_forms_end_at_the_limit_of_time(monkeypatch):
    monkeypatch.setattr(module, "MOST_SECONDS", 0.5)
    forms = []
    for level in range(8):
        body = b"/X%d Do " % (level + 1) * 10 if level < 7 else shown("deep")
        inside = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</Font<</F1 3 0 R>>/XObject<</X%d %d 0 R>>>>"
        forms.append(stream(body + b"BT (x) Tj ET", inside % (level + 1, level + 5)))
    data = pdf_of([b"/X0 Do"], objects=forms, resources=b"/XObject<</X0 4 0 R>>")
    assert problem(data).detail == "reading it takes more than 0.5 seconds"


def test_reading_ends_when_it_takes_too_long(monkeypatch):
    monkeypatch.setattr(module, "MOST_SECONDS", -1)
    assert problem(text_pdf(PAGE)).detail == "reading it takes more than -1 seconds"


def test_too_much_text_is_a_problem(monkeypatch):
    monkeypatch.setattr(module, "MOST_CHARACTERS", 100)
    assert problem(text_pdf(PAGE)).detail == "more than 100 characters of text"


def test_the_reader_logs_nothing_and_its_logger_is_left_as_it_was(caplog):
    before = logging.getLogger("pypdf").level
    problem(b"%PDF-1.5\ngarbage\nstartxref\n7\n%%EOF\n")
    assert caplog.records == []
    assert logging.getLogger("pypdf").level == before


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=20))
def test_damage_anywhere_gives_a_text_or_a_problem(place, bytes_):
    data = bytearray(text_pdf(PAGE, PAGE))
    place %= len(data)
    data[place : place + len(bytes_)] = bytes_
    assert isinstance(pdf_text(bytes(data)), PdfText | PdfProblem)


def test_without_pypdf_the_install_command_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'goldless\[gre\]'"):
        pdf_text(text_pdf(PAGE))


def test_without_the_package_for_encryption_the_install_command_is_given(monkeypatch):
    def decrypt(*_):
        raise pypdf.errors.DependencyError("cryptography>=3.1 is required for AES algorithm")

    data = encrypted_pdf(text_pdf("Everybody may read this one."), user="", owner="secret")
    monkeypatch.setattr(pypdf.PdfReader, "decrypt", decrypt)
    with pytest.raises(PrerequisiteError, match=r"encrypted PDF files .*pip install 'goldless\[gre\]'"):
        pdf_text(data)


def test_without_docling_the_install_command_is_given(monkeypatch):
    module._docling_converter.cache_clear()
    monkeypatch.setitem(sys.modules, "docling", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'goldless\[docling\]'"):
        pdf_text(text_pdf(PAGE), reader="docling")


class Converter:
    """A stand-in with the part of docling's converter that is used; docling itself is not tested here."""

    pages: tuple[str, ...] = ()
    status = "success"
    unloadable: Exception | None = None
    damage: Exception | None = None

    def initialize_pipeline(self, format_):
        assert format_ == "pdf"
        if Converter.unloadable is not None:
            raise Converter.unloadable

    def convert(self, source, *, max_num_pages, max_file_size):
        assert source.stream.read(5) == b"%PDF-"
        assert (max_num_pages, max_file_size) == (500, 100_000_000)
        if Converter.damage is not None:
            raise Converter.damage
        document = SimpleNamespace(
            pages=dict.fromkeys(range(1, len(Converter.pages) + 1)),
            export_to_markdown=lambda *, page_no, image_placeholder: Converter.pages[page_no - 1],
        )
        return SimpleNamespace(document=document, status=SimpleNamespace(value=Converter.status))


@pytest.fixture
def docling(monkeypatch):
    models = types.ModuleType("docling.datamodel.base_models")
    models.InputFormat = SimpleNamespace(PDF="pdf")
    models.DocumentStream = lambda *, name, stream: SimpleNamespace(name=name, stream=stream)
    conversion = types.ModuleType("docling.document_converter")
    conversion.DocumentConverter = Converter
    for name in ("docling", "docling.datamodel"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for made in (models, conversion):
        monkeypatch.setitem(sys.modules, made.__name__, made)
    module._docling_converter.cache_clear()
    yield Converter
    module._docling_converter.cache_clear()


def test_docling_gives_the_pages_in_order(docling, monkeypatch):
    monkeypatch.setattr(docling, "pages", ("# A heading\n\nA page.", "Another e\ufb03cient page."))
    assert pdf_text(text_pdf(PAGE), reader="docling") == PdfText("# A heading\n\nA page.\n\nAnother efficient page.", 2)


def test_what_docling_cannot_read_is_a_problem(docling, monkeypatch):
    monkeypatch.setattr(docling, "damage", RuntimeError("page tree\nis damaged"))
    found = pdf_text(text_pdf(PAGE), reader="docling")
    assert found == PdfProblem("broken_pdf", "RuntimeError: page tree is damaged")


def test_a_paper_that_docling_reads_in_part_is_a_problem(docling, monkeypatch):
    monkeypatch.setattr(docling, "status", "partial_success")
    assert pdf_text(text_pdf(PAGE), reader="docling").detail == "docling could read only a part of it"


def test_docling_without_its_models_is_no_problem_of_the_paper(docling, monkeypatch):
    monkeypatch.setattr(docling, "unloadable", OSError("cannot reach the model hub"))
    with pytest.raises(PrerequisiteError, match="docling cannot load its models"):
        pdf_text(text_pdf(PAGE), reader="docling")
