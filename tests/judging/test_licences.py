"""Licences: what they say, when they hold, and what is said of a file that is no licence."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace

import pytest

from goldless.errors import UserError
from goldless.judging.licences import (
    Licence,
    LicensedTrait,
    Sitting,
    check,
    issue,
    prompt_hash,
    read_licences,
    write_licence,
)
from goldless.judging.scales import find_scale
from goldless.models.interface import ModelIdentity

PAIRWISE = find_scale("pairwise")
REVIEWER = ModelIdentity("http", "qwen", "1f2e3d4c5b6a", settings={"server": "http://jury:8000/v1"})
DAY = dt.date(2026, 1, 31)
DESCRIBED = "Two people summarised an article."


def licence_of(identity=REVIEWER, **changes):
    options = {
        "task_description": DESCRIBED,
        "task_kind": "news summary",
        "sittings": [Sitting("consistency", {"items": 300, "seed": 0, "threshold": "mean"}), Sitting("pertinence")],
        "traits": {"consistency": LicensedTrait(0.836, 2100, 0.81, 0.86), "pertinence": LicensedTrait(0.97, 200)},
        "weight": 0.935,
        "study_fingerprint": "ab" * 32,
        "issued": DAY,
    }
    return issue(identity, PAIRWISE, **(options | changes))


def reasons(licence, **changes):
    asked = {
        "identity": REVIEWER,
        "scale": "pairwise",
        "prompt_hash": prompt_hash(PAIRWISE, DESCRIBED),
        "task_kind": "news summary",
        "today": DAY,
    }
    return check(licence, **(asked | changes))


# --- whether it holds ------------------------------------------------------------------------------------------------


def test_a_licence_holds_for_what_it_was_issued_for():
    assert reasons(licence_of()) == []
    assert reasons(licence_of(), task_kind="  News  Summary ") == []


def test_a_licence_holds_ninety_days_and_no_longer():
    """31 January and 90 days is 1 May: 28 days of February, 31 of March, 30 of April, and one."""
    licence = licence_of()
    assert licence.expires == dt.date(2026, 5, 1)
    assert reasons(licence, today=dt.date(2026, 5, 1)) == []
    (reason,) = reasons(licence, today=dt.date(2026, 5, 2))
    assert reason == "it expired on 2026-05-01, and today is 2026-05-02"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (replace(REVIEWER, name="llama"), "another model, http:qwen, not http:llama"),
        (replace(REVIEWER, provider="openai"), "another model, http:qwen, not openai:qwen"),
        (replace(REVIEWER, revision="99"), "the model's revision 1f2e3d4c5b6a, not 99"),
        (replace(REVIEWER, revision=""), "the model's revision 1f2e3d4c5b6a, not unknown"),
        (replace(REVIEWER, tokenizer="t2"), "the model's tokenizer unknown, not t2"),
        (
            replace(REVIEWER, settings={"server": "http://other/v1"}),
            "server = http://jury:8000/v1, not http://other/v1",
        ),
        (replace(REVIEWER, settings={}), "server = http://jury:8000/v1, not unset"),
    ],
)
def test_another_model_revision_or_setting_is_a_reason(asked, said):
    (reason,) = reasons(licence_of(), identity=asked)
    assert said in reason


def test_another_scale_prompt_or_kind_of_task_is_a_reason():
    (reason,) = reasons(licence_of(), scale="5-level")
    assert reason == "it is for the scale pairwise, not 5-level"
    (reason,) = reasons(licence_of(), prompt_hash=prompt_hash(PAIRWISE, "Two people told a joke."))
    assert "another prompt or task description" in reason
    (reason,) = reasons(licence_of(), task_kind="dialogue")
    assert reason == "it is for tasks of the kind 'news summary', not 'dialogue'"


def test_reviewers_are_refused_with_all_reasons_of_all_of_them():
    other = ModelIdentity("openai", "gpt")
    bare = ModelIdentity("gguf", "smol")
    held = [
        (REVIEWER, licence_of()),
        (other, licence_of(other, task_kind="dialogue", issued=dt.date(2025, 1, 1))),
        (bare, None),
    ]
    asked = {"scale": PAIRWISE, "task_description": DESCRIBED, "task_kind": "news summary"}
    with pytest.raises(UserError) as caught:
        Licence.require(held, **asked, today=dt.date(2026, 3, 1))
    lines = str(caught.value).splitlines()
    assert lines[1:] == [
        "  openai:gpt: it expired on 2025-04-01, and today is 2026-03-01",
        "  openai:gpt: it is for tasks of the kind 'dialogue', not 'news summary'",
        "  gguf:smol: no licence",
    ]
    Licence.require(held[:1], **asked, today=dt.date(2026, 3, 1))


# --- what it says ----------------------------------------------------------------------------------------------------


def test_a_licence_holds_no_key_and_no_fingerprint_of_texts(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    text = write_licence(licence_of(), tmp_path).read_text()
    assert "sk-very-secret" not in text
    assert "ab" * 32 not in text
    assert DESCRIBED not in text


def test_an_address_with_a_password_is_refused_without_showing_it():
    leaky = replace(REVIEWER, settings={"server": "https://me:hunter2@jury/v1"})
    with pytest.raises(UserError, match="server of http:qwen") as caught:
        licence_of(leaky)
    assert "hunter2" not in str(caught.value)


# --- on disk ---------------------------------------------------------------------------------------------------------


def test_a_written_licence_reads_back_the_same(tmp_path):
    licence = licence_of()
    path = write_licence(licence, tmp_path / "licences")
    assert Licence.read(path) == licence
    assert path.name.startswith("http-qwen-1f2e3d4c-pairwise-")
    assert read_licences(tmp_path / "licences") == [licence]
    assert read_licences(tmp_path / "nowhere") == []


def test_a_licence_issued_again_replaces_the_one_before_and_leaves_nothing_beside_it(tmp_path):
    write_licence(licence_of(), tmp_path)
    path = write_licence(licence_of(weight=0.5, issued=dt.date(2026, 2, 1)), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert Licence.read(path).weight == 0.5


def changed(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.pop("weight"), "weight: Field required"),
        (lambda d: d.update(expires="soon"), "expires: Input should be a valid date.*got 'soon'"),
        (lambda d: d.update(reviwer="x"), "reviwer: Unexpected keyword argument, got 'x'"),
        (lambda d: d.update(weight=float("inf")), "weight: Input should be a finite number, got inf"),
        (lambda d: d.update(shared={"x": {"correlation": 1.5, "n": 3, "of": "votes"}}), "shared.x.correlation: Input"),
        (lambda d: d.update(format=2), "format: Input should be 1, got 2"),
    ],
)
def test_a_file_that_is_no_licence_is_refused_by_its_name_and_field(tmp_path, change, said):
    path = changed(write_licence(licence_of(), tmp_path), change)
    with pytest.raises(UserError, match=said) as caught:
        Licence.read(path)
    assert path.name in str(caught.value)


def test_all_wrong_fields_are_named_at_once(tmp_path):
    path = changed(write_licence(licence_of(), tmp_path), lambda d: d.update(scale="", goldless=1, traits=3))
    with pytest.raises(UserError) as caught:
        Licence.read(path)
    assert len(str(caught.value).splitlines()) == 4


def test_the_prompts_hash_changes_with_its_words_and_nothing_else():
    assert prompt_hash(PAIRWISE, "a") == prompt_hash(PAIRWISE, "a")
    assert len({prompt_hash(find_scale(n), d) for n in ("pairwise", "5-level") for d in ("a", "b")}) == 4
