"""``goldless consistency`` by the command line."""

from __future__ import annotations

import pytest

TEXTS = {
    f"t{i}": {"ann": f"zarn bluk mipo w{i}", "bob": f"zarn bluk w{i}", "cy": "quex", "dee": f"mipo quex w{i}"}
    for i in range(4)
}


def test_a_study_is_scored_with_each_scorer_that_is_named(goldless, study_file, script_file):
    texts = {"t1": {"ann": "a", "bob": "b", "cy": "c"}}
    scripts = [script_file([{"prompt": "x", "answer": "y"}], f"{name}.jsonl") for name in ("one", "two")]
    ended = goldless(
        "consistency", study_file(texts), "--scorer", f"scripted:{scripts[0]}", "--scorer", f"scripted:{scripts[1]}"
    )
    # neither gives log-probabilities: the scorers were opened, and refused
    assert ended.code == 2
    assert "does not return log-probabilities" in " ".join(ended.err.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "needs two scorers"),
        (("--scorer", "embedded"), "at least twice"),
        (("other", "--scorer", "embedded", "--scorer", "gguf:x"), "one study"),
        (("other",), "is not a run folder"),
        (("--metric", "tvd-mi", "--scorer", "embedded", "--scorer", "gguf:x"), "does not use a scorer"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_exit_code_2(goldless, study_file, arguments, words):
    ended = goldless("consistency", study_file(TEXTS), *arguments)
    assert ended.code == 2
    assert words in " ".join(ended.err.split())
