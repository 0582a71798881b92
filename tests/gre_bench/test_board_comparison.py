"""The 70B board of the GEM paper against its 8B board, and what cannot be compared."""

from __future__ import annotations

import json

import pytest

from goldless.errors import UserError
from goldless.gre_bench.agent_statistics import Inference
from goldless.gre_bench.board_comparison import compare_boards
from goldless.gre_bench.boards import Board, BoardScore, read_board
from goldless.records import Agent

FAST = {"inference": Inference(permutations=200)}
# From Tables 6 and 7 of the GEM paper: its section 5 gives .93, .92 and .90, calls them Spearman, and swaps two labels.
PEARSON = {"gem": 0.931, "gem-s[abstract]": 0.915, "gem-s[assw]": 0.899}
SPEARMAN = {"gem": 0.942, "gem-s[abstract]": 0.905, "gem-s[assw]": 0.895}


@pytest.fixture(scope="module")
def published():
    return compare_boards(read_board("published:70b"), read_board("published:8b"), **FAST)


def board(name, scores, *, signature="", metric="gem"):
    made = {agent: BoardScore(score) for agent, score in scores.items()}
    signatures = {metric: signature} if signature else {}
    return Board(name, {metric: made}, {agent: Agent(agent) for agent in scores}, signatures=signatures)


def test_the_two_scorers_of_the_paper_agree_as_its_tables_say(published):
    assert {found.metric: round(found.coefficients[0].value, 3) for found in published.agreements} == PEARSON
    assert {found.metric: round(found.coefficients[1].value, 3) for found in published.agreements} == SPEARMAN
    assert {found.n for found in published.agreements} == {18}


def test_ranks_change_as_counted_in_tables_6_and_7(published):
    """Claude 2 has six models above it under GEM in Table 6 and two in Table 7; Mistral Large three and seven."""
    changes = {change.agent: change for change in published.changes if change.metric == "gem"}
    claude, mistral = changes["claude-2"], changes["mistral-large"]
    assert (claude.first_rank, claude.second_rank, claude.rank_change) == (7, 3, 4)
    assert (mistral.first_rank, mistral.second_rank, mistral.rank_change) == (4, 8, -4)
    assert claude.change == pytest.approx(55.94 - 20.04)
    assert claude.first_to_human is None


def test_differences_are_said_not_to_compare_and_what_is_not_known_is_told(published):
    told = " ".join(published.notes)
    assert "the change of a score alone means nothing" in told
    assert "no distance to a human baseline" in told
    assert "no signature on published:70b and published:8b" in told
    assert "scorer Llama 3.1 70B" in told


def test_tables_print_and_json_is_plain(published):
    assert "0.931" in published.table().to_markdown()
    change = published.change_table("gem")
    assert [row["agent"] for row in change.rows][:3] == ["claude-3-opus", "claude-3-sonnet", "claude-2"]
    change.to_rich()
    assert len(json.loads(json.dumps(published.as_json(), allow_nan=False))["changes"]) == 54
    with pytest.raises(UserError, match="metric 'tvd-mi' was not compared"):
        published.change_table("tvd-mi")


def test_distances_to_each_boards_own_human_baseline_are_given():
    """By hand: 5 - 4 and 50 - 45."""
    first = board("y1", {"a": 5.0, "b": 3.0, "c": 1.0, "human": 4.0})
    second = board("y2", {"a": 50.0, "b": 30.0, "c": 10.0, "human": 45.0})
    found = compare_boards(first, second, **FAST)
    change = next(change for change in found.changes if change.agent == "a")
    assert (change.first_to_human, change.second_to_human) == (1.0, 5.0)
    assert "human" not in {change.agent for change in found.changes}
    assert "| +1.00 | +5.00 |" in found.change_table("gem").to_markdown()


def test_agents_on_one_board_only_are_left_out_of_ranks_and_named():
    first = board("y1", {"a": 5.0, "b": 3.0, "c": 1.0, "old": 9.0})
    second = board("y2", {"a": 5.0, "b": 3.0, "c": 1.0, "new": 9.0})
    found = compare_boards(first, second, **FAST)
    assert (found.only[0].first, found.only[0].second) == (("old",), ("new",))
    assert {change.agent: change.first_rank for change in found.changes} == {"a": 1, "b": 2, "c": 3}
    assert any("left out, because only y2 has a score: new" in note for note in found.notes)


def test_equal_scores_share_the_better_rank():
    scores = {"a": 2.0, "b": 2.0, "c": 1.0}
    found = compare_boards(board("x", scores), board("y", scores), **FAST)
    assert {change.agent: change.first_rank for change in found.changes} == {"a": 1, "b": 1, "c": 3}


def test_what_differs_between_signatures_is_told_and_noise_is_not():
    scores = {"a": 2.0, "b": 3.0, "c": 1.0}
    first = board("x", scores, signature="gem|scorer:A|template:t|noise:0nats|study:1|goldless:0.1")
    second = board("y", scores, signature="gem|scorer:B|template:t|noise:1nats|study:2|goldless:0.2")
    told = [note for note in compare_boards(first, second, **FAST).notes if "differs" in note]
    assert told == ["gem: scorer differs: A and B.", "gem: study differs: 1 and 2."]


def test_boards_of_one_name_are_told_apart():
    scores = {"a": 2.0, "b": 3.0, "c": 1.0}
    found = compare_boards(board("run", scores), board("run", scores), **FAST)
    assert (found.first, found.second) == ("run (first)", "run (second)")
    assert set(found.board_signatures) == {"run (first)", "run (second)"}


def test_the_signature_tells_both_boards_and_how_interval_and_p_were_made(published):
    line = published.signatures["gem"]
    parts = line.split("|")
    assert parts[:3] == ["comparison[gem]", "first:published:table6", "second:published:table7"]
    assert {"interval:fisher-z-0.95", "permutations:200", "seed:0"} < set(parts)
    assert published.change_table("gem").signature == line
    assert published.table().signature.split(" || ") == list(published.signatures.values())
    scores = {"a": 2.0, "b": 3.0, "c": 1.0}
    first = board("x", scores, signature="gem|scorer:A|goldless:0.1")
    told = compare_boards(first, board("y", scores), **FAST).signatures["gem"].split("|")
    assert told[1] == "first:gem/scorer:A/goldless:0.1"
    assert told[2].startswith("second:y-")


def test_a_metric_with_too_few_common_agents_is_told_and_the_others_are_compared():
    """Under gem three agents stand on both boards, under sparse one."""
    gem = {agent: BoardScore(score) for agent, score in {"a": 3.0, "b": 2.0, "c": 1.0}.items()}
    agents = {agent: Agent(agent) for agent in gem}
    first = Board("x", {"sparse": {"a": BoardScore(1.0)}, "gem": gem}, agents)
    found = compare_boards(first, Board("y", {"gem": gem, "sparse": {"a": BoardScore(2.0)}}, agents), **FAST)
    assert [agreement.metric for agreement in found.agreements] == ["gem"]
    assert {change.metric for change in found.changes} == {"gem"}
    assert list(found.signatures) == ["gem"]
    assert "Not compared, because fewer than 3 agents have a score on both boards: sparse (1)." in found.notes
    with pytest.raises(UserError, match=r"metric 'sparse' was not compared. Compared: gem"):
        found.change_table("sparse")
    json.dumps(found.as_json(), allow_nan=False)


def test_boards_without_a_common_metric_or_with_too_few_agents_are_told():
    scores = {"a": 2.0, "b": 3.0, "human": 1.0}
    with pytest.raises(UserError, match=r"the boards have no metric in common \(x: gem; y: tvd-mi\)"):
        compare_boards(board("x", scores), board("y", scores, metric="tvd-mi"))
    with pytest.raises(UserError, match=r"gem: 2.*at least 3 with the same name, besides the human baseline"):
        compare_boards(board("x", scores), board("y", scores))
