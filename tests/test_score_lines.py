"""The lines a metric command writes."""

from __future__ import annotations

import pytest

from goldless.user_metrics import read_score_lines


def problems(output: str, count: int) -> list[str]:
    return read_score_lines(output.encode(), count)[1]


def scores(output: str, count: int) -> list[float | None]:
    found, wrong = read_score_lines(output.encode(), count)
    assert wrong == []
    return [found[number].score for number in range(count)]


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1.0), ("-0.25", -0.25), ("+3", 3.0), (".5", 0.5), ("2.", 2.0), ("1e-3", 0.001), ('{"score": 7}', 7.0)],
)
def test_a_number_is_taken_as_programs_print_it(text, number):
    assert scores(text, 1) == [number]


@pytest.mark.parametrize(
    "text",
    ["nan", "NaN", "inf", "-Infinity", "1,5", "0x10", "true", '"1"', "[1]", "one", '{"score": "1"}',
     '{"score": true}', '{"score": NaN}', '{"score": 1e999}', "1e999", '{"value": 1}', '{"score": 1', "9" * 400,
     "[" * 100_000],
)  # fmt: skip
def test_what_is_no_finite_number_is_a_problem_and_never_a_score(text):
    found, wrong = read_score_lines(text.encode(), 1)
    assert (found, len(wrong), wrong[0][:8]) == ({}, 1, "line 1: ")


@pytest.mark.parametrize(
    ("output", "said"), [("1\n2", "2 lines for 3 items"), ("1\n2\n3\n4", "4 lines for 3 items"), ("", "0 lines for 3")]
)
def test_the_wrong_number_of_lines_is_a_problem(output, said):
    assert said in problems(output, 3)[0]


def test_ids_may_be_numbers_or_the_same_as_text_and_a_line_without_one_is_of_the_item_in_its_place():
    assert scores('{"id": "1", "score": 5}\n{"id": 0, "score": 4}\n6', 3) == [4.0, 5.0, 6.0]


def test_unknown_and_duplicate_ids_are_all_named():
    lines = ['{"id": 0, "score": 1}', '{"id": 0, "score": 2}', '{"id": 9, "score": 3}', '{"id": true, "score": 3}']
    assert problems("\n".join(lines), 4) == [
        "line 2: id 0 is already in line 1",
        "line 3: unknown id 9; the items have ids 0 to 3",
        "line 4: unknown id True; the items have ids 0 to 3",
    ]
