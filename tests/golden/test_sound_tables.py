"""Every table among the golden outputs is one that its readers understand: CSV, Markdown, LaTeX."""

from __future__ import annotations

import csv
import io
import re

import pytest

from tests.golden.golden import EXPECTED
from tests.support.latex_reader import read_latex


def printed(form: str) -> list[tuple[str, str]]:
    """The commands that print tables in this format, and what each printed; an audit that found nothing has none."""
    found = []
    for path in sorted(EXPECTED.glob("*.txt")):
        for part in path.read_text(encoding="utf-8").split("\n\n$ goldless ")[1:]:
            command, _, shown = part.partition("\n")
            if command.endswith(f"--format {form}"):
                shown = re.split(r"\n----- |\n\nfiles of |\n\ntext of ", shown)[0]
                found += [(command, shown)] if "\n" in shown else []
    return found


def test_there_are_tables_of_most_verbs():
    for form in ("csv", "markdown", "latex"):
        assert len({command.split()[0] for command, _ in printed(form)}) >= 12


@pytest.mark.parametrize(("command", "shown"), printed("csv"))
def test_rows_of_csv_are_as_wide_as_their_header(command, shown):
    for part in shown.strip("\n").split("\n\n"):
        header, *rows = csv.reader(io.StringIO(part))
        assert rows
        assert {len(row) for row in rows} == {len(header)}
        assert len(set(header)) == len(header)


@pytest.mark.parametrize(("command", "shown"), printed("markdown"))
def test_markdown_has_tables_with_a_rule_below_the_header(command, shown):
    lines = shown.splitlines()
    assert any(re.fullmatch(r"\|( --- \|)+", line) for line in lines)
    assert min(len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")) >= 3


@pytest.mark.parametrize(("command", "shown"), printed("latex"))
def test_latex_can_be_typeset(command, shown):
    assert shown.startswith("% needs \\usepackage{booktabs}\n")
    assert read_latex(shown)
