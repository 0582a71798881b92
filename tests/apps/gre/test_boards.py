"""``benchmarks/papers/gre_boards.py`` and ``gre_figure.py``: boards compared, correlated (Table 3) and drawn."""

from __future__ import annotations

import itertools
import math
import re
import runpy
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from scipy import stats

from goldless.errors import StudyError, UserError
from goldless.records import Agent
from goldless.signature import Signature
from goldless.statistics.bootstrap import Estimate
from goldless.statistics.standings import LeaderboardRow
from tests.support.paths import DOCS, ROOT

gre_boards = pytest.importorskip("gre_boards", reason="installed without the benchmarks")
agent_correlations, compare_boards, correlate = (
    gre_boards.agent_correlations,
    gre_boards.compare_boards,
    gre_boards.correlate,
)
Board, read_benchmark_scores, read_board = gre_boards.Board, gre_boards.read_benchmark_scores, gre_boards.read_board
gre_figure = pytest.importorskip("gre_figure")
label_places, size_figure = gre_figure.label_places, gre_figure.size_figure


def test_tables_6_and_7_read_as_18_models_with_three_metrics_and_the_sizes_the_paper_gives():
    """Cells of Tables 6 and 7 of the GEM paper: first, last and the negative one."""
    board, other = read_board("published:70b"), read_board("published:8b")
    assert list(board.metrics) == ["gem", "gem-s[abstract]", "gem-s[assw]"]
    assert {len(scores) for scores in board.metrics.values()} == {18}
    assert board.metrics["gem"]["gpt-4o-mini"].score == 16.31
    assert board.metrics["gem-s[abstract]"]["mistral-tiny"].score == 4.11
    assert board.metrics["gem-s[assw]"]["gemini-pro"].score == -0.26
    assert {agent.agent: agent.parameters for agent in board.agents}["claude-3-opus"] == 2000e9
    assert len(board.estimated_sizes) == 9  # marked with a tilde in the table
    assert "llama-3-8b" not in board.estimated_sizes
    assert other.agents == board.agents
    assert other.metrics["gem"]["claude-3-opus"].score == 60.94
    assert other.metrics["gem-s[assw]"]["mistral-tiny"].score == 9.94


@pytest.mark.parametrize(
    ("text", "read", "told"),
    [
        (
            "agent,gem,parameters,size_estimated,cutoff_date\na,high,0,maybe,soon\n,1,,,\na,inf,1e9,no,2023\n",
            read_board,
            [
                "scores.csv:2: gem must be a finite number, got str 'high'",
                "scores.csv:2: cutoff_date must be a date such as 2023-09-30, 2023-09 or 2023, got 'soon'",
                "scores.csv:2: parameters must be a positive number such as 7e9, got 0",
                "scores.csv:3: agent must be a name, got an empty cell",
                "scores.csv:4: gem must be a finite number, got str 'inf'",
                "scores.csv:4: agent 'a' is already on line 2",
            ],
        ),
        ("model,gem\na,1\n", read_board, ["no column 'agent'; the columns are 'model', 'gem'"]),
        ("agent,family\na,f\n", read_board, ["no metric among the columns"]),
        ("agent\na\n", read_benchmark_scores, ["no benchmark among the columns"]),
        ("agent,gem\n", read_board, ["no rows. The table needs one row per agent"]),
        ("agent,gem,\na,1,2\n", read_board, ["a column has no name in the header"]),
    ],
)
def test_everything_wrong_with_a_table_is_told_at_once(tmp_path, text, read, told):
    file = tmp_path / "scores.csv"
    file.write_text(text)
    with pytest.raises(StudyError) as error:
        read(file)
    problems = [str(problem) for problem in error.value.problems]
    assert len(problems) >= len(told)
    assert all(part in problem for part, problem in zip(told, problems, strict=False))


@pytest.mark.parametrize(
    ("files", "name", "told"),
    [
        ({}, "x", r"no such file or folder. Give a run folder .*edition.toml.*published:70b"),
        ({"x.txt": ""}, "x.txt", r"not a .csv file. Give a run folder"),
        ({"edition.toml": ""}, ".", r"no results \(leaderboard.json\). .* Score an edition with goldless gre score"),
        ({"leaderboard.json": "not json"}, ".", r"leaderboard.json cannot be read"),
        ({"leaderboard.json": '{"metrics": {}}'}, ".", "no agent has a score"),
    ],
)
def test_what_is_no_board_is_told_with_what_would_be(tmp_path, files, name, told):
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    with pytest.raises(UserError, match=told):
        read_board(tmp_path / name)


# From Tables 6 and 7 of the GEM paper: its section 5 gives .93, .92 and .90, calls them Spearman, and swaps two labels.
PEARSON = {"gem": 0.931, "gem-s[abstract]": 0.915, "gem-s[assw]": 0.899}
SPEARMAN = {"gem": 0.942, "gem-s[abstract]": 0.905, "gem-s[assw]": 0.895}
# "Benchmarking LLMs' Judgments with No Gold Standard", table 3, in its order of benchmarks.
BENCHMARKS = ("MMLU", "ARC-C", "HellaSwag", "GSM8K", "MATH", "HumanEval", "GPQA")
TABLE_3 = {
    "gem": (0.55, 0.68, 0.74, 0.58, 0.37, 0.36, 0.60),
    "gem-s[abstract]": (0.66, 0.70, 0.82, 0.73, 0.43, 0.43, 0.67),
    "gem-s[assw]": (0.68, 0.78, 0.84, 0.73, 0.43, 0.48, 0.71),
}
THREE = {"a": 3.0, "b": 2.0, "c": 1.0}


@pytest.fixture(scope="module")
def published():
    return compare_boards(read_board("published:70b"), read_board("published:8b"))


def cell(agent, value, low=None, high=None, n=0):
    return LeaderboardRow(None, agent, None, Estimate(value, low, high, n))


def board(name, *, signature="", **metrics):
    made = {metric: {agent: cell(agent, s) for agent, s in scores.items()} for metric, scores in metrics.items()}
    agents = dict.fromkeys(agent for scores in metrics.values() for agent in scores)
    return Board(
        name, made, tuple(map(Agent, agents)), settings={"gem": Signature.parse(signature).parts} if signature else {}
    )


# --- two boards ------------------------------------------------------------------------------------------------------


def test_the_two_scorers_of_the_paper_agree_as_its_tables_say(published):
    assert {found.metric: round(found.coefficients[0].value, 3) for found in published.agreements} == PEARSON
    assert {found.metric: round(found.coefficients[1].value, 3) for found in published.agreements} == SPEARMAN
    assert {found.n for found in published.agreements} == {18}
    assert "0.931" in published.table().to_markdown()


def test_a_metric_with_too_few_common_agents_is_counted_and_not_compared():
    first = board("x", gem={"a": 5.0, "b": 3.0, "c": 3.0, "old": 9.0, "human": 4.0}, other={"a": 1.0})
    second = board("y", gem={"a": 50.0, "b": 30.0, "c": 10.0, "new": 9.0, "human": 45.0}, other={"a": 2.0})
    found = compare_boards(first, second)
    assert [(agreement.metric, agreement.n) for agreement in found.agreements] == [("gem", 3)]
    assert "Agents with a score on both: gem: 3, other: 1." in found.notes


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (board("y", tvd={"a": 2.0}), r"both x \(gem\) and y \(tvd\): no metric in common"),
        (board("y", gem={"a": 2.0, "b": 3.0, "human": 1.0}), r"gem: 2.*at least 3 with the same name .*, besides"),
    ],
)
def test_boards_without_a_common_metric_or_with_too_few_agents_are_told(second, told):
    with pytest.raises(UserError, match=told):
        compare_boards(board("x", gem=THREE), second)


# --- other benchmarks ------------------------------------------------------------------------------------------------


def test_all_21_cells_of_table_3_come_out_as_pearsons_coefficient_beside_scipys_rank_correlations():
    given, scores = read_board("published:70b"), read_benchmark_scores("published")
    found = correlate(given, scores)
    rounded = {(row.metric, row.benchmark): round(row.coefficients[0].value, 2) for row in found.rows}
    assert rounded == {(m, b): cell for m, row in TABLE_3.items() for b, cell in zip(BENCHMARKS, row, strict=True)}
    for row in found.rows:
        pairs = [(s, scores.models(row.benchmark).get(a)) for a, s in given.models(row.metric).items()]
        x, y = zip(*[pair for pair in pairs if pair[1] is not None], strict=True)
        assert row.n == len(x)
        assert row.coefficients[1].value == pytest.approx(stats.spearmanr(x, y).statistic)
        assert row.coefficients[2].value == pytest.approx(stats.kendalltau(x, y).statistic)
    # the paper calls its cells Spearman's: GEM against GSM8K is .58 there, and .72 as a rank correlation
    (gsm8k,) = [row for row in found.rows if (row.metric, row.benchmark) == ("gem", "GSM8K")]
    assert round(gsm8k.coefficients[1].value, 2) == 0.72
    assert any("mistral-small (similar: mistral-large, mistral-tiny)" in note for note in found.notes)
    parts = found.signatures["gem-s[assw]"].split("|")
    assert parts[:2] == ["correlation[gem-s[assw]]", "board:published:table6"]
    assert found.table().to_csv().count("\n") == 22


def test_the_human_baseline_takes_no_part_and_a_benchmark_with_too_few_agents_says_why():
    scores = board("s", X={"a": 1, "b": 2, "c": 3, "human": -99}, Y={"a": 1})
    rows = correlate(board("b", gem={**THREE, "human": 50.0}), scores).rows
    assert (rows[0].n, rows[0].coefficients[0].value) == (3, pytest.approx(-1))
    assert rows[1].coefficients[0].value is None
    assert rows[1].coefficients[0].note == "fewer than 3 agents in both"


# --- correlations over a handful of agents ---------------------------------------------------------------------------


def columns(n, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=n)
    y = x + random.normal(size=n)
    names = [f"a{i}" for i in range(n)]
    return dict(zip(names, x.tolist(), strict=True)), dict(zip(names, y.tolist(), strict=True))


def test_pearsons_interval_is_scipys_and_those_of_ranks_are_bonett_and_wrights_and_fiellers():
    x, y = columns(13)
    pearson, *ranks = agent_correlations(x, y)
    expected = stats.pearsonr(list(x.values()), list(y.values()))
    assert pearson.value == pytest.approx(expected.statistic)
    assert (pearson.low, pearson.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    for found, variance in zip(ranks, ((1 + ranks[0].value ** 2 / 2) / 10, 0.437 / 9), strict=True):
        middle, reach = math.atanh(found.value), 1.959964 * math.sqrt(variance)
        assert (found.low, found.high) == pytest.approx(
            (math.tanh(middle - reach), math.tanh(middle + reach)), abs=1e-6
        )


def test_what_is_not_defined_or_has_no_interval_says_why():
    flat = dict.fromkeys("abc", 1.0)
    assert agent_correlations(flat, THREE)[0].note == "not defined: all agents have the same value"
    assert agent_correlations(THREE, {"a": 3.0, "b": 1.0, "c": 2.0})[0].note == "no interval: n = 3"
    six = {name: float(place) for place, name in enumerate("abcdef")}
    assert agent_correlations(six, six)[0].note == "no interval: the coefficient is 1"


# --- the figure ---------------------------------------------------------------------------------------------------

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def figure():
    return size_figure(read_board("published:70b"))


def texts(figure, class_=""):
    return [el.text for el in ET.fromstring(figure).iter(f"{SVG}text") if class_ in (el.get("class") or "")]


def hints(figure):
    return [el.text for el in ET.fromstring(figure).iter(f"{SVG}title")]


def drawn_board(agents, scores, **fields):
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
    scores = {"a": cell("a", 1, 0.5, 1.5, 9), "b": cell("b", 2, 1.5, 2.5, 9), "human": cell("human", 1.5, 1.4, 1.6, 9)}
    figure = size_figure(drawn_board(agents, scores, level=0.9))
    lines = [el.get("class") for el in ET.fromstring(figure).iter(f"{SVG}line")]
    assert sum(class_.startswith("whisker") for class_ in lines) == 2
    assert lines.count("band-line") == 1
    assert "human baseline" in texts(figure)
    assert "Bars and the grey band are 90% intervals." in " ".join(texts(figure, "caption"))
    assert "a (f): 1B parameters, 1.00 (0.50 to 1.50)" in hints(figure)


def test_hostile_names_stay_text():
    name = '</text><script>alert("x")</script>\u202e&amp;'
    agents = [Agent(name, "<g>", 1e9, "<svg onload=x>"), Agent("b", "h", 1e9, "<svg onload=x>")]
    scores = {agent.agent: cell(agent.agent, 1.0) for agent in agents}
    figure = size_figure(replace(drawn_board(agents, scores), name="<b>&"))
    assert {el.tag for el in ET.fromstring(figure).iter()} <= {
        f"{SVG}{tag}" for tag in ("svg", "title", "style", "rect", "text", "g", "line", "path", "circle")
    }
    assert not re.search(r"\son\w+=", re.sub(r">[^<]*<", "><", figure))
    assert "\u202e" not in figure


def test_a_board_without_sizes_cannot_be_drawn():
    unsized = drawn_board([Agent("a")], {"a": cell("a", 1.0)})
    with pytest.raises(UserError, match="no agent has both a number of parameters and a score"):
        size_figure(unsized)


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("spread", [260, 4])
def test_no_label_covers_another_or_a_point_or_leaves_the_edges_and_without_room_there_is_none(spread):
    points = [(20 + x, 20 + y) for x, y in np.random.default_rng(0).uniform(0, spread, (25, 2)).tolist()]
    names = [f"model-{place}" for place in range(25)]
    places = label_places(points, names, lines=[], within=(0.0, 0.0, 400.0, 300.0))
    found = [place for place in places if place is not None]
    assert found
    assert spread > 4 or None in places
    assert not any(overlap(one, other) for one, other in itertools.combinations(found, 2))
    for place in found:
        assert not any(overlap(place, (x - 6, y - 6, x + 6, y + 6)) for x, y in points)
        assert min(place[:2]) >= 0
        assert place[2] <= 400
        assert place[3] <= 300


SCRIPT = ROOT / "benchmarks" / "papers" / "size_effect.py"


@pytest.fixture(scope="module")
def effect():
    if not SCRIPT.is_file():
        pytest.skip("installed without the benchmarks")
    return runpy.run_path(str(SCRIPT), run_name="benchmark")


def regression(rows):
    """Slope of score on log10 size with a dummy for each family, by numpy's least squares."""
    families = sorted({family for family, _, _ in rows})
    design = [[np.log10(size), *(float(family == one) for one in families)] for family, size, _ in rows]
    return np.linalg.lstsq(np.array(design), np.array([score for *_, score in rows]), rcond=None)[0][0]


@pytest.mark.parametrize("source", ["published:70b", "published:8b"])
def test_in_the_papers_tables_the_larger_of_a_family_always_scores_higher(effect, source):
    """Counted in Tables 6 and 7: GPT-4o, Llama 3, Llama 3.1 and Mixtral 1 pair each, Claude 3 and Mistral 3 each.

    Variance of the jackknife: (g - 1) / g times the sum of squares of the slopes without a family around their mean.
    """
    board = read_board(source)
    for metric in board.metrics:
        found, scores = effect["families"](board, metric), board.models(metric)
        assert list(found) == ["Claude 3", "GPT-4o", "Llama 3", "Llama 3.1", "Mistral", "Mixtral"]
        assert effect["pairs"](found) == (10, 10)
        rows = [(a.family, a.parameters, scores[a.agent]) for a in board.agents if a.family in found]
        slope = effect["estimate"](found)
        without = np.array([regression([row for row in rows if row[0] != family]) for family in found])
        error = np.sqrt(5 / 6 * ((without - without.mean()) ** 2).sum())
        reach = stats.t.ppf(0.975, 5) * error
        middle = regression(rows)
        assert (slope.value, slope.low, slope.high) == pytest.approx((middle, middle - reach, middle + reach))
        assert slope.low > 0
