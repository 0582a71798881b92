"""Result documents: read as they were written, and told in one sentence where they are wrong."""

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

from goldless.reports.document import UnexpectedDataError, read, write
from goldless.reports.html.page import made_sections
from goldless.reports.leaderboard import Leaderboard, Leaderboards, RaterScores
from goldless.reports.run_folder import DOCUMENTS, OTHERS, RunFolder
from tests.reports.report_folders import board, every_document, leaderboard
from tests.support.paths import FIXTURES

RUNS = FIXTURES / "runs"


@pytest.mark.parametrize("name", ["leaderboard", "review", *OTHERS])
def test_a_result_that_was_read_is_written_as_it_was_but_for_fields_of_another_version(name):
    kind, document = resolve_name(DOCUMENTS[name]), every_document()[name]
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


def test_metrics_of_agents_and_of_raters_are_told_apart():
    raters = [{"rater": "eve", "partners": 0, "value": None}]
    people = {"metric": "tvd-mi[labels]", "signature": "", "criteria": {"": dict.fromkeys(("value", "null", "p"), 0.5)}}
    people["criteria"][""] |= {"raters": raters}
    found = read(Leaderboards, leaderboard(m=board({"ann": None}), people=people))
    assert isinstance(found.metrics["m"], Leaderboard)
    assert isinstance(found.metrics["people"], RaterScores)
    assert list(found.boards) == ["m"]


MAY_BE_EMPTY = {
    "note",
    "reason",
    "group",
    "about",
    "better than",
    "beats #",
    "longer than",
    "USD of the result",
    "p (corrected)",
}
"""Nothing need be decided, spent or corrected."""


def check_columns(folder: Path) -> set[str]:
    """Every column of every section has a value in some row; the sections there are."""
    run = RunFolder(folder)
    assert run.problems == ()
    sections = list(made_sections(run))
    for section in sections:
        headings: set[str] = set()
        filled: set[str] = set()
        for table in re.findall("<table.*?</table>", "".join(section.blocks), re.DOTALL):
            names = re.findall('<th scope="col"[^>]*>(.*?)</th>', table)
            for row in re.findall("<tr>(.*?)</tr>", table.partition("<tbody>")[2]):
                cells = re.findall("<t[hd]([^>]*)>", row)
                filled |= {name for name, look in zip(names, cells, strict=True) if "absent" not in look}
            headings |= set(names)
        assert headings - filled <= MAY_BE_EMPTY, section.slug
    return {section.slug for section in sections}


@pytest.mark.parametrize("folder", ["score", "review"])
def test_every_column_of_the_report_has_values_in_a_run(folder):
    """A field that was renamed in a document, and not in the column that shows it, would leave the column empty."""
    assert "asked" in check_columns(RUNS / folder)


def test_every_column_has_values_in_what_the_other_verbs_write_now(tmp_path, goldless):
    reviewed = str(RUNS / "review")
    for arguments in (
        ("agree", reviewed, "--metric", "length,rouge-l"),
        ("bias", reviewed, "--recorded"),
        ("crashtest", reviewed, "--metric", "length"),
        ("plan", "--cost", reviewed),
    ):
        goldless(*arguments, "--out", str(tmp_path / "run"))
    assert {"agreement", "bias", "crash-test", "cost"} <= check_columns(tmp_path / "run")


def fits(data, schema) -> bool:
    """Whether data are as a schema says: the part of JSON schema that ours use."""
    if "anyOf" in schema:
        return any(fits(data, one) for one in schema["anyOf"])
    if "enum" in schema:
        return data in schema["enum"]
    kinds = {"string": str, "boolean": bool, "integer": int, "number": int | float, "null": type(None)}
    kind = schema.get("type")
    if kind == "array":
        return isinstance(data, list) and all(fits(one, schema["items"]) for one in data)
    if kind != "object":
        return kind is None or isinstance(data, kinds[kind])
    if "properties" not in schema:
        return all(fits(one, schema["additionalProperties"]) for one in data.values())
    there = isinstance(data, dict) and set(schema["required"]) <= set(data) <= set(schema["properties"])
    return there and all(fits(value, schema["properties"][key]) for key, value in data.items())


def test_the_exported_schemas_are_those_of_the_files_that_are_written(tmp_path, goldless):
    schemas = json.loads(goldless("export", "schema", str(RUNS / "score")).out)["$defs"]
    goldless("score", str(RUNS / "score"), "--recorded", "--metric", "gem-raw,length", "--out", str(tmp_path / "run"))
    goldless("review", str(RUNS / "review"), "--recorded", "--out", str(tmp_path / "reviewed"))
    for file in ("run/leaderboard.json", "run/made_by.json", "reviewed/review.json"):
        assert fits(json.loads((tmp_path / file).read_text()), schemas[Path(file).name]), file
