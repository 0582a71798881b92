"""Agents that quote or edit their peers are named, and honest agents are not.

Honest responses are invented: each says what it says of a task in sentences of its own, with the task's words.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from goldless.audit.texts import _medians_of_others, text_findings
from goldless.records import Response, Task
from goldless.studies import study_from_records

HONEST = ("solid", "careful", "clear", "brief", "vague")
GOOD = ("solid", "careful", "clear")
LENGTHS = {"solid": 4, "careful": 5, "clear": 4, "brief": 2, "vague": 3}
KINDS = {"quotes-peers", "contains-peer"}
COMMON = ["the", "a", "of", "to", "is", "and", "not", "in", "it", "that", "for", "on", "with", "as", "can", "will"]
PADDING = "Here is what can be said in answer to the question. {} That is all there is to say about it here."


def sentences(task: str, agent: str) -> list[str]:
    """Sentences of words that all agents use for the task, and of common ones."""
    draw = random.Random(f"{task} {agent}")
    of_task = [f"{task}{letter}" for letter in "abcdefgh"]
    return [
        " ".join(draw.choice(of_task if draw.random() < 0.5 else COMMON) for _ in range(12)).capitalize() + "."
        for _ in range(LENGTHS[agent])
    ]


def one_sentence_of_each(texts):
    return " ".join(texts[agent][number % 2] for number, agent in enumerate(GOOD))


def padded(texts):
    return PADDING.format(" ".join(texts["careful"]))


def edited(texts):
    first, *rest = texts["careful"]
    words = {"is": "was", "and": "plus", "not": "never", "the": "this"}
    return " ".join(words.get(word, word) for sentence in (*rest, first) for word in sentence.split())


def all_peers(texts):
    return " ".join(sentence for own in texts.values() for sentence in own)


def unseen(texts):
    return "".join(f"{letter}\u200b" for letter in padded(texts))


def wide(texts):
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in padded(texts))


def commented(texts):
    return f"It depends on many things that nobody here can know. <!-- {all_peers(texts)} -->"


def cut_by_comments(texts):
    return padded(texts).replace("a", "a<!-- x -->")


def study_with(*cheats, tasks=6):
    names = [f"t{number}" for number in range(tasks)]
    responses = []
    for task in names:
        texts = {agent: sentences(task, agent) for agent in HONEST}
        responses += [Response(task, agent, " ".join(own)) for agent, own in texts.items()]
        responses += [Response(task, cheat.__name__, cheat(texts)) for cheat in cheats]
    return study_from_records([Task(task, prompt=f"What of {task}?") for task in names], responses)


def found(*cheats, tasks=6):
    return [finding for finding in text_findings(study_with(*cheats, tasks=tasks)) if finding.kind in KINDS]


def test_honest_agents_are_not_named():
    assert found() == []


@pytest.mark.parametrize("cheat", [one_sentence_of_each, all_peers, commented])
def test_who_quotes_several_peers_is_named_alone(cheat):
    (finding,) = found(cheat)
    assert (finding.kind, finding.agents) == ("quotes-peers", (cheat.__name__,))
    assert f"{cheat.__name__} says what several peers say, word for word" in finding.message


@pytest.mark.parametrize("cheat", [padded, edited, unseen, wide, cut_by_comments])
def test_an_edited_copy_is_named_with_the_peer_that_it_has_the_text_of(cheat):
    (finding,) = found(cheat)
    assert (finding.kind, set(finding.agents)) == ("contains-peer", {"careful", cheat.__name__})


def test_on_two_tasks_nothing_is_said():
    assert found(padded, tasks=2) == []


def test_the_median_of_others_is_numpys_median_without_the_value():
    for size in (2, 3, 4, 7, 10):
        values = np.random.default_rng(size).integers(0, 5, size).astype(float)
        expected = [np.median(np.delete(values, place)) for place in range(size)]
        np.testing.assert_array_equal(_medians_of_others(values), expected)


def test_beyond_a_number_of_agents_the_audit_says_that_it_did_not_look(monkeypatch):
    monkeypatch.setattr("goldless.audit.texts.MOST_AGENTS", 2)
    (finding,) = [finding for finding in text_findings(study_with(padded)) if finding.kind == "too-many-agents"]
    assert "not looked for among" in finding.message
