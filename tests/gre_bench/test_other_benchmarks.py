"""Table 3 of the GEM paper from its Table 6, and agents that do not match."""

from __future__ import annotations

import json

import pytest
from scipy import stats

from goldless.errors import UserError
from goldless.gre_bench.agent_statistics import Inference
from goldless.gre_bench.board_comparison import correlate, read_benchmark_scores
from goldless.gre_bench.boards import Board, BoardScore, read_board
from goldless.records import Agent

# "Benchmarking LLMs' Judgments with No Gold Standard", table 3, in its order of benchmarks.
BENCHMARKS = ("MMLU", "ARC-C", "HellaSwag", "GSM8K", "MATH", "HumanEval", "GPQA")
TABLE_3 = {
    "gem": (0.55, 0.68, 0.74, 0.58, 0.37, 0.36, 0.60),
    "gem-s[abstract]": (0.66, 0.70, 0.82, 0.73, 0.43, 0.43, 0.67),
    "gem-s[assw]": (0.68, 0.78, 0.84, 0.73, 0.43, 0.48, 0.71),
}
FAST = {"inference": Inference(permutations=200)}


@pytest.fixture(scope="module")
def found():
    return correlate(read_board("published:70b"), read_benchmark_scores("published"), **FAST)


def test_all_21_cells_of_table_3_come_out_as_pearsons_coefficient(found):
    rounded = {(row.metric, row.benchmark): round(row.coefficients[0].value, 2) for row in found.rows}
    expected = {
        (metric, benchmark): cell
        for metric, cells in TABLE_3.items()
        for benchmark, cell in zip(BENCHMARKS, cells, strict=True)
    }
    assert rounded == expected


def test_rank_correlations_beside_them_are_scipys(found):
    board, scores = read_board("published:70b"), read_benchmark_scores("published")
    for row in found.rows:
        pairs = [(s, scores.models(row.benchmark).get(a)) for a, s in board.models(row.metric).items()]
        x, y = zip(*[pair for pair in pairs if pair[1] is not None], strict=True)
        assert row.n == len(x)
        assert row.coefficients[1].value == pytest.approx(stats.spearmanr(x, y).statistic)
        assert row.coefficients[2].value == pytest.approx(stats.kendalltau(x, y).statistic)


def test_the_cells_are_not_spearmans_as_the_paper_says(found):
    """GEM against GSM8K: the table has .58; SciPy's rank correlation of the same numbers is .72."""
    row = next(row for row in found.rows if (row.metric, row.benchmark) == ("gem", "GSM8K"))
    assert round(row.coefficients[1].value, 2) == 0.72


def test_an_agent_without_benchmark_scores_is_listed_with_the_nearest_names(found):
    assert found.only_on_board == {"mistral-small": ("mistral-large", "mistral-tiny")}
    assert any("mistral-small (similar: mistral-large, mistral-tiny)" in note for note in found.notes)
    assert found.only_in_scores == {}


def test_the_table_prints_in_every_format_and_the_json_holds_every_cell(found):
    table = found.table()
    assert "0.55" in table.to_markdown()
    assert table.to_csv().count("\n") == 22
    assert "HellaSwag" in table.to_latex()
    table.to_rich()
    written = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert len(written["rows"]) == 21
    assert [c["coefficient"] for c in written["rows"][0]["coefficients"]] == ["pearson", "spearman", "kendall"]


def test_the_signature_tells_the_board_the_benchmarks_and_how_interval_and_p_were_made(found):
    parts = found.signatures["gem-s[assw]"].split("|")
    assert parts[:2] == ["correlation[gem-s[assw]]", "board:published:table6"]
    assert {"interval:fisher-z-0.95", "test:pairings-holm-over-21", "permutations:200", "seed:0"} < set(parts)
    assert found.table().signature.split(" || ") == list(found.signatures.values())
    scores = read_benchmark_scores("published")
    fewer = Board("published", {"MMLU": scores.metrics["MMLU"]}, scores.agents)
    told = [
        next(part for part in one.signatures["gem"].split("|") if part.startswith("benchmarks:published-"))
        for one in (found, correlate(read_board("published:70b"), fewer, **FAST))
    ]
    assert told[0] != told[1]


def board(**scores):
    return Board("b", {"m": {a: BoardScore(s) for a, s in scores.items()}}, {a: Agent(a) for a in scores})


def benchmarks(**scores):
    found = {name: {agent: BoardScore(s) for agent, s in row.items()} for name, row in scores.items()}
    return Board("s", found, {agent: Agent(agent) for row in scores.values() for agent in row})


def test_the_human_baseline_takes_no_part():
    scores = benchmarks(X={"a": 1, "b": 2, "c": 3, "human": -99})
    found = correlate(board(a=1.0, b=2.0, c=3.0, human=50.0), scores, **FAST)
    assert (found.rows[0].n, found.rows[0].coefficients[0].value) == (3, pytest.approx(1))
    assert found.only_on_board == found.only_in_scores == {}


def test_a_benchmark_with_too_few_agents_has_no_value_and_says_why():
    scores = benchmarks(X={"a": 1, "b": 2, "c": 4}, Y={"a": 1})
    rows = correlate(board(a=1.0, b=2.0, c=3.0), scores, **FAST).rows
    assert rows[0].coefficients[0].value is not None
    assert rows[1].coefficients[0].value is None
    assert rows[1].as_row()["pearson_note"] == "fewer than 3 agents in both"


def test_too_few_agents_in_common_is_an_error_that_names_the_nearest():
    scores = benchmarks(X={"claude-3-opus": 1, "b": 2})
    given = Board("b", {"m": {"claude-opus-3": BoardScore(1.0)}}, {"claude-opus-3": Agent("claude-opus-3")})
    with pytest.raises(UserError, match=r"needs at least 3.*claude-opus-3 \(similar: claude-3-opus\)"):
        correlate(given, scores, **FAST)


def test_a_file_that_is_no_csv_is_told(tmp_path):
    with pytest.raises(UserError, match=r"no such file. Give a .csv file"):
        read_benchmark_scores(tmp_path / "x.csv")
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(UserError, match=r"not a .csv file"):
        read_benchmark_scores(tmp_path / "x.json")
