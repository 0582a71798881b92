"""``goldless explain`` prints what a response holds, and obeys none of it."""

from __future__ import annotations

import re
from functools import partial

import anyio

from goldless.runs.explaining import explain_pair
from goldless.runs.options import Options
from goldless.studies import read_study
from study_files import script_rows

HOSTILE = {"t1": {"ann": "zarn [red]bluk[/red].", "bob": "zarn [bold]bluk[/bold] \x1b[31mmipo\x07."}}


def words(text: str) -> list[str]:
    return re.findall(r"\w+\W*", text)


def test_markup_and_control_characters_of_a_response_are_shown_not_obeyed(
    goldless, toy_scorer, study_file, script_file, tmp_path
):
    path, model = study_file(HOSTILE), toy_scorer(tokens=words)
    options = Options(scorer=model, journal=tmp_path / "writing-the-script.sqlite")
    anyio.run(partial(explain_pair, task="t1", agent="ann", peer="bob"), read_study(path), options)
    script = script_file([{**row, "tokens": words(row["target"])} for row in script_rows(model)])
    pair = ("--task", "t1", "--agent", "ann", "--peer", "bob")
    ended = goldless("explain", path, *pair, "--scorer", f"scripted:{script}")
    assert "zarn [bold]bluk[/bold] [31mmipo." in ended.out
    assert "zarn [red]bluk[/red]." in ended.out
    assert "\x1b" not in ended.out
    assert "\x07" not in ended.out
