"""Reads a printed table as its readers do: CSV, Markdown, LaTeX."""

from __future__ import annotations

import csv
import io
import re

from tests.support.latex_reader import read_latex


def check_csv(text: str) -> None:
    """Rows are as wide as their header, whose names differ."""
    for table in text.split("\n\n"):
        header, *rows = csv.reader(io.StringIO(table))
        assert rows, table
        assert {len(row) for row in rows} == {len(header)}, table
        assert len(set(header)) == len(header), table


def check_markdown(text: str) -> None:
    """Each table has a rule below its header, and no row of one cell."""
    lines = text.splitlines()
    assert any(re.fullmatch(r"\|( --- \|)+", line) for line in lines), text
    assert min(len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")) >= 3, text


def check_latex(text: str) -> None:
    """It says which package it needs and can be typeset."""
    assert text.startswith("% needs \\usepackage{booktabs}\n"), text
    assert read_latex(text), text


CHECKS = {"csv": check_csv, "markdown": check_markdown, "latex": check_latex}
