"""PDF files made by hand for the tests: a few objects, Helvetica, one content stream for each page."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence

import pypdf

CATALOG, PAGES, FONT = 1, 2, 3


def shown(text: str) -> bytes:
    """The drawing of a text, a line for each of its lines; characters of Latin-1 only."""
    lines = []
    for line in text.split("\n"):
        escaped = line.encode("latin-1").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
        lines.append(b"(" + escaped + b") Tj 0 -14 Td")
    return b"BT /F1 12 Tf 72 700 Td " + b" ".join(lines) + b" ET"


def stream(content: bytes, dictionary: bytes = b"") -> bytes:
    packed = zlib.compress(content)
    return b"<</Length %d/Filter/FlateDecode%b>>stream\n%b\nendstream" % (len(packed), dictionary, packed)


def pdf_of(
    pages: Sequence[bytes],
    *,
    font: bytes = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    objects: Sequence[bytes] = (),
    resources: bytes = b"",
    repeat: int = 1,
) -> bytes:
    """A PDF of pages with these contents; ``objects`` are numbered from 4 on."""
    held = [b"<</Type/Catalog/Pages 2 0 R>>", b"", font, *objects]
    kids = []
    for content in pages:
        held.append(stream(content))
        contents = len(held)
        box = b"/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>%b>>" % resources
        held.append(b"<</Type/Page/Parent 2 0 R%b/Contents %d 0 R>>" % (box, contents))
        kids.append(b"%d 0 R" % len(held))
    held[PAGES - 1] = b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(kids) * repeat, b" ".join(kids * repeat))
    return _file(held)


def _file(held: Sequence[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.5\n")
    offsets = []
    for number, body in enumerate(held, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(held) + 1
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n%b" % (size, table)
    out += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, start)
    return bytes(out)


def text_pdf(*pages: str) -> bytes:
    """A PDF with these pages of text."""
    return pdf_of([shown(page) for page in pages])


def encrypted_pdf(data: bytes, *, user: str, owner: str) -> bytes:
    """The same PDF under passwords (RC4, which needs no other package)."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    writer.encrypt(user, owner, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
