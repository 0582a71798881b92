"""Empty, copied and colluding responses do not win under the default metric, and the run warns of them.

The toy scorer counts the words that two texts share, which is what fools a metric without task control.
"""

from __future__ import annotations

import polars as pl
import pytest

import goldless
from tests.support.evidence_frames import scores
from tests.support.support_studies import COLLUSION, SUPPORT, support_rows

DEFAULTS = ["shared-info", "length"]
GIVEN = "shared-info[prompt]"


def evaluate(agents, scorer, **options):
    return goldless.evaluate(pl.DataFrame(support_rows(*agents)), scorer=scorer, resamples=200, **options)


def order(result, metric=None):
    return [row.agent for row in result.leaderboard(metric).rows]


def test_two_colluding_boilerplates_do_not_win(toy_scorer):
    assert order(evaluate(COLLUSION, toy_scorer(), metrics="gem-raw"))[0].startswith("boiler")
    result = evaluate(COLLUSION, toy_scorer())
    assert list(result.outcomes) == DEFAULTS
    assert set(order(result)[:2]) == {"good", "short"}
    assert abs(scores(result, "shared-info")["boiler1"]) < 0.5
    assert "|short-for:gem-raw+control+about|" in result.leaderboard("shared-info").signature
    assert (
        "shared-info is gem-raw+control+about here: boiler1 and boiler2 give one text to many tasks, so what agents "
        "share on other tasks does not count."
    ) in result.leaderboard("shared-info").notes
    warned = {agent for finding in result.findings for agent in finding.agents if finding.kind == "same-text"}
    assert warned == {"boiler1", "boiler2"}


def test_what_copies_the_prompt_or_says_nothing_does_not_win(toy_scorer):
    result = evaluate((*SUPPORT, "short"), toy_scorer())
    assert list(result.outcomes) == ["shared-info", GIVEN, "length"]  # copycat repeats its prompts
    for metric in ("shared-info", GIVEN):
        assert set(order(result, metric)[:2]) == {"good", "short"}
    beyond = scores(result, GIVEN)
    assert abs(beyond["copycat"]) < 2
    assert beyond["verbose"] < beyond["short"]
    messages = " ".join(finding.message for finding in result.findings)
    assert "copycat" in messages
    assert "verbose gives the same text" in messages


def test_the_run_says_who_falls_when_the_prompt_is_not_counted(toy_scorer):
    """On every task copycat shares three words with good, german one; given the prompt copycat adds none of them."""
    words = ("zarn", "bluk", "vond", "rask", "mipo", "tolu", "ebbo", "lirp", "hoft", "quex")
    texts = {"good": "{0}a {0}b {0}c {0}d", "copycat": "{0}a {0}b {0}c", "german": "{0}d"}
    rows = [
        {"task": word, "prompt": f"{word}a {word}b {word}c", "agent": agent, "text": text.format(word)}
        for word in words
        for agent, text in texts.items()
    ]
    metrics = ["shared-info", GIVEN]
    result = goldless.evaluate(pl.DataFrame(rows), metrics=metrics, scorer=toy_scorer(), resamples=1_000)
    fallen = [finding.message for finding in result.findings if finding.kind == "prompt"]
    assert fallen == [
        "copycat falls from rank 2 to 3 when what the prompt already says is not counted (shared-info[prompt])."
    ]


def test_without_prompts_or_with_long_ones_the_default_does_not_condition_on_them(toy_scorer):
    rows = support_rows("good", "short", "copycat", tasks=3)
    bare = [{key: value for key, value in row.items() if key != "prompt"} for row in rows]
    long = [{**row, "prompt": f"{row['prompt']} " * 1_000} for row in rows]
    for given in (bare, long):
        result = goldless.evaluate(pl.DataFrame(given), scorer=toy_scorer(), resamples=200)
        assert list(result.outcomes) == DEFAULTS


@pytest.mark.parametrize("agents", [("good", "short"), ("good", "short", "german")])
@pytest.mark.parametrize("tasks", [1, 3])
def test_the_default_is_the_same_with_two_agents_and_with_one_task(toy_scorer, agents, tasks):
    result = goldless.evaluate(pl.DataFrame(support_rows(*agents, tasks=tasks)), scorer=toy_scorer(), resamples=200)
    assert list(result.outcomes) == DEFAULTS
    assert len(set(scores(result, "shared-info").values())) == len(agents)


def test_recorded_evidence_gives_the_defaults_that_it_has(toy_scorer, tmp_path):
    rows = pl.DataFrame(support_rows("good", "short", "verbose", tasks=3))
    one_way = {"metrics": "gem-raw", "peers": ["good"]}
    for number, (asked, expected) in enumerate(
        (
            ({}, DEFAULTS),
            ({"metrics": "gem-raw"}, DEFAULTS),
            (one_way, ["gem-raw", "length"]),
        )
    ):
        run = tmp_path / str(number)
        goldless.save_run(goldless.evaluate(rows, scorer=toy_scorer(), resamples=200, **asked), run)
        assert list(goldless.evaluate(run, recorded=True, resamples=200).outcomes) == expected


@pytest.mark.usefixtures("embedded_journal")
def test_the_embedded_model_puts_the_good_agent_before_boilerplate():
    rows = pl.DataFrame(support_rows(*COLLUSION, tasks=3))
    result = goldless.evaluate(rows, control_tasks=1, resamples=200)
    assert list(result.outcomes) == DEFAULTS
    ranked = order(result)
    assert set(ranked[:2]) == {"good", "short"}
