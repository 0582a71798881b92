"""A column that is added to a result's table in one place is in every medium: nothing else knows the verb."""

from __future__ import annotations

from dataclasses import replace

import pytest

from goldless.apps.studio.run_pages import run_page
from goldless.apps.studio.site import Site
from goldless.reports.leaderboard import Leaderboard
from goldless.reports.report_table import Column
from goldless.reports.review import ReviewReport
from tests.support.paths import FIXTURES

REVIEWED = FIXTURES / "runs" / "review"


DECLARED = {
    (Leaderboard, "table"): ("score", "sample", "--metric", "length"),
    (ReviewReport, "exam_table"): ("review", str(REVIEWED), "--recorded", "--exam", "consistency"),
}


@pytest.mark.parametrize("place", DECLARED, ids=lambda place: place[0].__name__)
@pytest.mark.parametrize("shown_as", ["rich", "markdown", "csv", "latex"])
def test_a_column_is_declared_once(tmp_path, goldless, monkeypatch, place, shown_as):
    whole = getattr(*place)

    def with_a_column(found, **options):
        table = whole(found, **options)
        rows = tuple({**row, "shoe_size": "forty-two"} for row in table.rows)
        return replace(table, columns=(*table.columns, Column("shoe_size", "shoe size")), rows=rows)

    monkeypatch.setattr(*place, with_a_column)
    monkeypatch.setenv("COLUMNS", "200")
    assert "forty-two" in goldless(*DECLARED[place], "--out", str(tmp_path / "run"), "--format", shown_as).out
    assert "forty-two" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "forty-two" in run_page(Site(tmp_path, journal=tmp_path / "j.sqlite"), {}, "run")
