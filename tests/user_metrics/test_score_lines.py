"""The lines a metric command writes."""

from __future__ import annotations

import pytest

from goldless.records import ItemScore
from goldless.user_metrics.commands import read_score_lines


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
def test_what_is_no_finite_number_is_a_problem(text):
    found, wrong = read_score_lines(text.encode(), 1)
    assert found == {}
    assert len(wrong) == 1
    assert wrong[0].startswith("line 1: ")


def test_bytes_that_are_no_text_are_a_problem_of_their_line_only():
    found, wrong = read_score_lines(b"1\n\xff\xfe\n3", 3)
    assert found == {0: ItemScore(1.0), 2: ItemScore(3.0)}
    assert len(wrong) == 1


@pytest.mark.parametrize(
    ("output", "said"), [("1\n2", "2 lines for 3 items"), ("1\n2\n3\n4", "4 lines for 3 items"), ("", "0 lines for 3")]
)
def test_the_wrong_number_of_lines_is_a_problem(output, said):
    assert said in problems(output, 3)[0]


def test_an_empty_line_between_others_is_a_problem_and_not_skipped():
    assert problems("1\n\n3", 3) == ["line 2: empty line"]


def test_ids_may_be_numbers_or_the_same_as_text_and_a_line_without_one_is_of_the_item_in_its_place():
    assert scores('{"id": "1", "score": 5}\n{"id": 0, "score": 4}\n6', 3) == [4.0, 5.0, 6.0]


def test_unknown_and_duplicate_ids_are_all_named():
    lines = ['{"id": 0, "score": 1}', '{"id": 0, "score": 2}', '{"id": 9, "score": 3}', '{"id": true, "score": 3}']
    assert problems("\n".join(lines), 4) == [
        "line 2: id 0 is already in line 1",
        "line 3: unknown id 9; the items have ids 0 to 3",
        "line 4: unknown id True; the items have ids 0 to 3",
    ]


def test_of_lines_beyond_the_items_the_first_are_read_and_all_are_counted():
    found, wrong = read_score_lines(b"5\n?\n" + b"?\n" * 1_000_000, 2)
    assert found == {0: ItemScore(5.0)}
    assert wrong[0] == "got 1000002 lines for 2 items. Write one per item"
    assert len(wrong) == 2
