"""What the audit finds in texts alone."""

from __future__ import annotations

import pytest

from goldless.audit.texts import text_findings
from goldless.records import Response, Task
from goldless.studies import study_from_records
from tickets import EMPTY, TICKETS, study


def found(**agents):
    return [(one.kind, one.agents) for one in text_findings(study(**agents))]


def test_an_honest_study_has_no_finding():
    plain = study_from_records(
        [Task(f"t{i}", prompt=ticket) for i, (ticket, _, _) in enumerate(TICKETS)],
        [
            Response(f"t{i}", agent, text)
            for i, (_, good, _) in enumerate(TICKETS)
            for agent, text in {"whole": good, "short": good[: good.index(";") if ";" in good else 60]}.items()
        ],
    )
    assert text_findings(plain) == []


def test_a_text_that_differs_in_a_word_per_task_is_nearly_the_same():
    texts = [Response(f"t{i}", "slot", f"{EMPTY} {i}") for i in range(6)]
    (finding,) = text_findings(study_from_records([Task(f"t{i}") for i in range(6)], texts))
    assert (finding.kind, finding.message) == ("same-text", "slot gives nearly the same text to 6 of 6 tasks.")


def test_agents_that_share_their_texts_are_one_group():
    assert ("near-identical", ("a", "b", "c")) in found(good="good", a="empty", b=EMPTY + " today", c=EMPTY + " now")


def test_a_copied_prompt_is_found_and_an_answer_that_quotes_a_little_of_it_is_not():
    assert found(good="good", copycat="copy") == [("copied-prompt", ("copycat",))]


def test_an_agent_in_another_language_than_its_peers_is_named_with_both():
    (finding,) = [
        one for one in text_findings(study(a="good", b="copy", german="german")) if one.kind == "other-language"
    ]
    assert finding.agents == ("german",)
    assert "on 6 of 6 tasks (mostly de, not en)" in finding.message


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("I'm sorry, but I can't assist with that request.", True),
        ("As an AI language model, I do not have access to your account.", True),
        ("I am unable to help with this.", True),
        ("I cannot provide an answer to that.", True),
        ("Sorry for the trouble: the refund is on its way, you cannot miss it.", False),
        ("The button stays grey until a filter is saved.", False),
    ],
)
def test_refusals_are_counted_and_apologies_are_not(text, refuses):
    kinds = [kind for kind, agents in found(good="good", other=text) if agents == ("other",)]
    assert ("refusals" in kinds) is refuses


def test_a_large_study_is_sampled_and_the_sample_does_not_change(monkeypatch):
    monkeypatch.setattr("goldless.audit.texts.RESPONSES", 40)
    tasks = [Task(f"t{i}") for i in range(500)]
    large = study_from_records(tasks, [Response(t.task, a, f"{EMPTY} {a}") for t in tasks for a in ("a", "b")])
    first = text_findings(large)
    assert first == text_findings(large)
    assert "of 20 tasks" in first[0].message
