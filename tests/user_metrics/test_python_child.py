"""A ``python:`` metric has a process of its own: whatever it does there, the scores are right or a message says why."""

from __future__ import annotations

import os
import sys

import anyio
import pytest

from goldless.errors import MetricError
from goldless.records import Task, TextItem
from goldless.user_metrics.catalogue import find_user_metric

ITEMS = [
    TextItem(Task("t", "Why?", "a word", {"abstract": "short"}), agent, text, {"peer": "one two"})
    for agent, text in (("ann", "a b c"), ("bob", "caf\u00e9 \u2026"))
]


@pytest.fixture
def scored(tmp_path):
    """Writes the code to a file and returns what it says of the items."""

    def run(code, **options):
        path = tmp_path / "mine.py"
        path.write_text(code)
        return anyio.run(find_user_metric(f"python:{path}:f", **options).scores, ITEMS)

    return run


@pytest.mark.parametrize(
    "code",
    [
        "def f(response, references, prompt, synopses, agent): return len(response + references[0] + agent) / 3",
        "def f(items): return [len(item['response']) / 7 for item in items]",
        "async def f(response): return None if 'caf' in response else 0.1 + 0.2",
        "def f(response):\n    if 'caf' in response: raise ValueError('no coffee')\n    return 1",
    ],
    ids=["fields", "items", "async", "raises"],
)
def test_scores_and_problems_are_those_of_the_same_function_in_this_process(scored, code):
    assert scored(code) == scored(code, in_process=True)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os\ndef f(response): os._exit(0)", r"its process exited with status 0; 0 of 2 scores are valid"),
        ("import os\ndef f(response): os.abort()", r"its process was ended by signal 6"),
        ("def f(response): raise GeneratorExit", "none of the 2 responses could be scored"),
        ("import sys\ndef f(response): sys.exit(0)", "none of the 2 responses could be scored"),
        ("def f(response): return 'high'", "'high' \\(str\\), which is not a number"),
    ],
    ids=["exit", "abort", "GeneratorExit", "sys.exit", "text"],
)
def test_however_it_ends_a_message_says_so(scored, code, said):
    with pytest.raises(MetricError, match=said):
        scored(code)


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("os._exit(0)", "mine.py exited with status 0. Its standard error is empty"),
        ("os.abort()", "ended by signal 6"),
        ("raise KeyError('x')", "cannot be loaded"),
    ],
)
def test_a_module_that_ends_its_process_while_it_is_loaded_ends_only_the_child(scored, ending, said):
    with pytest.raises(MetricError, match=said):
        scored(f"import os\n{ending}\ndef f(response): return 1")


def test_its_module_is_never_loaded_here(scored):
    found = scored(f"import os\ndef f(response): return int(os.getpid() == {os.getpid()})")
    assert [score.score for score in found] == [0.0, 0.0]
    scored(f"import os\nassert os.getpid() != {os.getpid()}\ndef f(response): return 1")


def test_prints_go_to_standard_error_and_are_no_scores(scored, capfd):
    found = scored("import os\ndef f(response):\n    print('5')\n    os.write(1, b'6\\n')\n    return 1")
    assert [score.score for score in found] == [1.0, 1.0]
    shown = capfd.readouterr()
    assert shown.out == ""
    assert sorted(shown.err.split()) == ["5", "5", "6", "6"]


def test_one_that_hangs_is_ended_at_its_limit_with_the_line_it_is_at(scored):
    with pytest.raises(MetricError, match=r"(?s)timed out after 0.5 s with 0 of 2 calls done.*# here"):
        scored("import time\ndef f(response):\n    time.sleep(99)  # here", timeout_seconds=0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="macOS takes no limit on memory")
def test_memory_beyond_the_machines_is_an_error_of_that_response(scored):
    found = scored("def f(response):\n    return len(bytearray(2**46)) if 'caf' in response else 1")
    assert [score.score for score in found] == [1.0, None]
    assert found[1].problem.startswith("MemoryError")


def test_a_file_that_was_edited_after_it_was_read_is_not_run_under_the_old_signature(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def f(response): return 1")
    metric = find_user_metric(f"python:{path}:f")
    path.write_text("def f(response): return 2")
    with pytest.raises(MetricError, match="the file was changed after it was read"):
        anyio.run(metric.scores, ITEMS)


def test_no_file_beside_it_hides_a_module_of_goldless(scored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "anyio.py").write_text("raise SystemExit(9)")
    assert [score.score for score in scored("def f(response): return 2")] == [2.0, 2.0]
