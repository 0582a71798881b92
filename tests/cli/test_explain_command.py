"""``goldless explain``: the map as a table, and no text that acts on the terminal."""

from __future__ import annotations

import math
import re
from functools import partial

import anyio
import pytest

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


def test_every_sentence_has_its_number_and_what_it_is_mostly_made_of_in_80_columns(goldless, pair):
    ended = goldless(*pair())
    assert ended.code == 0
    assert f"t1: the response of ann gives {3 * LN4:+.2f} nats about that of bob" in ended.out
    rows = [" ".join(line.replace("▇", "").split()) for line in ended.out.splitlines()]
    assert [row for row in rows if row[:1] in {"P", "C"} and row[1:2].isdigit()] == [
        f"P1 {2 * LN4:+.2f} zarn mipo. zarn {LN4:+.2f}, mipo {LN4:+.2f}",
        f"P2 {LN4:+.2f} quex bluk. bluk {LN4:+.2f}",
        f"C1 {2 * LN4:+.2f} zarn bluk. P1 {LN4:+.2f}",
        f"C2 {LN4:+.2f} mipo hoft. P1 {LN4:+.2f}",
    ]
    assert max(map(len, ended.out.splitlines())) <= 80


def test_markup_and_control_characters_of_a_response_are_shown_not_obeyed(goldless, pair):
    ended = goldless(*pair(HOSTILE))
    assert "zarn [bold]bluk[/bold] [31mmipo." in ended.out
    assert "zarn [red]bluk[/red]." in ended.out
    assert "\x1b" not in ended.out
    assert "\x07" not in ended.out
