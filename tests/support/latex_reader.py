"""A reader of LaTeX tables that refuses what pdfLaTeX would stumble over, and gives the cells back as text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

WORDS = {
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textasciicircum": "^",
    "textless": "<",
    "textgreater": ">",
    "textbar": "|",
    "textasciigrave": "`",
    "ldots": "…",
    "downarrow": "↓",
    "leq": "≤",
    "rightarrow": "→",
    "pm": "±",
    "times": "×",
    "textquotedblleft": "“",
    "textquotedblright": "”",
    "textquoteleft": "‘",
    "textquoteright": "’",
}
KERNEL = """
leftarrow uparrow geq neq approx div cdot infty mu alpha beta gamma delta epsilon kappa lambda pi rho sigma tau chi
textbullet textdegree textcopyright textregistered texttrademark texteuro textsuperscript texttt pounds S P
allowbreak centering footnotesize linewidth
"""
"""Commands that LaTeX has without any package."""
RULES = ("\\toprule", "\\midrule", "\\bottomrule")


@dataclass
class Read:
    """One table."""

    columns: str = ""
    rows: list[list[str]] = field(default_factory=list)
    """The header first."""
    small: bool = False


def read_latex(text: str) -> list[Read]:
    """The tables of a document's part; ``AssertionError`` where it would not compile."""
    found: list[Read] = []
    environments: list[str] = []
    for line in map(str.strip, text.split("\n")):
        if line.startswith("%"):
            continue
        check_line(line)
        if begin := re.fullmatch(r"\\begin\{(\w+)\}(?:\{(.*)\})?", line):
            environments.append(begin[1])
            if begin[1] == "table":
                found.append(Read())
            else:
                found[-1].columns = begin[2]
        elif end := re.fullmatch(r"\\end\{(\w+)\}", line):
            assert environments.pop() == end[1]
        elif line:
            read_line(line, found[-1], inside=environments[-1])
    assert not environments
    for table in found:
        columns = re.sub(r"p\{0\.\d+\\linewidth\}", "p", table.columns)
        assert set(columns) <= set("lrp")
        assert {len(row) for row in table.rows} == {len(columns)}, table.rows
    return found


def read_line(line: str, table: Read, *, inside: str) -> None:
    """Note what a line says of its table."""
    if inside == "tabular":
        table.rows += [] if line in RULES else [read_row(line)]
    elif line.startswith("\\caption"):
        assert plain_text(line.partition("]{")[2][:-1])
    else:
        assert line in {"\\centering", "\\footnotesize"}, line
        table.small |= line == "\\footnotesize"


def check_line(line: str) -> None:
    """Braces balance, mathematics ends, and no special character stands bare; cells may be divided."""
    depth, math, i = 0, False, 0
    while i < len(line):
        ch = line[i]
        if ch == "\\":
            word = re.match(r"\\(?:[A-Za-z]+|[&%$#_{}\\])", line[i:])
            assert word, f"unknown command in {line!r}"
            i += len(word[0])
            continue
        assert ch not in '%#~"`|<>', f"bare {ch} in {line!r}"
        assert ch not in "_^" or math, f"bare {ch} in {line!r}"
        assert ch.isascii() or ch.isalpha() or not ch.isprintable() or ch.isidentifier() or ("_" + ch).isidentifier(), (
            ch
        )
        assert ch.isprintable(), repr(ch)
        math ^= ch == "$"
        depth += (ch == "{") - (ch == "}")
        assert depth >= 0, line
        i += 1
    assert depth == 0, line
    assert not math, line


def read_row(line: str) -> list[str]:
    """The cells as text."""
    assert line.endswith(" \\\\"), line
    # a bracket or star here would be taken for an argument of the end of the row before
    assert not line.startswith(("[", "*")), line
    return [plain_text(cell.strip()) for cell in re.split(r"(?<!\\)&", line[:-3])]


def plain_text(latex: str) -> str:
    """What is printed, as text."""
    text = re.sub(r"\$\\times10\^\{(-?\d+)\}\$", r"e\1", latex)
    out, i = "", 0
    while i < len(text):
        if word := re.match(r"\\([A-Za-z]+)(\{\})?", text[i:]):
            assert word[1] in WORDS or word[1] in KERNEL.split(), word[0]
            out += WORDS.get(word[1], "")
            i += len(word[0])
        elif text[i] == "\\":
            out += text[i + 1]
            i += 2
        else:
            out += "" if text[i] in "{}$" else text[i]
            i += 1
    return out
