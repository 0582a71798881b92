"""``goldless explain``: the map on standard output, readable without colour, and no text that acts on the terminal."""

from __future__ import annotations

import io
import math
import re
from functools import partial

import anyio
import pytest
from rich.console import Console

from goldless.cli import score as command
from goldless.runs.explaining import explain_pair
from goldless.runs.options import Options
from goldless.studies import read_study

LN4 = math.log(4)  # what a word that both have tells in the toy scorer
TEXTS = {"t1": {"ann": "zarn bluk. mipo hoft.", "bob": "zarn mipo. quex bluk."}}
HOSTILE = {"t1": {"ann": "zarn [red]bluk[/red].", "bob": "zarn [bold]bluk[/bold] \x1b[31mmipo\x07."}}


def words(text: str) -> list[str]:
    return re.findall(r"\w+\W*", text)


@pytest.fixture
def pair(toy_scorer, study_file, script_file, tmp_path):
    """The command for a pair: a study file, and the toy scorer as a script with all it is asked about it."""

    def make(texts=TEXTS) -> list[object]:
        path, model = study_file(texts), toy_scorer(tokens=words)
        options = Options(scorer=model, journal=tmp_path / "writing-the-script.sqlite")
        anyio.run(partial(explain_pair, task="t1", agent="ann", peer="bob"), read_study(path), options)
        asked = {(call.context, call.target) for call in model.calls}
        rows = [
            {"context": c, "target": t, "logprobs": model._logprobs(c, t), "tokens": words(t)} for c, t in sorted(asked)
        ]
        script = f"scripted:{script_file(rows)}"
        return ["explain", path, "--task", "t1", "--agent", "ann", "--peer", "bob", "--scorer", script]

    return make


def test_without_colour_the_sentences_have_their_numbers_in_80_columns(goldless, pair):
    ended = goldless(*pair())
    assert ended.code == 0
    assert f"t1: the response of ann gives {3 * LN4:+.2f} nats about that of bob" in ended.out
    lines = ended.out.splitlines()
    for start, value, text in [
        ("P1", 2 * LN4, "zarn mipo."),
        ("P2", LN4, "quex bluk."),
        ("C1", 2 * LN4, "zarn bluk."),
        ("C2", LN4, "mipo hoft."),
    ]:
        assert any(re.match(rf"\s*{start}\s+\{value:+.2f}\s+▇+\s+{re.escape(text)}", line) for line in lines), ended.out
    assert re.search(rf"C2 .*→ P1 \+{LN4:.2f}", ended.out)
    assert "\x1b" not in ended.out
    assert max(len(line) for line in lines if not line.startswith("information-map|")) <= 80


def test_each_token_has_the_colours_of_its_gain(goldless, pair, monkeypatch):
    shown = io.StringIO()
    terminal = Console(
        file=shown, force_terminal=True, color_system="truecolor", width=80, emoji=False, highlight=False
    )
    monkeypatch.setattr(command, "out", lambda: terminal)
    assert goldless(*pair()).code == 0
    # ln 4 is above 0.5 and below 2: green; quex gains nothing and is plain
    assert re.search(r"\x1b\[[\d;]*32m(zarn|mipo)", shown.getvalue())
    assert re.search(r"(?<!m)quex", shown.getvalue())


def test_markup_and_control_characters_of_a_response_are_shown_not_obeyed(goldless, pair):
    ended = goldless(*pair(HOSTILE))
    assert "zarn [bold]bluk[/bold] [31mmipo." in ended.out
    assert "zarn [red]bluk[/red]." in ended.out
    assert "\x1b" not in ended.out
    assert "\x07" not in ended.out
