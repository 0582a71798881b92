"""The text of a PDF, or why it has none that can be used.

Bad files are told apart: those that need a password, are no PDF or damaged, were cut off, hold pictures of pages
instead of text, or text without a character map. A file made to keep a reader busy meets a limit of bytes, pages,
characters or seconds.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import Any, Literal

from goldless.errors import PrerequisiteError
from goldless.gre_bench.extracted_text import garble, is_long_enough, mended
from goldless.gre_bench.papers import Reason

PdfReader = Literal["pypdf", "docling"]

MOST_BYTES = 100_000_000
MOST_PAGES = 500
MOST_SECONDS = 120.0
"""For all pages; those of a paper take a few seconds."""
MOST_OPERATIONS_OF_A_STREAM = 2_000_000
MOST_STREAM_BYTES = 20_000_000
"""Bytes of one stream when unpacked; a figure that has more is passed over, a page that has more is not."""
MOST_CHARACTERS = 5_000_000
FEWEST_LETTERS = 10
"""A page with fewer letters has no text: a page number is not one."""
MOST_BAD_PAGES = 1 / 4
"""Share of pages without text, or with garbled text, above which the paper is not used: a full-page figure may be."""

_ANOTHER_OBJECT = re.compile(rb"\d\s+obj\b")
_LENGTH = re.compile(rb"/L\s+(\d{1,12})\b")


@dataclass(frozen=True, slots=True)
class PdfText:
    """The text of a PDF."""

    text: str
    """All pages, separated by blank lines; ligatures and words broken at line ends are repaired."""
    pages: int
    """Number of pages."""


@dataclass(frozen=True, slots=True)
class PdfProblem:
    """Why a PDF cannot be used."""

    reason: Reason
    detail: str


class _UnusableError(Exception):
    """Ends the reading with a problem."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.problem = PdfProblem(reason, detail)
        super().__init__(detail)


def pdf_text(data: bytes, *, reader: PdfReader = "pypdf") -> PdfText | PdfProblem:
    """The text of the PDF, or why it cannot be used; never raises because of the file's content.

    ``docling`` lays pages out better and reads scanned ones, is slow, and loads its models at its first use.
    A file that is encrypted so that everybody may read it is opened.
    """
    try:
        _check_container(data)
        pages = _docling_pages(data) if reader == "docling" else _pypdf_pages(data)
        _check_pages(pages)
    except _UnusableError as error:
        return error.problem
    except PrerequisiteError:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged file may cause any
        return PdfProblem("broken_pdf", _line(error))
    text = mended("\n\n".join(page.strip() for page in pages)).strip()
    return PdfText(text, len(pages))


def _check_container(data: bytes) -> None:
    """Check the bytes before parsing."""
    if len(data) > MOST_BYTES:
        raise _UnusableError("broken_pdf", f"{len(data):,} bytes; the limit is {MOST_BYTES:,}")
    if b"%PDF-" not in data[:1024]:
        start = f"it begins with {repr(data[:16])[1:]}" if data else "it is empty"
        raise _UnusableError("broken_pdf", f"not a PDF: {start}")
    # A file laid out for the web states its length at its beginning.
    length = _LENGTH.search(data[:2048]) if b"/Linearized" in data[:1024] else None
    if length and int(length[1]) > len(data):
        raise _UnusableError("cut_pdf", f"{len(data):,} bytes, but it should have {int(length[1]):,}")
    end = data.rfind(b"%%EOF")
    if end < 0:
        raise _UnusableError("cut_pdf", "it has no end mark (%%EOF)")
    # Bytes after the end are harmless, unless another revision begins there that has no end.
    if _ANOTHER_OBJECT.search(data, end):
        raise _UnusableError("cut_pdf", "there are objects after its last end mark (%%EOF)")


def _check_pages(pages: Sequence[str]) -> None:
    """Check that enough pages have readable text."""
    if not pages:
        raise _UnusableError("broken_pdf", "it has no pages")
    # A glyph that has no character is text all the same, and not a picture.
    letters = [sum(one.isalpha() or not (one.isascii() or one.isspace()) for one in page) for page in pages]
    empty = [number for number, count in enumerate(letters, 1) if count < FEWEST_LETTERS]
    if len(empty) > MOST_BAD_PAGES * len(pages):
        detail = f"{len(empty)} of {len(pages)} pages have no text ({_numbers(empty)})"
        raise _UnusableError("scanned_pdf", detail)
    reasons = {number: why for number, page in enumerate(pages, 1) if (why := garble(page))}
    if len(reasons) > MOST_BAD_PAGES * len(pages):
        number, why = next(iter(reasons.items()))
        detail = f"{len(reasons)} of {len(pages)} pages are not readable; page {number}: {why}"
        raise _UnusableError("garbled_pdf", detail)
    # Pages of a few words each are too short to judge one by one.
    if not any(map(is_long_enough, pages)) and (why := garble("\n".join(pages))):
        raise _UnusableError("garbled_pdf", why)


def _numbers(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown}, …" if len(numbers) > 10 else shown


def _pypdf_pages(data: bytes) -> list[str]:
    try:
        import pypdf  # noqa: PLC0415 - only here is it needed
    except ImportError as error:
        raise PrerequisiteError("reading PDF files needs pypdf. Run: pip install 'goldless[gre]'") from error
    limits: dict[str, Any] = {
        "stream_parsing_work_maximum_count": MOST_OPERATIONS_OF_A_STREAM,
        "zlib_maximum_output_length": MOST_STREAM_BYTES,
        "lzw_maximum_output_length": MOST_STREAM_BYTES,
        "run_length_maximum_output_length": MOST_STREAM_BYTES,
        "page_tree_maximum_entries": 4 * MOST_PAGES,
    }
    log = logging.getLogger("pypdf")  # it tells of damage that the problem names
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        with pypdf.apply_configuration(**limits):
            return _read_with_pypdf(pypdf.PdfReader(BytesIO(data)))
    except pypdf.errors.DependencyError as error:
        message = "reading encrypted PDF files needs another package. Run: pip install 'goldless[gre]'"
        raise PrerequisiteError(message) from error
    finally:
        log.setLevel(level)


def _read_with_pypdf(reader: Any) -> list[str]:
    if reader.is_encrypted and not reader.decrypt(""):
        raise _UnusableError("encrypted_pdf", "it needs a password")
    count = len(reader.pages)
    if count > MOST_PAGES:
        raise _UnusableError("broken_pdf", f"{count:,} pages; the limit is {MOST_PAGES:,}")
    end = time.monotonic() + MOST_SECONDS

    def check_time(*_: Any) -> None:
        if time.monotonic() > end:
            raise _UnusableError("broken_pdf", f"reading it takes more than {MOST_SECONDS:g} seconds")

    lost = [number for number, page in enumerate(reader.pages, 1) if _content_is_lost(page)]
    if lost:
        raise _UnusableError("cut_pdf", f"the content of {len(lost)} of {count} pages is missing ({_numbers(lost)})")
    pages: list[str] = []
    for page in reader.pages:
        pages.append(page.extract_text(visitor_operand_before=check_time))
        check_time()  # inside a form the library takes the error for one of the form
        if sum(map(len, pages)) > MOST_CHARACTERS:
            raise _UnusableError("broken_pdf", f"more than {MOST_CHARACTERS:,} characters of text")
    return pages


def _content_is_lost(page: Any) -> bool:
    """Whether the page names content that is not in the file; a page that names none is blank."""
    if "/Contents" not in page:
        return False
    content = page["/Contents"]
    parts = [part.get_object() for part in content] if isinstance(content, list) else [content]
    return not all(hasattr(part, "get_data") for part in parts)


@cache
def _docling_converter() -> tuple[Any, Any]:
    """The converter, with its models loaded, and the class of its input."""
    try:
        models = import_module("docling.datamodel.base_models")
        converter = import_module("docling.document_converter").DocumentConverter()
        # at the first paper it would look as if the paper were to blame
        converter.initialize_pipeline(models.InputFormat.PDF)
    except ImportError as error:
        raise PrerequisiteError("reader 'docling' needs docling. Run: pip install 'goldless[docling]'") from error
    except Exception as error:
        message = f"docling cannot load its models ({_line(error)}). Run: docling-tools models download"
        raise PrerequisiteError(message) from error
    return converter, models.DocumentStream


def _docling_pages(data: bytes) -> list[str]:
    converter, stream = _docling_converter()
    paper = stream(name="paper.pdf", stream=BytesIO(data))
    result = converter.convert(paper, max_num_pages=MOST_PAGES, max_file_size=MOST_BYTES)
    if result.status.value != "success":
        raise _UnusableError("broken_pdf", "docling could read only a part of it")
    pages = sorted(result.document.pages)
    return [result.document.export_to_markdown(page_no=number, image_placeholder="") for number in pages]


def _line(error: Exception) -> str:
    """The error on one line, shortened and cleaned of what a hostile file may have put into it."""
    message = " ".join(f"{type(error).__name__}: {error}".split())
    shown = "".join(letter if letter.isprintable() else " " for letter in message)
    return shown if len(shown) <= 200 else shown[:199] + "…"
