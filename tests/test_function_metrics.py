"""Somebody's Python function as a metric."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import anyio
import numpy as np
import pytest

from goldless.errors import MetricError, PrerequisiteError
from goldless.records import ItemScore, Task, TextItem
from goldless.user_metrics import find_user_metric, number_score

TASK = Task("t", "what?", reference="gold", synopses={"abstract": "short"})


def items(*texts: str) -> list[TextItem]:
    return [TextItem(TASK, f"agent{n}", text, {"bob": "x", "cy": "y"}) for n, text in enumerate(texts or ("a", "b c"))]


@pytest.fixture
def function(tmp_path: Path):
    """Makes a metric of the function ``f`` in a file of this text."""

    def make(text: str, *, name: str = "f", timeout_seconds: float | None = None):
        path = tmp_path / "mine.py"
        path.write_text(text, encoding="utf-8")
        return find_user_metric(f"python:{path}:{name}", timeout_seconds=timeout_seconds)

    return make


def values(metric, given: list[TextItem] | None = None) -> list[float | None]:
    return [score.score for score in anyio.run(metric.scores, given or items())]


# --- what a function is given ---------------------------------------------------------------------------------------


def test_a_function_is_given_what_its_parameters_name(function):
    text = (
        "def f(reference, *, agent, task, prompt, synopses, references, response, weight=2):\n"
        "    known = (response, prompt, task, agent, references, reference, synopses)\n"
        "    return weight * (known == ('a', 'what?', 't', 'agent0', ['x', 'y'], 'gold', {'abstract': 'short'}))\n"
    )
    assert values(function(text), items("a")) == [2.0]


def test_an_async_function_is_awaited_and_keeps_the_order(function):
    text = (
        "import asyncio\nasync def f(response):\n    await asyncio.sleep(0.1 / len(response))\n    return len(response)"
    )
    assert values(function(text), items("a", "aa", "aaa")) == [1.0, 2.0, 3.0]


def test_a_batch_function_is_called_once_with_all_items(function):
    text = "def f(items):\n    return [len(items) * 10 + row['id'] + len(row['response']) for row in items]"
    assert values(function(text), items("a", "bb")) == [21.0, 23.0]


def test_what_a_function_prints_goes_to_standard_error(function, capsys):
    text = "print('loaded')\ndef f(response):\n    print('called')\n    return 1"
    values(function(text), items("a"))
    print("ours")  # noqa: T201 - what is tested
    shown = capsys.readouterr()
    assert shown.out == "ours\n"
    assert shown.err == "loaded\ncalled\n"


def test_runs_in_two_threads_leave_standard_output_as_it_was(function):
    metric = function("import time\ndef f(response):\n    time.sleep(len(response) / 10)\n    return 1")
    before = sys.stdout
    threads = [threading.Thread(target=values, args=(metric, items(text))) for text in ("aa", "a", "aaa")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.stdout is before


# --- what it may return ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (True, "True (bool), which is not a number"),
        (np.bool_(True), "which is not a number"),
        ("0.5", "'0.5' (str)"),
        ([0.5], "[0.5] (list)"),
        (1j, "complex"),
        (float("nan"), "nan; a score must be a finite number"),
        (float("-inf"), "-inf; a score must be a finite number"),
        (10**400, "too large"),
    ],
)
def test_what_is_no_finite_number_is_a_problem_and_never_a_score(value, said):
    found = number_score(value)
    assert found.score is None
    assert said in found.problem


# --- what goes wrong ------------------------------------------------------------------------------------------------


def test_a_response_the_function_fails_on_is_missing_with_the_message(function):
    text = "def f(response):\n    if response == 'a': raise ValueError('no\\nwords')\n    return 1"
    assert anyio.run(function(text).scores, items()) == [ItemScore(None, "ValueError: no words"), ItemScore(1.0)]


@pytest.mark.parametrize("error", ["SystemExit", "GeneratorExit", "KeyboardInterrupt", "MemoryError"])
@pytest.mark.parametrize("form", ["def", "async def"])
def test_nothing_that_a_function_raises_ends_more_than_its_call(function, form, error):
    text = f"{form} f(response):\n    if response == 'a': raise {error}('gone')\n    return 1"
    assert anyio.run(function(text).scores, items()) == [ItemScore(None, f"{error}: gone"), ItemScore(1.0)]


def test_a_function_that_fails_on_all_is_an_error_with_the_end_of_the_traceback(function):
    text = "def f(response):\n    return helper(response)\ndef helper(r):\n    raise KeyError('weights')"
    with pytest.raises(MetricError) as caught:
        anyio.run(function(text).scores, items(*"abcdefgh"))
    said = str(caught.value)
    assert "none of the 8 responses could be scored" in said
    assert said.count("KeyError: 'weights'") == 6  # the first five, and the traceback's last line
    assert "… and 3 more" in said
    assert "in helper" in said


def test_a_batch_function_that_fails_or_returns_another_number_is_an_error(function):
    with pytest.raises(MetricError, match=r"(?s)batch of 2 responses.*ZeroDivisionError"):
        values(function("def f(items): return 1 / 0"))
    with pytest.raises(MetricError, match="got a list of 1 for 2 items"):
        values(function("def f(items): return [1]"))
    with pytest.raises(MetricError, match="got 7 for 2 items"):
        values(function("def f(items): return 7"))


def test_a_function_in_an_endless_loop_is_left_behind_and_the_response_is_named(function, tmp_path):
    end = tmp_path / "end"
    text = (
        "import os\n"
        "def f(response):\n"
        f"    while response == 'a' and not os.path.exists({str(end)!r}): pass\n"
        "    return 1\n"
    )
    metric = function(text, timeout_seconds=0.5)
    said = r"timed out after 0.5 s with 1 of 3 calls done; busy with task 't', agent 'agent1'. Allow more as in python:"
    with pytest.raises(MetricError, match=said):
        values(metric, items("b", "a", "c"))
    end.touch()


# --- how it is named ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(text): return 1", "missing a required argument: 'text'"),
        ("def f(prompt): return 1", "no parameter 'response'"),
        ("def f(items, response): return 1", "only 'items'"),
        ("f = 3", "must be a function, got 3 (int)"),
        ("class f: pass", "must be a function"),
        ("def g(response): return 1", "has no 'f'"),
        ("def f(response: return 1", "SyntaxError"),
        ("raise OSError('no disk')", "OSError: no disk"),
    ],
)
def test_a_function_that_is_no_metric_is_refused_when_it_is_named(function, text, said):
    with pytest.raises(MetricError) as caught:
        function(text)
    assert said in str(caught.value)


def test_a_file_or_module_that_is_not_there_says_so(tmp_path):
    with pytest.raises(MetricError, match="no such file"):
        find_user_metric(f"python:{tmp_path}/none.py:f")
    with pytest.raises(MetricError, match="no module 'goldless_none'"):
        find_user_metric("python:goldless_none.part:f")


def test_a_package_that_the_file_needs_is_named_with_the_command_that_installs_it(function):
    with pytest.raises(PrerequisiteError, match="pip install goldless-absent"):
        function("import goldless_absent.part\ndef f(response): return 1")


def test_a_module_of_the_current_folder_is_found_and_may_import_its_neighbours_later(tmp_path, monkeypatch):
    (tmp_path / "neighbour_of_metric.py").write_text("WORTH = 5")
    (tmp_path / "module_of_metric.py").write_text(
        "def f(response):\n    import neighbour_of_metric\n    return neighbour_of_metric.WORTH"
    )
    monkeypatch.chdir(tmp_path)
    sys.path[:] = [path for path in sys.path if path]
    assert values(find_user_metric("python:module_of_metric:f"), items("a")) == [5.0]
    assert sys.path[-1] == os.fspath(tmp_path)


def test_an_edited_file_is_another_metric_and_its_settings_say_so(function):
    one = function("def f(response): return 1")
    two = function("def f(response): return 2")
    assert (values(one), values(two)) == ([1.0, 1.0], [2.0, 2.0])
    assert one.settings["source"] != two.settings["source"]
    # printf 'def f(response): return 1' | sha256sum
    assert one.settings["source"] == "7e0a5b709ed2"
