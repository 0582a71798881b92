"""Planted pairs: the better side is known by construction, the worse one looks better; draws depend on names only."""

from __future__ import annotations

import difflib
import json
from collections import Counter

import pytest

from goldless.judging.planted_pairs import (
    CONTROL,
    MASTER_KEYS,
    altered_fact,
    dressed_up,
    looks,
    planted_pairs,
    same_words,
)

PROMPTS = {
    "paris": "Which city is the capital of France, and how many people live there?",
    "rome": "Name the capital of Italy. How many people does the city have?",
    "bread": "How is bread baked at home?",
    "bread again": "How is bread baked at home, please?",
}
PLAIN = {
    "paris": "The capital is Paris, with 2 million people.",
    "rome": "The capital is Rome, with 3 million people.",
    "bread": "Mix flour and water, let the dough rise for 2 hours and bake it.",
    "bread again": "Knead a dough, wait for 3 hours, then bake it.",
}
FORMATTED = {
    task: f"## Answer\n\n- **First**: {text}\n- **Second**: that is all there is to say."
    for task, text in PLAIN.items()
}
TEXTS = {
    **{(task, "plain"): text for task, text in PLAIN.items()},
    **{(task, "formatted"): text for task, text in FORMATTED.items()},
}


def pairs_of(kind, **options):
    return {pair.task: pair for pair in planted_pairs(PROMPTS, TEXTS, items=10, kinds=[kind], **options)}


def test_a_neighbour_is_the_best_looking_answer_to_the_nearest_other_task_against_the_plainest_right_one():
    pairs = pairs_of("neighbour")
    assert pairs["paris"].right == PLAIN["paris"]
    assert pairs["paris"].wrong == FORMATTED["rome"]
    assert all(pair.looks_mislead for pair in pairs.values())


def test_the_control_has_the_same_kind_of_pair_with_the_right_side_longer():
    pairs = pairs_of(CONTROL)
    assert (pairs["paris"].right, pairs["paris"].wrong) == (FORMATTED["paris"], PLAIN["rome"])
    assert not any(pair.looks_mislead for pair in pairs.values())


def test_a_paraphrased_prompt_is_no_neighbour_since_its_answer_may_be_right():
    answers = {pair.wrong for pair in pairs_of("neighbour").values() if pair.task == "bread"}
    assert answers <= {FORMATTED["paris"], FORMATTED["rome"]}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("It has 2 wheels.", "It has 3 wheels."),
        ("It was built in 1998.", "It was built in 2998."),
        ("The door is open.", "The door is not open."),
        ("We met Anna, and then Anna met Otto and Otto left.", None),
        ("Nothing to change here", None),
    ],
)
def test_one_number_name_or_negation_changes(text, changed):
    if changed is None and "Anna" in text:
        assert sorted(altered_fact(text).split()) != sorted(text.split())
    else:
        assert altered_fact(text) == changed


def test_the_number_of_a_list_item_is_not_a_fact():
    assert altered_fact("1. Wash\n2. Dry") is None


def test_a_dressed_up_text_is_longer_and_better_formatted_and_has_the_words_of_the_text():
    text = "It has 2 wheels. It rolls well."
    assert looks(dressed_up(text)) > looks(text)
    assert Counter(text.split()) <= Counter(dressed_up(text).replace("*", "").split())


def test_an_empty_answer_is_a_master_key_or_the_prompt():
    for pair in pairs_of("empty").values():
        assert pair.wrong in {*MASTER_KEYS, pair.prompt}
        assert not same_words(pair.wrong, pair.right)


def test_draws_depend_on_names_and_the_seed_only_and_a_larger_one_contains_the_smaller():
    backwards = dict(reversed(TEXTS.items()))
    assert planted_pairs(PROMPTS, TEXTS, items=10) == planted_pairs(PROMPTS, backwards, items=10)
    smaller = planted_pairs(PROMPTS, TEXTS, items=2, seed=3)
    assert set(smaller) <= set(planted_pairs(PROMPTS, TEXTS, items=4, seed=3))


def test_tasks_without_a_prompt_or_a_text_give_no_pair():
    assert planted_pairs({"paris": " "}, {("paris", "plain"): "x"}, items=3) == []
    assert planted_pairs(PROMPTS, {("paris", "plain"): " "}, items=3) == []


@pytest.mark.recorded
@pytest.mark.parametrize("name", ["summeval", "alpaca_dev", "faithbench", "newsroom"])
def test_on_real_studies_looks_mislead_on_four_of_five_neighbours_and_altered_facts_are_one_change(recorded, name):
    rows = [json.loads(line) for line in (recorded / "truth" / f"{name}.jsonl").read_text().splitlines()]
    prompts = {row["task"]: row["prompt"] for row in rows}
    texts = {(row["task"], row["agent"]): row["text"] for row in rows}
    pairs = planted_pairs(prompts, texts, items=20)
    neighbours = [pair for pair in pairs if pair.kind == "neighbour"]
    assert len(neighbours) == 20
    assert sum(pair.looks_mislead for pair in neighbours) >= 16
    for pair in pairs:
        if pair.kind == "altered":
            changed = altered_fact(pair.right, prompt=pair.prompt)
            matcher = difflib.SequenceMatcher(None, pair.right.split(), changed.split(), autojunk=False)
            changes = [block for block in matcher.get_opcodes() if block[0] != "equal"]
            assert len(changes) == 1
