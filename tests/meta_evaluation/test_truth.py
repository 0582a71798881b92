"""``benchmarks/method/truth.py``: agreement of scores with truth on public sets."""

from __future__ import annotations

import importlib.util
import json
import sys

import numpy as np
import pytest

from tests.support.paths import BENCHMARKS, DOCS

SCRIPT = BENCHMARKS / "method" / "truth.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="installed without the benchmarks")

BY_ANOTHER_PROGRAM = [
    # set, metric, agents, partial, share within a task, half of its interval; a program written apart from goldless
    ("summeval", "length", 0.17218547707878862, 0.0, 0.4940922190201729, 0.0451784214056026),
    ("summeval", "word overlap", 0.27078741694441966, 0.21373932843997454, 0.6092219020172911, 0.03260847147917689),
    (
        "summeval",
        "both directions less control",
        0.18690218452142013,
        0.08101262521974166,
        0.5763688760806917,
        0.036675797988126535,
    ),
    (
        "summeval",
        "x given y, clipped",
        0.20014722121978848,
        0.10441535995182928,
        0.5746397694524495,
        0.03722186357810209,
    ),
    (
        "summeval",
        "coverage: gain(y given x) / H(y)",
        0.21486392866241996,
        0.13403366488502588,
        0.5845821325648415,
        0.0361741345809794,
    ),
    ("newsroom", "word overlap", 0.7142857142857144, 0.34693877551020386, 0.694264943457189, 0.03538776177375297),
    (
        "newsroom",
        "x given y, clipped",
        0.7142857142857144,
        0.34693877551020386,
        0.7209208400646203,
        0.03502590847766135,
    ),
    ("alpaca_dev", "word overlap", 0.03557312252964427, -0.03648615314243167, None, None),
    ("alpaca_dev", "both directions less control", 0.805759457933371, 0.6682051120064006, None, None),
    ("alpaca_dev", "x given y, clipped", 0.9028797289666857, 0.8117002852404699, None, None),
]
"""Of the recorded sets and gains under the 135M model."""


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        spec = importlib.util.spec_from_file_location("truth", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "truth", module)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture
def folder(tmp_path):
    """A set of two tasks and three agents, and a study of the same."""
    texts = {"good": "the cat sat on the mat", "fair": "the cat sat", "bad": "no idea"}
    rows = [{"task": t, "agent": a, "text": text, "prompt": "Who sat?"} for t in "uv" for a, text in texts.items()]
    scores = {"u": (3, 2, 1), "v": (5, 2, 1)}
    truth = [[t, a, score] for t in scores for a, score in zip(texts, scores[t], strict=True)]
    (tmp_path / "cats.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "cats.truth.json").write_text(json.dumps(truth))
    study = tmp_path / "as_study"
    study.mkdir()
    (study / "responses.jsonl").write_text(
        "\n".join(json.dumps({k: row[k] for k in row if k != "prompt"}) for row in rows)
    )
    labels = [
        {"task": t, "agent": a, "rater": "r", "criterion": c, "score": score + shift}
        for t, a, score in truth
        for c, shift in (("first", -0.5), ("second", 0.5))
    ]
    (study / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    return tmp_path


@pytest.mark.recorded
@pytest.mark.parametrize("name", ["summeval", "newsroom", "alpaca_dev"])
def test_the_definitions_are_those_of_another_program_to_the_last_digits(script, recorded, name):
    data = recorded / "truth"
    if not data.is_dir():
        pytest.skip(f"no {data}")
    truth_set = script.read_truth_set(data, name)
    gains = script.read_gains(data / "gains_135m" / f"{name}.parquet", truth_set)
    scores = {"length": truth_set.lengths, "word overlap": script.word_overlap(truth_set)}
    scores |= {estimator: scores_of(gains) for estimator, scores_of in script.ESTIMATORS.items()}
    honest = truth_set.honest
    for set_name, metric, agents, partial, within, half in BY_ANOTHER_PROGRAM:
        if set_name != name:
            continue
        found = script.agreement(
            scores[metric][:, honest],
            truth_set.truth[:, honest],
            truth_set.lengths[:, honest],
            by_agent=truth_set.is_rated_by_agent,
        )
        assert found.agents.value == pytest.approx(agents, abs=1e-12), metric
        assert found.partial.value == pytest.approx(partial, abs=1e-12), metric
        if within is None:
            assert found.within is None
        else:
            assert (found.within.value, found.within.half) == (within, half), metric


def test_pairs_with_equal_scores_count_one_half_and_pairs_with_equal_truth_do_not_count(script):
    score = np.array([[1.0, 1.0, 0.0]])
    truth = np.array([[3.0, 2.0, 2.0]])
    right, pairs = script.ordered_pairs(score, truth)
    assert (right[0], pairs[0]) == (1.5, 2)


def test_a_missing_score_takes_its_pairs_out(script):
    right, pairs = script.ordered_pairs(np.array([[1.0, np.nan, 0.0]]), np.array([[3.0, 2.0, 1.0]]))
    assert (right[0], pairs[0]) == (1, 1)


def test_a_study_with_ratings_gives_the_same_as_the_files_of_the_set(script, folder):
    from_files = script.read_truth_set(folder, "cats")
    from_study = script.read_truth_set(folder, "as_study")
    assert from_study.texts == from_files.texts
    assert from_study.truths == from_files.truths


def test_the_interval_of_a_difference_is_paired(script):
    """Two scores that agree with the truth on the same tasks differ by nothing in every resample."""
    draw = np.random.default_rng(1)
    truth, score, length = draw.random((8, 5)), draw.random((8, 5)), draw.random((8, 5))
    first = script.agreement(score, truth, length, by_agent=False)
    second = script.agreement(2 * score, truth, length, by_agent=False)
    difference = first.within - second.within
    assert (difference.value, difference.low, difference.high) == (0, 0, 0)
    assert first.within.low < first.within.value < first.within.high


def test_a_set_is_printed_beside_its_baselines_and_appended_to_a_file(script, folder, capsys):
    script.main([str(folder), "--sets", "cats", "--results", str(folder / "truth.jsonl")])
    printed = capsys.readouterr().out
    lines = {line.split()[0] for line in printed.splitlines() if line.strip()}
    assert {"length", "word", "bleu", "rouge-l"} <= lines
    rows = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    assert {row["metric"] for row in rows} == {"length", "word overlap", "bleu", "rouge-l"}
    assert {(row["tasks"], row["agents"]) for row in rows} == {(2, 3)}
    by_metric = {row["metric"]: row for row in rows}
    assert by_metric["length"]["within"] == [1, 1, 1]


BAD_SETS = {
    "one agent": (
        [{"task": "t", "agent": "a", "text": "x"}],
        [["t", "a", 1]],
        "bad has 1 agent. Agreement needs at least two",
    ),
    "no truth": (
        [{"task": "t", "agent": "a", "text": "x"}, {"task": "t", "agent": "b", "text": "y"}],
        [],
        "has no ratings",
    ),
    "truth of another task": (
        [{"task": "t", "agent": "a", "text": "x"}, {"task": "t", "agent": "b", "text": "y"}],
        [["other", "a", 1]],
        "the truth of 'a' on task 'other' has no response",
    ),
}


@pytest.mark.parametrize("case", BAD_SETS)
def test_a_set_that_cannot_be_compared_ends_with_a_sentence(script, tmp_path, case):
    rows, truth, message = BAD_SETS[case]
    (tmp_path / "bad.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "bad.truth.json").write_text(json.dumps(truth))
    with pytest.raises(SystemExit, match=message):
        script.read_truth_set(tmp_path, "bad")


def test_prompts_may_be_lists_of_messages(script, tmp_path):
    prompt = [{"role": "user", "content": "Who sat?"}]
    rows = [{"task": "t", "agent": a, "text": f"the {a} sat", "prompt": prompt} for a in "ab"]
    (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "chats.truth.json").write_text('[["t", "a", 2], ["t", "b", 1]]')
    study = script.read_truth_set(tmp_path, "chats").study
    assert "Who sat?" in study.task("t").prompt


def test_a_set_that_is_not_there_names_the_command_that_fetches_it(script, tmp_path, capsys):
    with pytest.raises(SystemExit):
        script.main([str(tmp_path), "--sets", "summeval"])
    assert "goldless study fetch summeval" in capsys.readouterr().err


@pytest.mark.recorded
def test_the_page_has_the_figures_that_the_recorded_gains_give(script, recorded):
    """Of SummEval: the rows that need no other package."""
    data = recorded / "truth"
    if not data.is_dir():
        pytest.skip(f"no {data}")
    truth_set = script.read_truth_set(data, "summeval")
    scores = {"length": truth_set.lengths, "word overlap": script.word_overlap(truth_set)}
    for scorer, name in script.SCORERS.items():
        gains = script.read_gains(data / f"gains_{scorer}" / "summeval.parquet", truth_set)
        for estimator in script.PAGE_ESTIMATORS[name]:
            scores[f"{estimator} ({name})"] = script.ESTIMATORS[estimator](gains)
    page = (DOCS / "truth.md").read_text(encoding="utf-8")
    honest = truth_set.honest
    truth, lengths = truth_set.truth[:, honest], truth_set.lengths[:, honest]
    for metric, table in scores.items():
        found = script.agreement(table[:, honest], truth, lengths, by_agent=False)
        assert f"| {metric} | {script.page_cell(found)} |" in page


@pytest.mark.recorded
@pytest.mark.slow
def test_the_tasks_of_the_page_are_those_of_the_recorded_sets(script, recorded):
    data = recorded / "truth"
    if not data.is_dir():
        pytest.skip(f"no {data}")
    for name in ("summeval", "realsumm", "faithbench", "ted_zhen"):
        assert sorted(script.PAGE_TASKS[name]) == list(script.read_truth_set(data, name).tasks)
    assert len(script.PAGE_TASKS["alpaca_dev"]) == 25
