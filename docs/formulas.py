"""Formulas of the pages as MathML, which a browser shows without a script or a font from elsewhere.

A block of ``math`` is a formula of its own, ``$`…`$`` one in a line, as GitHub shows them.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

BLOCK = re.compile(r"^```math\n(.*?)^```$", re.DOTALL | re.MULTILINE)
IN_LINE = re.compile(r"\$`([^`\n]+)`\$")
SPACES = (
    (re.compile(r"(<mi>(?:log|ln|exp|min|max)</mi>)(?=<m(?:i|sub|frac|over)\b)"), r'\1<mspace width="0.167em" />'),
    (re.compile(r"<mi>;</mi>"), '<mo separator="true">;</mo>'),
)
"""What LaTeX sets by itself after a function's name and a semicolon."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its formulas as MathML, each within an element that Markdown leaves in its paragraph."""
    with_blocks = BLOCK.sub(lambda found: f"<p>{_mathml(found[1], 'block')}</p>", markdown)
    return IN_LINE.sub(lambda found: f"<span>{_mathml(found[1], 'inline')}</span>", with_blocks)


def _mathml(latex: str, display: str) -> str:
    """One formula; a bar would end a table's cell and an asterisk begin emphasis, so they are written as numbers."""
    made = convert(" ".join(latex.split()), display=display)
    for pattern, spaced in SPACES:
        made = pattern.sub(spaced, made)
    if "\\" in made:
        raise PluginError(f"a formula has a command that is not known: {latex}")
    return made.replace("|", "&#x7C;").replace("*", "&#x2217;")
