r"""LaTeX tables in the style of booktabs, every text taken literally.

What is written compiles with pdfLaTeX and ``\usepackage{booktabs}``. Letters of scripts other than Latin stay as they
are, so those need what such a text needs anyway: XeLaTeX, LuaLaTeX, or a package for the script.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

NEEDS = r"% needs \usepackage{booktabs}"
LONG = 40
"""Characters of a text from which its column breaks lines."""
WIDE = 84
"""Characters of a table from which it is set smaller."""
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
    """A signature in type of one width, which may break after its bars, commas and plus signs."""
    breaking = re.sub(r"\\textbar\{\}|[,+]", r"\g<0>\\allowbreak{}", latex_text(text))
    return rf"\texttt{{{breaking}}}"


def latex_comment(text: str) -> str:
    """The text as a comment of one line."""
    return "% " + "".join(ch for ch in " ".join(text.split()) if _is_shown(ch))


def latex_table(
    *,
    caption: str,
    notes: Sequence[str],
    signature: str,
    left: Sequence[bool],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    apart: int = 0,
) -> str:
    r"""A floating table. Texts of ``caption``, ``notes``, ``signature`` and ``header`` are as they are.

    ``rows`` are LaTeX already. ``left``: for each column, whether it holds words, aligned left; others stand right.
    ``apart``: how many of the last rows are set off by a rule.
    """
    widths = [max(map(_length, column)) for column in zip(header, *rows, strict=True)]
    said = ". ".join(part.rstrip(".") for part in (caption, *notes) if part)
    below = rf" Signature: {latex_signature(signature)}." if signature else ""
    lines = [_row([latex_text(name) for name in header]), r"\midrule", *map(_row, rows)]
    if 0 < apart < len(rows):
        lines.insert(-apart, r"\midrule")
    return "\n".join(
        [
            *([latex_comment(signature)] if signature else []),
            r"\begin{table}",
            r"  \centering",
            *([r"  \footnotesize"] if sum(widths) + 2 * len(widths) > WIDE else []),
            rf"  \caption[{{{latex_text(caption)}}}]{{{latex_text(said)}.{below}}}",
            rf"  \begin{{tabular}}{{{_columns(left, widths)}}}",
            *(f"    {line}" for line in (r"\toprule", *lines, r"\bottomrule")),
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _columns(left: Sequence[bool], widths: Sequence[int]) -> str:
    long = sum(words and width > LONG for words, width in zip(left, widths, strict=True))
    return "".join(
        rf"p{{{0.6 / long:.2f}\linewidth}}" if words and width > LONG else "l" if words else "r"
        for words, width in zip(left, widths, strict=True)
    )


def _length(cell: str) -> int:
    """About how many characters are printed."""
    return len(re.sub(r"[{}$]", "", re.sub(r"\\[A-Za-z]+(\{\})?|\\.", "x", cell)))


def _row(cells: Sequence[str]) -> str:
    line = " & ".join(cells)
    # after the end of a row LaTeX takes a bracket or a star for an argument
    return ("{}" if line.startswith(("[", "*")) else "") + line + r" \\"
