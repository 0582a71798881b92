"""Result documents: read whole as earlier versions wrote them, and told in one sentence where they are wrong."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Literal

import pytest
from report_folders import board, every_document, leaderboard

from goldless.reports.document import UnexpectedDataError, read, write
from goldless.reports.documents.fields import Unreadable, read_document, read_rows
from goldless.reports.documents.scores import (
    AgentNote,
    LeaderboardDocument,
    MadeByDocument,
    PairMeans,
    ProgressDocument,
    RankedMetric,
    RaterMetric,
    ReviewDocument,
)
from goldless.reports.html.blocks import Figure, Fold, Table
from goldless.reports.html.page import made_sections
from goldless.reports.run_folder import OTHERS, RunFolder

FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs_of_0_1_0"
WRITTEN = {
    "score/leaderboard.json": LeaderboardDocument,
    "score/made_by.json": MadeByDocument,
    "review/review.json": ReviewDocument,
    "review/made_by.json": MadeByDocument,
}


def without_nulls(data):
    if isinstance(data, dict):
        return {key: without_nulls(value) for key, value in data.items() if value is not None}
    return [without_nulls(value) for value in data] if isinstance(data, list) else data


@pytest.mark.parametrize(("file", "kind"), WRITTEN.items())
def test_a_document_of_0_1_0_is_read_and_nothing_in_it_is_lost(file, kind):
    found = read_document(FIXTURES / file, kind)
    assert isinstance(found, kind)
    written = json.loads((FIXTURES / file).read_text(encoding="utf-8"))
    again = json.loads(found.model_dump_json(exclude_unset=True))
    # the mean of a pair that was not scored is null, and stands in its place
    for data in (written, again):
        for metric in data.get("metrics", {}).values():
            metric.pop("matrix", None)
    assert without_nulls(again) == without_nulls(written)


@pytest.mark.parametrize("kind", [LeaderboardDocument, ReviewDocument])
def test_a_field_that_is_not_known_is_kept_and_one_that_is_null_takes_its_default(kind):
    document = every_document()["leaderboard" if kind is LeaderboardDocument else "review"]
    found = kind.model_validate(document | {"of another version": {"x": 1}, "fingerprint": None})
    assert found.model_extra["of another version"] == {"x": 1}
    assert found.fingerprint == ""


@pytest.mark.parametrize("name", OTHERS)
def test_a_result_that_was_read_is_written_as_it_was_but_for_fields_of_another_version(name):
    kind, document = resolve_name(OTHERS[name]), every_document()[name]
    first = write(read(kind, document | {"of another version": {"x": 1}}))
    assert "of another version" not in first
    assert write(read(kind, json.loads(json.dumps(first)))) == first


@dataclass(frozen=True)
class Toy:
    name: str
    half: float | None
    usd: float | None = 1.0
    times: int = 3
    kind: Literal["a", "b"] | None = None
    pair: tuple[str, str] = ("x", "y")
    parts: Mapping[str, tuple[Toy, ...]] = field(default_factory=dict)
    here: object = field(default=None, metadata={"json": False})

    KEYS = ("*", "long_name")

    @property
    def long_name(self):
        return self.name * 2


def test_a_result_is_written_with_its_properties_and_without_what_belongs_to_the_process():
    made = write(Toy("t", math.nan, here=object(), parts={"p": (Toy("u", math.inf),)}))
    assert (made["half"], made["long_name"], made["parts"]["p"][0]["half"]) == (None, "tt", None)
    assert "here" not in made
    assert read(Toy, made) == Toy("t", None, parts={"p": (Toy("u", None),)})


def test_a_null_is_none_where_that_is_allowed_and_otherwise_the_default():
    assert read(Toy, {"name": "t"}) == Toy("t", None)
    assert read(Toy, {"name": "t", "usd": None, "times": None}) == Toy("t", None, usd=None)
    assert read(Toy, {"name": "t", "usd": math.nan, "times": 1e30}) == Toy("t", None, usd=None)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "name: Field required"),
        ({"name": 3}, "name: must be a text, got int"),
        ({"name": "t", "half": "1"}, "half: must be a number, got str"),
        ({"name": "t", "times": True}, "times: must be a number, got bool"),
        ({"name": "t", "kind": "c"}, "kind: must be one of 'a', 'b', got 'c'"),
        ({"name": "t", "pair": ["x"]}, "pair: must be a list of 2, got 1"),
        ({"name": "t", "parts": []}, "parts: must be an object, got list"),
        ({"name": "t", "parts": {"p": [{}]}}, "parts.p.0.name: Field required"),
        ([], "must be an object, got list"),
    ],
)
def test_what_a_result_cannot_be_read_from_is_said_with_its_place(data, said):
    with pytest.raises(UnexpectedDataError, match=rf"^{re.escape(said)}$"):
        read(Toy, data)


def test_a_file_that_is_not_there_is_no_document_and_no_error(tmp_path):
    assert read_document(tmp_path / "review.json", ReviewDocument) is None
    assert read_rows(tmp_path / "agents.jsonl", AgentNote) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "leaderboard.json cannot be read (JSONDecodeError"),
        ("[1]", "leaderboard.json must be a JSON object, got list"),
        ('{"metrics": 3}', "leaderboard.json does not match what this version of goldless expects (metrics: "),
        ('{"metrics": {"m": {}}}', "(metrics.m.ranked.rows: Field required)"),
        ('{"study": 7, "open": "x"}', "(study: must be a text, got int; 1 more)"),
    ],
)
def test_what_is_wrong_with_a_document_is_said_with_its_place(tmp_path, text, said):
    (tmp_path / "leaderboard.json").write_text(text)
    found = read_document(tmp_path / "leaderboard.json", LeaderboardDocument)
    assert isinstance(found, Unreadable)
    assert said in str(found)


def test_metrics_of_agents_and_of_raters_are_told_apart():
    raters = {"metric": "tvd-mi[labels]", "criteria": {"": {"value": 0.5, "raters": [{"rater": "eve", "value": None}]}}}
    found = LeaderboardDocument.model_validate(leaderboard(m=board({"ann": None}), people=raters))
    assert isinstance(found.metrics["m"], RankedMetric)
    assert isinstance(found.metrics["people"], RaterMetric)
    assert list(found.boards) == ["m"]


def test_means_of_pairs_that_are_no_square_are_refused():
    with pytest.raises(ValueError, match="must be a square"):
        PairMeans(agents=("ann", "bob"), means=((None, 1.0),))


@pytest.mark.parametrize(("done", "total", "share"), [(1, 4, 0.25), (9, 3, 1.0), (3, None, None), (1, 0, None)])
def test_progress_is_a_share_where_both_numbers_are_known(done, total, share):
    assert ProgressDocument(done=done, total=total).share == share


def tables(blocks):
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Figure | Fold):
            yield from tables(block.data if isinstance(block, Figure) else block.blocks)


MAY_BE_EMPTY = {"note", "reason", "group", "about", "result_usd"}
"""Of these, ``result_usd`` is not in runs of 0.1.0."""


def check_columns(folder: Path) -> set[str]:
    """Every column of every section has a value in some row; the sections there are."""
    run = RunFolder(folder)
    assert run.problems == ()
    sections = list(made_sections(run))
    for section in sections:
        found = list(tables(section.blocks))
        names = {name for table in found for column in table.columns for name in column.names}
        filled = {name for table in found for row in table.rows for name in names if row.get(name) is not None}
        assert names - filled <= MAY_BE_EMPTY, section.slug
    return {section.slug for section in sections}


@pytest.mark.parametrize("folder", ["score", "review"])
def test_every_column_of_the_report_has_values_in_a_run(folder):
    """A field that was renamed in a document, and not in the column that shows it, would leave the column empty."""
    assert "asked" in check_columns(FIXTURES / folder)


def test_every_column_has_values_in_what_the_other_verbs_write_now(tmp_path, goldless):
    reviewed = str(FIXTURES / "review")
    for arguments in (
        ("agree", reviewed, "--metric", "length,rouge-l"),
        ("bias", reviewed, "--recorded"),
        ("crashtest", reviewed, "--metric", "length"),
        ("cost", reviewed, "--metric", "gem-raw", "--scorer", "http://127.0.0.1:9/v1#toy", "--price", "1,2"),
    ):
        goldless(*arguments, "--out", str(tmp_path / "run"))
    assert {"agreement", "bias", "crash-test", "cost"} <= check_columns(tmp_path / "run")
