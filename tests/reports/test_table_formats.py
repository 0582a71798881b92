"""Tables as LaTeX, Markdown and CSV: texts are taken literally, and the numbers are the same in each."""

from __future__ import annotations

import csv
import io
import re
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from goldless.metrics.label_information import Information, LabelInformation, RaterInformation
from goldless.reports.formats import code_line, latex_number, latex_text, markdown_cell
from goldless.reports.leaderboard import RaterScores
from goldless.reports.report_table import Column, ReportTable
from tests.support.latex_reader import plain_text, read_latex

HOSTILE = [
    "a_b & c% $x$ #1 {y} ~z ^w \\end{table}",
    "[1] first",
    "* starred",
    "--scorer ?` !` '' ,, \"quoted\"",
    "<script>alert(1)</script> | `code`",
    "\x00\x1b[31m\u202ereversed\r\nline",
    "→ ↓ ≤ … − × ± – — “x” 😀 ½",
    "\\",
    "%",
    "",
]


def table(name="ann", *, title="Scores", signature="made|seed:0", heading="score"):
    columns = (Column("name", "name"), Column("score", heading, "number"), Column("low high", "95%", "interval"))
    rows = ({"name": name, "score": -0.5, "low": -1.0, "high": 0.25}, {"name": "bob", "score": None})
    return ReportTable(title, columns, rows, signature)


def squeezed(text):
    return " ".join(text.split())


# --- LaTeX -------------------------------------------------------------------------------------------------------


@given(st.text(st.sampled_from(string.printable)))
@example("a--b---c")
@example("\\textbackslash{}")
def test_an_ascii_text_is_printed_by_latex_as_it_was(text):
    straight = squeezed(text).replace('"', "''")
    assert plain_text(latex_text(text)) == "".join(ch for ch in straight if ch.isprintable())


@given(name=st.text(), title=st.text(), signature=st.text(), heading=st.text())
@example(name=HOSTILE[0], title=HOSTILE[1], signature=HOSTILE[6], heading=HOSTILE[7])
@example(name=HOSTILE[2], title=HOSTILE[3], signature=HOSTILE[4], heading=HOSTILE[5])
@example(name=HOSTILE[5], title=HOSTILE[8], signature=HOSTILE[9], heading=HOSTILE[0])
@example(name="[", title="]", signature="|,+", heading="*")
def test_whatever_names_and_titles_are_the_table_is_sound_latex(name, title, signature, heading):
    text = table(name, title=title, signature=signature, heading=heading).to_latex()
    (read,) = read_latex(text)
    assert [row[0] for row in read.rows][2:] == ["bob"]
    assert not {"\x1b", "\u202e"} & set(text)
    assert read.rows[1][1:] == ["-0.5000", "[-1.0000, 0.2500]"]
    assert len(read.rows) == 3


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("−1", "$-$1"),
        ("↓ null", r"$\downarrow$ null"),
        ("≤ praise", r"$\leq$ praise"),
        ("0.1 … 0.2", r"0.1 \ldots{} 0.2"),
        ("a–b", "a--b"),
        ("--flag", "-{}-flag"),
        ("50 %", r"50 \%"),
        ("é", "é"),
        ("e\u0301", "é"),
        ("😀", "U+1F600"),
        ("❤\ufe0f", "U+2764"),
    ],
)
def test_signs_that_pdflatex_does_not_know_are_written_as_commands_or_numbers(text, latex):
    assert latex_text(text) == latex


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("-0.25", "$-$0.25"),
        ("+0.25", "+0.25"),
        ("1e-05", r"1$\times10^{-5}$"),
        ("1.2e+06", r"1.2$\times10^{6}$"),
        ("3/40", "3/40"),
        ("-8.2%", r"$-$8.2\%"),
        ("missing", "missing"),
    ],
)
def test_figures_have_true_minus_signs_and_powers_of_ten(text, latex):
    assert latex_number(text) == latex


def test_notes_stand_in_the_caption_and_rows_that_sum_up_below_a_rule():
    made = ReportTable("Cost.", (Column("n", "n", "count"),), ({"n": 1}, {"n": 2}), notes=("Half of it.",), apart=1)
    text = made.to_latex()
    assert "Cost. Half of it." in text
    assert re.findall(r"^ *(\\midrule|[12n] )", text, re.MULTILINE) == ["n ", r"\midrule", "1 ", r"\midrule", "2 "]


def test_a_column_of_long_texts_breaks_lines_and_a_wide_table_is_set_smaller():
    (read,) = read_latex(table("word " * 30).to_latex())
    assert read.columns.startswith("p{0.60\\linewidth}")
    assert read.small
    assert not read_latex(table().to_latex())[0].small


# --- the same numbers in every format ------------------------------------------------------------------------------


def test_a_table_of_raters_has_the_same_numbers_in_latex_and_csv():
    known = Information(0.5, 0.125, 0.0099)
    found = LabelInformation(known, (RaterInformation("p_1", 1, known), RaterInformation("p_2", 0, None)))
    raters = RaterScores("tvd-mi[labels]", {"metric": "tvd-mi", "items": "labels"}, {"tone": found})
    (read,) = read_latex(raters.to_latex())
    # 0.5 less what chance gives, 0.125
    assert read.rows[1] == ["tone", "mean over pairs", "0.500", "0.125", "0.375", "0.010", "1"]
    assert read.rows[2] == ["tone", "p_1", "0.500", "0.125", "0.375", "0.010", "1"]
    assert read.rows[3] == ["tone", "p_2", "missing", "", "", "", "0"]
    given = next(csv.DictReader(io.StringIO(raters.to_csv())))
    assert (given["value"], given["null"], given["p"]) == ("0.5", "0.125", "0.0099")


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_every_format_rounds_a_number_to_the_same_digits(score, low):
    columns = (Column("score", "score", "number", decimals=3), Column("low high", "95%", "interval", decimals=3))
    made = ReportTable("T", columns, ({"score": score, "low": low, "high": 1.0},))
    value = next(csv.DictReader(io.StringIO(made.to_csv())))
    wanted = [f"{float(value['score']):z.3f}", f"{float(value['low']):z.3f}", "1.000"]
    (read,) = read_latex(made.to_latex())
    assert re.findall(r"[-\d.]+", " ".join(read.rows[1])) == wanted
    assert re.findall(r"-?\d+\.\d+", made.to_markdown().splitlines()[-1]) == wanted


# --- Markdown and the terminal -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a|b", "a\\|b"),
        ("a\\|b", "a\\\\\\|b"),
        ("<b>*x*</b>", "&lt;b&gt;\\*x\\*&lt;/b&gt;"),
        ("![x](http://there/y.png)", "![x]\\(http://there/y.png)"),
        ("two\nlines\x1b[31m", "two lines[31m"),
    ],
)
def test_markdown_cells_are_taken_literally(text, cell):
    assert markdown_cell(text) == cell


def test_a_signature_with_backticks_stays_code():
    assert code_line("a|b") == "`a|b`"
    assert code_line("a `b` c") == "`` a `b` c ``"


def test_the_terminal_shows_a_reason_where_a_value_is_absent():
    made = ReportTable(
        "T", (Column("x", "x", "number", reason="why"), Column("y", "y")), ({"why": "no task", "y": "a\x1b[2Kb"},)
    )
    out = io.StringIO()
    Console(file=out, width=80).print(*made.to_rich(80))
    assert "no task" in out.getvalue()
    assert "a[2Kb" in out.getvalue()


WORDS = st.lists(st.sampled_from(["a", "word", "日本", "é", "ten words", "a\nbreak"]), min_size=1, max_size=9).map(
    " ".join
)


@given(st.lists(st.tuples(WORDS, st.integers(0, 10**6)), min_size=1, max_size=4), st.integers(30, 60))
def test_the_terminal_has_the_lines_that_rich_lays_out(rows, width):
    columns = (Column("agent", "name of the agent", "name"), Column("calls", "calls", "count"))
    made = ReportTable("T", columns, tuple({"agent": agent, "calls": calls} for agent, calls in rows))
    (part,) = made.to_rich(width)

    counts = [f"{calls:,}" for _, calls in rows]
    calls_width = max(map(len, ("calls", *counts)))
    widest_agent = max(cell_len(line) for agent, _ in rows for line in ("name of the agent", *agent.split("\n")))
    expected = Table(title="T", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    expected.add_column("name of the agent", width=min(widest_agent, width - calls_width - 4))
    expected.add_column("calls", justify="right", width=calls_width)
    for (agent, _), count in zip(rows, counts, strict=True):
        expected.add_row(agent, count)
    assert _lines_on_terminal(part) == _lines_on_terminal(expected)


def _lines_on_terminal(shown):
    out = io.StringIO()
    Console(file=out, width=100).print(shown)
    return [line.rstrip() for line in out.getvalue().rstrip().split("\n")]


def test_no_word_is_broken_where_a_text_begins_with_a_space():
    made = ReportTable("T", (Column("x", "x", "name"),), ({"x": " a-word-of-eighteen and more"},))
    (part,) = made.to_rich(20)
    assert " a-word-of-eighteen" in [line.rstrip() for line in part.plain.split("\n")]
