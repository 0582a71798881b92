"""The text of a PDF, or why it has none that can be used.

What can be told of a bad file: that it needs a password, is no PDF or damaged, was cut off, holds pictures of pages
instead of text, or text without a character map. A file made to keep a reader busy meets a bound: of bytes, of
pages, of characters, of drawing operations, of seconds.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
MOST_WORK = 10_000_000
"""Limit of drawing operations, with a text counted as ten: about 40 seconds; a page of a paper has 20,000."""
MOST_SECONDS = 300
"""The last resort against a file that is slow for another reason."""
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
    read: Callable[[bytes], Sequence[str]] = _docling_pages if reader == "docling" else _pypdf_pages
    try:
        _check_container(data)
        pages = read(data)
        _check_pages(pages)
    except _UnusableError as error:
        return error.problem
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
    empty = [number for number, page in enumerate(pages, 1) if _letters(page) < FEWEST_LETTERS]
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


def _letters(page: str) -> int:
    # A glyph that has no character is text all the same, and not a picture.
    return sum(character.isalpha() or not (character.isascii() or character.isspace()) for character in page)


def _numbers(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown}, …" if len(numbers) > 10 else shown


def _pypdf_pages(data: bytes) -> list[str]:
    try:
        import pypdf  # noqa: PLC0415 - only here is it needed
        from pypdf.errors import DependencyError  # noqa: PLC0415
    except ImportError as error:
        raise PrerequisiteError("reading PDF files needs pypdf. Run: pip install 'goldless[gre]'") from error
    limits: dict[str, Any] = {
        "stream_parsing_work_maximum_count": MOST_OPERATIONS_OF_A_STREAM,
        "zlib_maximum_output_length": MOST_STREAM_BYTES,
        "lzw_maximum_output_length": MOST_STREAM_BYTES,
        "run_length_maximum_output_length": MOST_STREAM_BYTES,
        "page_tree_maximum_entries": 4 * MOST_PAGES,
    }
    with _quiet("pypdf"), pypdf.apply_configuration(**limits), _damage_reported():
        try:
            return _read_with_pypdf(pypdf, data)
        except DependencyError as error:
            message = "reading encrypted PDF files needs another package. Run: pip install 'goldless[gre]'"
            raise PrerequisiteError(message) from error


def _read_with_pypdf(pypdf: Any, data: bytes) -> list[str]:
    reader = pypdf.PdfReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise _UnusableError("encrypted_pdf", "it needs a password")
    count = len(reader.pages)
    _check_count(count)
    work = _Work()
    pages: list[str] = []
    lost: list[int] = []
    for number, page in enumerate(reader.pages, 1):
        if _content_is_lost(page):
            lost.append(number)
            continue
        pages.append(page.extract_text(visitor_operand_before=work.add))
        # Inside a form the library takes the error for one of the form.
        work.check()
        if sum(map(len, pages)) > MOST_CHARACTERS:
            raise _UnusableError("broken_pdf", f"more than {MOST_CHARACTERS:,} characters of text")
    if lost:
        raise _UnusableError("cut_pdf", f"the content of {len(lost)} of {count} pages is missing ({_numbers(lost)})")
    return pages


class _Work:
    """Work caused by a file so far."""

    def __init__(self) -> None:
        self._done = 0
        self._until = time.monotonic() + MOST_SECONDS

    def add(self, operator: bytes, operands: Sequence[Any], *_: Any) -> None:
        """Count a drawing operation; too many end the reading."""
        if operator == b"TJ" and operands and isinstance(operands[0], list):
            self._done += 10 * len(operands[0])
        else:
            self._done += 10 if operator in {b"Tj", b"'", b'"'} else 1
        self.check()

    def check(self) -> None:
        """End the reading where it is too much."""
        if self._done > MOST_WORK:
            raise _UnusableError("broken_pdf", f"more than {MOST_WORK:,} drawing operations")
        if time.monotonic() > self._until:
            raise _UnusableError("broken_pdf", f"reading it takes more than {MOST_SECONDS} seconds")


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
        conversion = import_module("docling.document_converter")
    except ImportError as error:
        raise PrerequisiteError("reader 'docling' needs docling. Run: pip install 'goldless[docling]'") from error
    converter = conversion.DocumentConverter(allowed_formats=[models.InputFormat.PDF])
    try:
        # At the first paper it would look as if the paper were to blame.
        converter.initialize_pipeline(models.InputFormat.PDF)
    except Exception as error:
        message = f"docling cannot load its models ({_described(error)}). Run: docling-tools models download"
        raise PrerequisiteError(message) from error
    return converter, models.DocumentStream


def _docling_pages(data: bytes) -> list[str]:
    converter, stream = _docling_converter()
    with _damage_reported():
        source = stream(name="paper.pdf", stream=BytesIO(data))
        result = converter.convert(source, raises_on_error=False, max_num_pages=MOST_PAGES, max_file_size=MOST_BYTES)
        _check_docling(result)
        document = result.document
        pages = [document.export_to_markdown(page_no=n, image_placeholder="") for n in sorted(document.pages)]
    _check_count(len(pages))
    return pages


def _check_docling(result: Any) -> None:
    if result.status.value == "success":
        return
    said = "; ".join(error.error_message for error in result.errors)
    encrypted = re.search(r"password|encrypt", said, re.IGNORECASE) is not None
    detail = _line(f"docling: {result.status.value.replace('_', ' ')}{': ' * bool(said)}{said}")
    raise _UnusableError("encrypted_pdf" if encrypted else "broken_pdf", detail)


def _check_count(pages: int) -> None:
    if not pages:
        raise _UnusableError("broken_pdf", "it has no pages")
    if pages > MOST_PAGES:
        raise _UnusableError("broken_pdf", f"{pages:,} pages; the limit is {MOST_PAGES:,}")


@contextmanager
def _damage_reported() -> Iterator[None]:
    """Convert any exception caused by a damaged file into a problem of the file."""
    try:
        yield
    except (_UnusableError, PrerequisiteError):
        raise
    except Exception as error:
        raise _UnusableError("broken_pdf", _described(error)) from error


def _described(error: Exception) -> str:
    return _line(f"{type(error).__name__}: {error}")


def _line(message: str) -> str:
    """The message on one line, shortened and cleaned of what a hostile file may have put into it."""
    shown = "".join(c if c.isprintable() else " " for c in " ".join(message.split()))
    return shown if len(shown) <= 200 else shown[:199] + "…"


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Without what the library logs of damaged files: what matters of it is in the problem."""
    log = logging.getLogger(logger)
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
