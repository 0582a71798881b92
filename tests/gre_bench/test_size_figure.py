"""The figure of a board: a file by itself, every agent drawn, nothing hostile let through."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from goldless.apps.gre.boards import Board, BoardScore, read_board
from goldless.apps.gre.size_figure import size_figure
from goldless.errors import UserError
from goldless.records import Agent

SVG = "{http://www.w3.org/2000/svg}"
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def figure():
    return size_figure(read_board("published:70b"))


def texts(figure, class_=""):
    return [el.text for el in ET.fromstring(figure).iter(f"{SVG}text") if class_ in (el.get("class") or "")]


def hints(figure):
    return [el.text for el in ET.fromstring(figure).iter(f"{SVG}title")]


def board(agents, scores, **fields):
    return Board("b", {"m": scores}, tuple(agents), **fields)


def test_the_picture_in_the_docs_is_what_the_code_draws_from_table_6(figure):
    assert (DOCS / "images" / "gre_figure5.svg").read_text(encoding="utf-8") == figure
    assert len(texts(figure, "point-label")) == 3 * 18
    assert "claude-3-opus (Claude 3): about 2T parameters, 25.77" in hints(figure)
    # it stands alone
    for word in ("<script", "href", "url(", "@import", "var(", "javascript", "<image", "<foreignobject"):
        assert word not in figure.lower()


def test_intervals_and_the_human_baseline_are_drawn_where_there_are_any():
    agents = [Agent("a", None, 1e9, "f"), Agent("b", None, 7e9, "f"), Agent("human")]
    scores = {"a": BoardScore(1, 0.5, 1.5, 9), "b": BoardScore(2, 1.5, 2.5, 9), "human": BoardScore(1.5, 1.4, 1.6, 9)}
    figure = size_figure(board(agents, scores, level=0.9))
    lines = [el.get("class") for el in ET.fromstring(figure).iter(f"{SVG}line")]
    assert sum(class_.startswith("whisker") for class_ in lines) == 2
    assert lines.count("band-line") == 1
    assert "human baseline" in texts(figure)
    assert "Bars and the grey band are 90% intervals." in " ".join(texts(figure, "caption"))
    assert "a (f): 1B parameters, 1.00 (0.50 to 1.50)" in hints(figure)


def test_hostile_names_stay_text():
    name = '</text><script>alert("x")</script>\u202e&amp;'
    agents = [Agent(name, "<g>", 1e9, "<svg onload=x>"), Agent("b", "h", 1e9, "<svg onload=x>")]
    scores = {agent.agent: BoardScore(1.0) for agent in agents}
    figure = size_figure(replace(board(agents, scores), name="<b>&"))
    assert {el.tag for el in ET.fromstring(figure).iter()} <= {
        f"{SVG}{tag}" for tag in ("svg", "title", "style", "rect", "text", "g", "line", "path", "circle")
    }
    assert not re.search(r"\son\w+=", re.sub(r">[^<]*<", "><", figure))
    assert "\u202e" not in figure


def test_a_board_without_sizes_cannot_be_drawn():
    with pytest.raises(UserError, match="no agent has both a number of parameters and a score"):
        size_figure(board([Agent("a")], {"a": BoardScore(1.0)}))
