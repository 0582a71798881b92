"""Who among agents is a person, by name."""

from __future__ import annotations

import pytest

from goldless.gre_bench.papers import HUMAN, is_person, is_reference, reads_as_person, reference_agents


@pytest.mark.parametrize(
    ("name", "reference", "person", "reads"),
    [
        ("human", False, True, True),
        ("reference1", True, True, True),
        ("reference12", True, True, True),
        ("reference", False, False, True),
        ("Human", False, False, True),
        ("human2", False, False, True),
        (" Reference3 ", False, False, True),
        ("reference-model", False, False, False),
        ("superhuman", False, False, False),
        ("gpt-4o", False, False, False),
    ],
)
def test_people_are_told_by_their_names(name, reference, person, reads):
    assert (is_reference(name), is_person(name), reads_as_person(name)) == (reference, person, reads)


def test_of_three_reviews_one_is_the_baseline_and_two_are_references():
    assert reference_agents(3) == ("reference1", "reference2")
    assert all(map(is_person, (HUMAN, *reference_agents(3))))
