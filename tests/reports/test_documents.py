"""Result documents: read as they were written, and told in one sentence where they are wrong."""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Literal

import pytest
from pydantic._internal._mock_val_ser import MockValSer

import goldless
from goldless.reports.document import InMemory, UnexpectedDataError, adapter, read, write, written_property
from goldless.reports.html.page import made_sections
from goldless.reports.leaderboard import Leaderboard, Leaderboards, RaterScores
from goldless.reports.run_folder import DOCUMENTS, OTHERS, RunFolder
from tests.reports.report_folders import board, every_document, leaderboard
from tests.support.paths import FIXTURES

RUNS = FIXTURES / "runs"


@pytest.mark.parametrize("name", ["leaderboard", "review", *OTHERS])
def test_a_result_that_was_read_is_written_as_it_was_but_for_fields_of_another_version(name):
    kind, document = resolve_name(DOCUMENTS[name]), every_document()[name]
    first = write(read(kind, json.dumps(document | {"of another version": {"x": 1}})))
    assert "of another version" not in first
    assert write(read(kind, json.dumps(first))) == first


def results() -> list[type]:
    """Every class of the package that has tables."""
    found = []
    for module in pkgutil.walk_packages(goldless.__path__, "goldless."):
        if module.name.endswith("__main__"):
            continue
        try:
            names = vars(importlib.import_module(module.name))
        except ImportError:  # an extra that is not installed
            continue
        kinds = (kind for kind in names.values() if isinstance(kind, type) and is_dataclass(kind))
        found += [kind for kind in kinds if kind.__module__ == module.name and hasattr(kind, "tables")]
    return found


def test_every_result_can_be_written():
    """A field of a type that is imported for type checkers alone could not."""
    kinds = results()
    incomplete = [kind.__name__ for kind in kinds if isinstance(adapter(kind).serializer, MockValSer)]
    assert len(kinds) > 15
    assert incomplete == []


@dataclass(frozen=True)
class Toy:
    name: str
    half: float | None
    usd: float | None = 1.0
    times: int = 3
    kind: Literal["a", "b"] | None = None
    pair: tuple[str, str] = ("x", "y")
    parts: Mapping[str, tuple[Toy, ...]] = field(default_factory=dict)
    process: InMemory[object] = None

    @written_property
    def long_name(self) -> str:
        return self.name * 2


def test_a_result_is_written_with_its_properties_and_without_what_belongs_to_the_process():
    data = write(Toy("t", math.nan, process=object(), parts={"p": (Toy("u", math.inf),)}))
    assert (data["half"], data["long_name"], data["parts"]["p"][0]["half"]) == (None, "tt", None)
    assert "process" not in data
    assert read(Toy, json.dumps(data)) == Toy("t", None, parts={"p": (Toy("u", None),)})


def test_a_null_is_none_and_what_is_absent_is_the_default():
    assert read(Toy, '{"name": "t", "half": null}') == Toy("t", None)
    assert read(Toy, '{"name": "t", "half": 2, "usd": null}') == Toy("t", 2.0, usd=None)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"half": None}, "name: Field required"),
        ({"name": 3, "half": None}, "name: Input should be a valid string"),
        ({"name": "t", "half": "1"}, "half: Input should be a valid number"),
        ({"name": "t", "half": 1, "times": True}, "times: Input should be a valid integer"),
        ({"name": "t", "half": 1, "times": None}, "times: Input should be a valid integer"),
        ({"name": "t", "half": 1, "kind": "c"}, "kind: Input should be 'a' or 'b'"),
        ({"name": "t", "half": 1, "pair": ["x"]}, "pair.1: Field required"),
        ({"name": "t", "half": 1, "parts": []}, "parts: Input should be an object"),
        ({"name": "t", "half": 1, "parts": {"p": [{"half": 1}]}}, "parts.p.0.name: Field required"),
        ([], "Input should be an object"),
    ],
)
def test_data_that_is_no_such_result_is_an_error_that_says_where(data, message):
    with pytest.raises(UnexpectedDataError, match=rf"^{re.escape(message)}$"):
        read(Toy, json.dumps(data))


def test_metrics_of_agents_and_of_raters_are_told_apart():
    raters = [{"rater": "eve", "partners": 0, "information": None}]
    criteria = {"": {"overall": {"value": 0.5, "null": 0.5, "p": 0.5}, "raters": raters}}
    people = {"metric": "tvd-mi[labels]", "settings": {}, "criteria": criteria}
    found = read(Leaderboards, json.dumps(leaderboard(m=board({"ann": None}), people=people)))
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


def fits(data, schema, schemas) -> bool:
    """Whether data are as a schema says: the part of JSON schema that ours use."""
    schema = schemas[schema["$ref"].removeprefix("#/$defs/")] if "$ref" in schema else schema
    if "anyOf" in schema:
        return any(fits(data, choice, schemas) for choice in schema["anyOf"])
    if "enum" in schema:
        return data in schema["enum"]
    kinds = {"string": str, "boolean": bool, "integer": int, "number": int | float, "null": type(None)}
    kind = schema.get("type")
    if kind == "array":
        return isinstance(data, list) and all(fits(item, schema["items"], schemas) for item in data)
    if kind != "object":
        return kind is None or isinstance(data, kinds[kind])
    if "properties" not in schema:
        rest = schema["additionalProperties"]
        return rest is True or all(fits(value, rest, schemas) for value in data.values())
    present = isinstance(data, dict) and set(schema.get("required", ())) <= set(data) <= set(schema["properties"])
    return present and all(fits(value, schema["properties"][key], schemas) for key, value in data.items())


def test_the_exported_schemas_are_those_of_the_files_that_are_written(tmp_path, goldless):
    schemas = json.loads(goldless("export", "schema", str(RUNS / "score")).out)["$defs"]
    goldless("score", str(RUNS / "score"), "--recorded", "--metric", "gem-raw,length", "--out", str(tmp_path / "run"))
    goldless("review", str(RUNS / "review"), "--recorded", "--out", str(tmp_path / "reviewed"))
    for file in ("run/leaderboard.json", "run/made_by.json", "reviewed/review.json"):
        assert fits(json.loads((tmp_path / file).read_text()), schemas[Path(file).name], schemas), file
