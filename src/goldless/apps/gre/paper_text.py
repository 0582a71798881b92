"""The text of papers: out of PDFs, mended where typesetting broke it, and told whether it can be read at all.

Bad PDFs are told apart by reason. A file made to keep a reader busy meets a limit of bytes, pages, characters or
seconds. A font without a character map leaves garble. Its bounds were set between English reviews of ICLR 2023 (900)
and pages of four papers on one side, which all pass, and the same texts encoded on the other, of which one in 216
passes where words run together, and none of other kinds. Where all letters are small, a random substitution passes one
time in five; words spelt backwards or with their letters shuffled are not told from an unknown language.
A page full of formulas may fail alone; that is why a paper fails by a share of its pages.
"""

from __future__ import annotations

import logging
import re
import time
import unicodedata
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

from goldless.apps.gre.papers import UnusablePaperError
from goldless.errors import PrerequisiteError

LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
CONTROLS = dict.fromkeys([*range(9), 11, *range(14, 32), *range(127, 160)])
"""C0 and C1 controls other than tab, line feed, form feed and carriage return; ``str.translate`` drops them."""
_WORD = re.compile(r"[^\W\d_]++(?:[-\u2010][^\W\d_]++)*+")
# Possessive, and begun at the start of a word only: a file of a million letters or hyphens must not take for ever.
_BROKEN_WORD = re.compile(
    r"(?<![^\W\d_])(?<![-\u2010])(?P<before>(?:[^\W\d_]++[-\u2010])*)(?P<head>[^\W\d_]++)"
    r"[-\u2010][ \t]*+\n[ \t]*+(?P<tail>[^\W\d_]++)"
)


def storable(text: str) -> str:
    """The text as a UTF-8 file can contain it: no NUL and lone surrogates, and line feeds as line ends."""
    # UTF-16 joins the surrogates that belong together; those that are alone are what it cannot read.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return text.replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n")


def mended(text: str) -> str:
    """The text of a typeset page as it was written: ligatures as letters, words joined that a line's end broke.

    A word broken at a hyphen is joined without it, unless the word with the hyphen stands elsewhere in the text (and
    the joined one does not), or its head has a hyphen already (``state-of-the-`` + ``art``), or its tail begins with a
    capital. Control characters go.
    """
    text = storable(text).replace("\f", "\n").translate(LIGATURES).translate(CONTROLS)
    text = re.sub("\u00ad(?:[ \t]*+\n[ \t]*+)?", "", text)
    words = set(_WORD.findall(text))

    def joined(match: re.Match[str]) -> str:
        before, head, tail = match["before"], match["head"], match["tail"]
        compound = f"{head}-{tail}" in words and head + tail not in words
        return f"{before}{head}{'-' if before or tail[0].isupper() or compound else ''}{tail}"

    return _BROKEN_WORD.sub(joined, text)


# --- readable or not -------------------------------------------------------------------------------------------------


MOST_UNREADABLE = 0.10
"""Share of characters that mean nothing. Readable: 0; shifted by 29 places: 0.02 to 0.42; private use: 1."""
FEWEST_TO_JUDGE = 200
"""Minimum number of characters, without blanks, to judge a text."""
_MARK = re.compile(r"\(cid:\d+\)|GLYPH<[^>\s]{1,40}>|/(?:[CGcg]\d{1,5}|uni[0-9A-Fa-f]{4})(?=/|\s|$)")
_LATIN_WORD = re.compile("[A-Za-z\u00c0-\u024f]+")
_VOWELS = frozenset("aeiouy")
_LAST_LATIN = "\u024f"


def garble(text: str) -> str:
    """The reason why the text is unreadable, with the measured value; empty if it is readable or too short to judge."""
    long_enough = sum(map(len, text.split())) >= FEWEST_TO_JUDGE
    for what, value, low, high in _measures(text) if long_enough else ():
        if not low <= value <= high:
            return f"{what}: {value:.2f} (readable: {low:g} to {high:g})"
    return ""


def unreadable_share(text: str) -> float:
    """Share of unreadable characters, without blanks; 1 if there are none."""
    marks = sum(len(match[0]) for match in _MARK.finditer(text))
    characters = [character for character in text if not character.isspace()]
    nothing = sum(c == "\ufffd" or unicodedata.category(c) in {"Cc", "Co", "Cn", "Cs"} for c in characters)
    return (nothing + marks) / len(characters) if characters else 1.0


def _measures(text: str) -> Iterator[tuple[str, float, float, float]]:
    """Each measure, its value, and the bounds of readable text, in the order of what they depend on."""
    yield "share of unreadable characters", unreadable_share(text), 0, MOST_UNREADABLE
    characters = [character for character in text if not character.isspace()]
    letters = [character for character in characters if character.isalpha()]
    # Full stops lead from a heading to its page, hundreds of them in a table of contents. Readable: from 0.54 on.
    yield "share of letters", len(letters) / max(len(characters) - characters.count("."), 1), 0.4, 1
    # What follows holds for scripts that part words by blanks and write vowels.
    if 2 * sum(letter <= _LAST_LATIN for letter in letters) < len(letters):
        return
    parts = [part for part in text.split() if part.strip(".")]
    # Readable: 3.5 to 7.3; letters set apart: 1; words run together: 10 to 3,000.
    yield "characters per word", sum(map(len, parts)) / len(parts), 1.6, 15
    words = _LATIN_WORD.findall(text)
    if not words:
        return
    plain = [
        "".join(c for c in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(c)) for word in words
    ]
    # Readable: 0.33 to 0.42; shifted by one place: 0.20 to 0.28.
    vowels = sum(letter in _VOWELS for word in plain for letter in word)
    yield "share of vowels", vowels / sum(map(len, plain)), 0.29, 0.55
    # Readable: 0 to 0.07; shifted: 0.12 to 0.43.
    long = [word for word in plain if len(word) >= 4]
    yield "share of words without a vowel", sum(map(_VOWELS.isdisjoint, long)) / max(len(long), 1), 0, 0.1
    # Readable: 0 to 0.06; random substitution: 0.36 to 0.90.
    changed = sum(re.search("[a-z][A-Z]", word) is not None for word in words)
    yield "share of words with capitals inside", changed / len(words), 0, 0.2


# --- PDFs ------------------------------------------------------------------------------------------------------------


MOST_BYTES = 100_000_000
MOST_PAGES = 500
MOST_SECONDS = 120.0
"""For all pages; those of a paper take a few seconds."""
MOST_OPERATIONS_OF_A_STREAM = 2_000_000
MOST_STREAM_BYTES = 20_000_000
"""Bytes of one stream when unpacked; a figure that has more is passed over, a page that has more is not."""
MOST_CHARACTERS = 5_000_000
LETTERS_OF_A_PAGE = 10
"""A page with fewer letters has no text: a page number is not one."""
MOST_BAD_PAGES = 1 / 4
"""Share of pages without text, or with garbled text, above which the paper is not used: a full-page figure may be."""


def pdf_text(data: bytes) -> tuple[str, int]:
    """The mended text of all pages and their number. Raises only ``UnusablePaperError`` because of the file's content.

    A file that is encrypted so that everybody may read it is opened.
    """
    if len(data) > MOST_BYTES:
        raise UnusablePaperError("broken_pdf", f"{len(data):,} bytes; the limit is {MOST_BYTES:,}")
    if b"%PDF-" not in data[:1024]:
        raise UnusablePaperError("broken_pdf", f"not a PDF: it begins with {repr(data[:16])[1:]}")
    if b"%%EOF" not in data[-len(data) // 2 :]:  # a file laid out for the web has one at its beginning, too
        raise UnusablePaperError("cut_pdf", "it has no end mark (%%EOF)")
    try:
        pages = _pypdf_pages(data)
        _check_pages(pages)
    except (UnusablePaperError, PrerequisiteError):
        raise
    except Exception as error:  # a damaged file may cause any
        raise UnusablePaperError("broken_pdf", _line(error)) from error
    return mended("\n\n".join(page.strip() for page in pages)).strip(), len(pages)


def _check_pages(pages: Sequence[str]) -> None:
    if not pages:
        raise UnusablePaperError("broken_pdf", "it has no pages")
    # A glyph that has no character is text all the same, and not a picture.
    letters = [sum(one.isalpha() or not (one.isascii() or one.isspace()) for one in page) for page in pages]
    empty = [str(number) for number, count in enumerate(letters, 1) if count < LETTERS_OF_A_PAGE]
    if len(empty) > MOST_BAD_PAGES * len(pages):
        shown = ", ".join([*empty[:10], *["…"] * (len(empty) > 10)])
        raise UnusablePaperError("scanned_pdf", f"{len(empty)} of {len(pages)} pages have no text ({shown})")
    reasons = {number: why for number, page in enumerate(pages, 1) if (why := garble(page))}
    if len(reasons) > MOST_BAD_PAGES * len(pages):
        number, why = next(iter(reasons.items()))
        detail = f"{len(reasons)} of {len(pages)} pages are not readable; page {number}: {why}"
        raise UnusablePaperError("garbled_pdf", detail)
    # pages of a few words each are too short to judge one by one
    if why := garble("\n".join(pages)) if max(map(len, pages)) < FEWEST_TO_JUDGE else "":
        raise UnusablePaperError("garbled_pdf", why)


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
    logging.getLogger("pypdf").setLevel(logging.CRITICAL + 1)  # it tells of damage that the problem names
    end = time.monotonic() + MOST_SECONDS

    def check_time(*_: Any) -> None:
        if time.monotonic() > end:
            raise UnusablePaperError("broken_pdf", f"reading it takes more than {MOST_SECONDS:g} seconds")

    with pypdf.apply_configuration(**limits):
        reader = pypdf.PdfReader(BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnusablePaperError("encrypted_pdf", "it needs a password")
        count = len(reader.pages)
        if count > MOST_PAGES:
            raise UnusablePaperError("broken_pdf", f"{count:,} pages; the limit is {MOST_PAGES:,}")
        pages: list[str] = []
        for page in reader.pages:
            pages.append(page.extract_text(visitor_operand_before=check_time))
            check_time()  # inside a form the library takes the error for one of the form
            if sum(map(len, pages)) > MOST_CHARACTERS:
                raise UnusablePaperError("broken_pdf", f"more than {MOST_CHARACTERS:,} characters of text")
        return pages


def _line(error: Exception) -> str:
    """The error on one line, shortened and cleaned of what a hostile file may have put into it."""
    message = " ".join(f"{type(error).__name__}: {error}".split())
    return "".join(letter if letter.isprintable() else " " for letter in message)[:200]
