"""Dates of which the day may not be known, against the calendar."""

from __future__ import annotations

from datetime import date

import pytest

from goldless.dates import first_day, last_day


@pytest.mark.parametrize(
    ("written", "first", "last"),
    [
        ("2023", date(2023, 1, 1), date(2023, 12, 31)),
        ("2024-02", date(2024, 2, 1), date(2024, 2, 29)),
        ("2023-09", date(2023, 9, 1), date(2023, 9, 30)),
        (" 2023-09-15 ", date(2023, 9, 15), date(2023, 9, 15)),
    ],
)
def test_a_year_or_month_means_its_first_or_last_day(written, first, last):
    assert (first_day(written), last_day(written)) == (first, last)


@pytest.mark.parametrize(
    "written", ["", "2023-13", "2023-02-30", "0000", "Sept 2023", "2023-9", "20230930", "２０２３"]
)
def test_what_is_no_date_gives_none(written):
    assert first_day(written) is None
    assert last_day(written) is None
