"""The contamination clock: which papers are clean for whom, and scores on these, by hand arithmetic."""

from __future__ import annotations

import json

import polars as pl
import pytest
from scipy import stats

from goldless.apps.gre.results import Clock, contamination_clock
from goldless.errors import UserError
from goldless.records import Agent
from goldless.reports.document import read, write

FAST = {"resamples": 200}
DATES = {"p1": "2023-01-15", "p2": "2023-06-15", "p3": "2023-12-15", "p4": None}
AGENTS = [
    Agent("human", "human"),
    Agent("reference1", cutoff_date="1999"),
    Agent("old", cutoff_date="2023-03-01"),
    Agent("new", cutoff_date="2023-06-14"),
    Agent("unknown"),
]


def frame(rows):
    return pl.DataFrame(rows, {"task": pl.String, "agent": pl.String, "score": pl.Float64}, orient="row")


def scores(**by_agent):
    """Scores of p1, p2, … in order; None is a missing one."""
    rows = [(f"p{place}", agent, score) for agent, column in by_agent.items() for place, score in enumerate(column, 1)]
    return {"gem": frame(rows)}


GIVEN = scores(
    human=[1, 2, 3, 4], old=[10, 4, 9, 50], new=[10, 3, 3, 50], unknown=[9, 9, 9, 9], reference1=[7, 7, 7, 7]
)


def clock(agents=AGENTS, dates=DATES, given=GIVEN, **options):
    settings = {"signatures": dict.fromkeys(given, "gem"), "seed": 0, "level": 0.9, **FAST, **options}
    return contamination_clock(agents, dates, given, **settings)


def row(found, agent, scope):
    return next(one for one in found.leaderboards if (one.agent, one.scope) == (agent, scope))


def test_an_agent_without_a_cut_off_is_unknown_and_on_no_leaderboard_of_clean_papers():
    found = clock()
    assert "unknown" not in {one.agent for one in found.leaderboards if one.scope != "all"}
    assert any("1 without a cutoff, not counted as clean: unknown" in note for note in found.notes)
    assert "| unknown | unknown | unknown |" in found.tables()[1].to_markdown()


@pytest.mark.parametrize(
    ("cutoff", "public", "after"),
    [
        ("2023-06-14", "2023-06-15", True),
        ("2023-06-15", "2023-06-15", False),
        ("2023-06", "2023-06-30", False),
        ("2023-06", "2023-07-01", True),
        ("2023", "2023-12-31", False),
        ("2023", "2024-01-01", True),
        ("2023-06-14", "2023-06", False),
        ("2023-05", "2023-06", True),
        ("2023-05", "2023", False),
        ("2022", "2023", True),
    ],
)
def test_a_paper_is_after_only_if_every_day_it_may_mean_is_later_than_every_day_of_the_cut_off(cutoff, public, after):
    found = clock([Agent("a", cutoff_date=cutoff)], {"p1": public}, {})
    assert found.agents[0].clean == int(after)


def test_the_common_leaderboard_has_the_papers_after_all_cut_offs_for_everybody():
    """p2 and p3 are after both cut-offs: old 6.5, new 3, human 2.5."""
    found = clock()
    assert found.common == ("p2", "p3")
    mine = row(found, "old", "own")  # mean of 4 and 9; less human: mean of 2 and 6
    assert (mine.score.value, mine.difference.value, mine.difference.n, mine.rank) == (6.5, 4.0, 2, None)
    rows = [(one.agent, one.rank, one.score.value) for one in found.rows("gem", "common")]
    assert rows == [("old", 1, 6.5), ("new", 2, 3.0), ("human", None, 2.5)]
    assert "the 2 papers clean for all" in found.tables()[2].to_markdown()


def test_a_missing_score_is_counted_and_never_a_zero():
    given = scores(human=[1, None, 3, 4], old=[10, 4, None, 50])
    mine = row(clock(given=given), "old", "own")
    assert (mine.score.value, mine.score.n, mine.missing) == (4.0, 1, 1)
    assert (mine.difference.value, mine.difference.n) == (None, 0)


def test_on_all_papers_every_agent_is_compared_with_the_human_on_the_papers_it_has():
    """Old lacks p3: (10 + 4 + 50) / 3, less human (9 + 2 + 46) / 3. Unknown: 9, less human (8 + 7 + 6 + 5) / 4."""
    given = scores(human=[1, 2, 3, 4], old=[10, 4, None, 50], new=[1, 2, 3, 4], unknown=[9, 9, 9, 9])
    found = clock(given=given)
    rows = {one.agent: one for one in found.rows("gem", "all")}
    assert list(rows) == ["old", "unknown", "new", "human"]
    old = rows["old"]
    assert (old.score.value, old.difference.value) == pytest.approx((64 / 3, 19))
    assert (old.score.n, old.missing, old.difference.n, old.rank) == (3, 1, 3, None)
    low, high = stats.t.interval(0.9, 2, loc=19, scale=stats.sem([9, 2, 46]))
    # the tail is on the right: that end is as far out as it may be
    assert (old.difference.low, old.difference.high) == pytest.approx((low, 2 * high - 19))
    assert (rows["unknown"].score.value, rows["unknown"].difference.value, rows["unknown"].score.n) == (9, 6.5, 4)
    assert (rows["human"].score.value, rows["human"].difference.value) == (2.5, None)
    shown = found.tables()[0]
    assert "gem on all 4 papers" in shown.to_markdown()
    assert "the papers differ between agents" in shown.notes[0]


def test_each_leaderboard_has_a_signature_that_tells_its_papers_and_draws():
    """The scores' own signature with the papers; a later cut-off or another seed is another signature."""
    line = "gem|scorer:A|interval:x-0.5|test:sign-flip-holm|resamples:9|seed:9|study:1|goldless:0.0"
    found = clock(signatures={"gem": line}, seed=3)
    told = found.scope_signatures["gem"]
    for scope, papers in (("own", "papers:clean-own-"), ("common", "papers:clean-common-2-"), ("all", "papers:all-4|")):
        drawn = "interval:tasks-bootstrap-t-or-t-0.9(skew-t-under-10)|resamples:200|seed:3|"
        assert told[scope].startswith(f"gem|scorer:A|{drawn}")
        assert "|study:1|" in told[scope]
        assert papers in told[scope]
        assert "test:" not in told[scope]
    later = clock([*AGENTS[:3], Agent("new", cutoff_date="2023-06-15")], signatures={"gem": line}, seed=3)
    for scope in ("own", "common"):
        assert later.scope_signatures["gem"][scope] != told[scope]
    assert read(Clock, json.loads(json.dumps(write(found), allow_nan=False))) == found


def test_a_bad_date_is_told():
    with pytest.raises(UserError, match=r"cutoff_date of agent 'a' must look like 2023-09-30.*, got 'soon'"):
        clock([Agent("a", cutoff_date="soon")], {"p1": "2023"}, {})
    with pytest.raises(UserError, match=r"public_date of task 'p1' must look like .*, got '15.1.2023'"):
        clock([Agent("a")], {"p1": "15.1.2023"}, {})
