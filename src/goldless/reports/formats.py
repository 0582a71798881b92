r"""Output formats of tables, with every text escaped: Markdown, LaTeX, the terminal; and badges.

The LaTeX is in the style of booktabs and compiles with pdfLaTeX and ``\usepackage{booktabs}``. Letters of other scripts
than Latin stay as they are, so those need what such a text needs anyway: XeLaTeX, LuaLaTeX, or a package for them.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Colour = Literal["green", "red", "grey"]
GROUNDS: dict[Colour, str] = {"green": "#1a7f37", "red": "#b42318", "grey": "#57606a"}
CHARACTER_WIDTH = 6.6
"""Average width of a letter at 11 pixels; the text is stretched to fit."""
NEEDS = r"% needs \usepackage{booktabs}"
LONG = 40
"""A column with a longer text breaks lines."""
WIDE = 84
"""A table with longer rows is set in smaller type."""
SPECIAL = {
    **{ch: f"\\{ch}" for ch in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\textasciigrave{}",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "±": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "÷": r"$\div$",
    "·": r"$\cdot$",
    "∞": r"$\infty$",
    "\N{MINUS SIGN}": "$-$",
    "…": r"\ldots{}",
    "\N{EN DASH}": "--",
    "—": "---",
    "\N{HYPHEN}": "-",
    "\N{NON-BREAKING HYPHEN}": "-",
    "\N{LEFT SINGLE QUOTATION MARK}": r"\textquoteleft{}",
    "\N{RIGHT SINGLE QUOTATION MARK}": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "•": r"\textbullet{}",
    "°": r"\textdegree{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    "©": r"\textcopyright{}",
    "®": r"\textregistered{}",
    "™": r"\texttrademark{}",
    "€": r"\texteuro{}",
    "£": r"\pounds{}",
    "µ": r"$\mu$",
    "²": r"\textsuperscript{2}",
    "³": r"\textsuperscript{3}",
    "¹": r"\textsuperscript{1}",
    "⁻": r"$^{-}$",
    **{ch: f"${command}$" for ch, command in zip("αβγδεκλμπρστχ", (
        r"\alpha", r"\beta", r"\gamma", r"\delta", r"\epsilon", r"\kappa", r"\lambda", r"\mu", r"\pi", r"\rho",
        r"\sigma", r"\tau", r"\chi",
    ), strict=True)},
}  # fmt: skip


# --- Markdown --------------------------------------------------------------------------------------------------------


def markdown_cell(text: str) -> str:
    """The text on one line, with Markdown and HTML escaped."""
    line = "".join(ch for ch in " ".join(text.split()) if ch.isprintable())
    marked = re.sub(r"[\\|*]", r"\\\g<0>", html.escape(line, quote=False))
    return marked.replace("](", "]\\(")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [header, ("---",) * len(header), *rows]
    return ["| " + " | ".join(map(markdown_cell, line)) + " |" for line in lines]


def code_line(text: str) -> str:
    """The text as code on one line, even if it contains backticks."""
    line = printable(" ".join(text.split()))
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if len(fence) > 1 else f"`{line}`"


# --- the terminal ----------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """The text without terminal control sequences and bidirectional marks; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(ch for ch in text.expandtabs(1) if ch.isprintable() or ch == "\n")


def plain(text: str, style: str = "") -> Text:
    """The text taken literally: no markup, no control sequences."""
    from rich.text import Text  # noqa: PLC0415 - not every table is printed

    return Text(printable(text), style)


def simple_table(title: str) -> Table:
    """An empty table in the style of all tables."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    return Table(title=plain(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))


# --- LaTeX -----------------------------------------------------------------------------------------------------------


def latex_text(text: str) -> str:
    """The text on one line with every character taken literally.

    A character for which LaTeX has no sign is written by its number, such as U+1F600; control characters are left out.
    """
    line = "".join(ch for ch in unicodedata.normalize("NFC", " ".join(text.split())) if _is_shown(ch))
    return "".join(
        # two of a kind would be joined to another sign
        "{}" * (ch == before and ch in "-',") + _character(ch)
        for before, ch in zip(" " + line, line, strict=False)
    )


def _is_shown(ch: str) -> bool:
    return ch.isprintable() and not unicodedata.name(ch, "").startswith("VARIATION SELECTOR")


def _character(ch: str) -> str:
    if ch in SPECIAL:
        return SPECIAL[ch]
    return ch if ch.isascii() or unicodedata.category(ch)[0] in "LM" else f"U+{ord(ch):04X}"


def latex_number(text: str) -> str:
    """A figure, with true minus signs and powers of ten."""
    figure = re.sub(r"(?<![\w.])-(?=[\d.])", "$-$", latex_text(text))
    return re.sub(r"(?<=\d)e([+-])0*(\d+)", lambda m: _power(m[1], m[2]), figure)


def _power(sign: str, exponent: str) -> str:
    return rf"$\times10^{{{'-' * (sign == '-')}{exponent}}}$"


def latex_signature(text: str) -> str:
    """A signature in monospace, with line breaks allowed after bars, commas and plus signs."""
    breaking = re.sub(r"\\textbar\{\}|[,+]", r"\g<0>\\allowbreak{}", latex_text(text))
    return rf"\texttt{{{breaking}}}"


def latex_comment(text: str) -> str:
    """The text as a one-line comment."""
    return "% " + "".join(ch for ch in " ".join(text.split()) if _is_shown(ch))


def latex_columns(left: Sequence[bool], widths: Sequence[int]) -> str:
    """The column specification: ``left`` columns are text, and long ones break lines; others are right-aligned."""
    long = sum(words and width > LONG for words, width in zip(left, widths, strict=True))
    return "".join(
        rf"p{{{0.6 / long:.2f}\linewidth}}" if words and width > LONG else "l" if words else "r"
        for words, width in zip(left, widths, strict=True)
    )


def latex_length(cell: str) -> int:
    """Approximate printed length of a cell in characters."""
    return len(re.sub(r"[{}$]", "", re.sub(r"\\[A-Za-z]+(\{\})?|\\.", "x", cell)))


def latex_row(cells: Sequence[str]) -> str:
    """A row of cells that are LaTeX already."""
    line = " & ".join(cells)
    # after the end of a row LaTeX takes a bracket or a star for an argument
    return ("{}" if line.startswith(("[", "*")) else "") + line + r" \\"


# --- badges ----------------------------------------------------------------------------------------------------------


def badge_svg(label: str, message: str, colour: Colour) -> str:
    """The badge as an SVG picture."""
    widths = [round(len(text) * CHARACTER_WIDTH) + 12 for text in (label, message)]
    left, right = (html.escape(text) for text in (label, message))
    total = sum(widths)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img" '
        f'aria-label="{left}: {right}"><title>{left}: {right}</title>'
        f'<rect width="{widths[0]}" height="20" fill="#24292f"/>'
        f'<rect x="{widths[0]}" width="{widths[1]}" height="20" fill="{GROUNDS[colour]}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{widths[0] / 2}" y="14" textLength="{widths[0] - 12}">{left}</text>'
        f'<text x="{widths[0] + widths[1] / 2}" y="14" textLength="{widths[1] - 12}">{right}</text>'
        "</g></svg>\n"
    )
