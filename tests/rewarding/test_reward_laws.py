"""Laws of every reward: absent is not zero, and none leaves its scale."""

from __future__ import annotations

import math

import numpy as np
import pytest

import goldless
from goldless.records import CallFailure
from tests.conftest import NEW_NATS, overlap

METRICS = ("gem-s[prompt]+control", "gem-s[prompt]", "gem-raw+control", "gem-raw")
EACH = pytest.mark.parametrize("metric", METRICS)
WORDS = ["zarn", "bluk", "mipo", "tolu", "vond", "rask", "ebbo", "hoft", "lirp", "sorn", "palu", "tavi"]
TASKS, PEERS, GROUP, WORDS_OF_A_TEXT = 5, 3, 4, 4
SECRET = "grobnik"
"""A word that a scorer refuses."""
ignore_warnings = pytest.mark.filterwarnings("ignore:.*completions have no reward")
pytestmark = ignore_warnings


def random_texts(random: np.random.Generator, number: int) -> list[str]:
    return [" ".join(random.choice(WORDS, size=WORDS_OF_A_TEXT, replace=False)) for _ in range(number)]


def random_batch(seed: int) -> dict[str, list]:
    """A group of completions for each task, with the texts of several peers as references."""
    random = np.random.default_rng(seed)
    prompts, completions, references = [], [], []
    for task in range(TASKS):
        peers = random_texts(random, PEERS)
        prompts += [f"p{task}"] * GROUP
        completions += random_texts(random, GROUP)
        references += [peers] * GROUP
    return {"prompts": prompts, "completions": completions, "reference": references}


def joined(first: dict[str, list], second: dict[str, list]) -> dict[str, list]:
    return {name: [*values, *second[name]] for name, values in first.items()}


def refuse_secret(context: str, target: str) -> CallFailure | None:
    return CallFailure("refused", "no") if SECRET in context or SECRET in target else None


@pytest.fixture
def rewards(toy_scorer):
    """Rewards of a batch under a metric; ``broken`` as of the scorer."""

    def compute(metric, batch, broken=refuse_secret, **options):
        with goldless.reward(metric, scorer=toy_scorer(broken), **options) as reward:
            return reward(**batch)

    return compute


# --- absent is not zero ------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("no_text", [None, "", " \n"])
def test_a_peer_without_any_response_changes_no_reward(rewards, metric, no_text):
    batch = random_batch(1)
    with_silent_peer = {**batch, "reference": [[*peers, no_text] for peers in batch["reference"]]}
    assert rewards(metric, with_silent_peer) == rewards(metric, batch)


@EACH
def test_a_bank_with_empty_cells_is_the_bank_of_its_texts(rewards, metric):
    batch = random_batch(2)
    bank = random_texts(np.random.default_rng(3), 20)
    assert rewards(metric, batch, bank=[None, *bank, "", " "]) == rewards(metric, batch, bank=bank)


@EACH
def test_an_agent_whose_responses_are_all_refused_changes_no_reward(rewards, metric):
    batch = random_batch(4)
    agent = {
        "prompts": [f"p{task}" for task in range(TASKS)],
        "completions": [f"{SECRET} {task}" for task in range(TASKS)],
        "reference": batch["reference"][::GROUP],
    }
    found = rewards(metric, joined(batch, agent))
    assert found == [*rewards(metric, batch), *[None] * TASKS]


@EACH
def test_tasks_without_any_reference_change_no_reward(rewards, metric):
    batch = random_batch(5)
    silent = {"prompts": ["p0", "q"], "completions": ["zarn", "bluk"], "reference": [None, ["", None]]}
    assert rewards(metric, joined(silent, batch)) == [None, None, *rewards(metric, batch)]


@EACH
def test_calls_lost_at_random_change_no_reward_that_is_left(rewards, metric):
    """A completion that lacks any of its log-probabilities has no reward; the mean of a group moves by noise only."""
    shifts = []
    lost_rewards = 0
    for seed in range(15):
        batch = random_batch(100 + seed)
        whole = rewards(metric, batch)
        random = np.random.default_rng(seed)

        def lose(context, target, random=random, completions=tuple(batch["completions"])):
            about_a_completion = any(text in context for text in completions)
            return CallFailure("timeout", "gone") if about_a_completion and random.random() < 0.05 else None

        left = rewards(metric, batch, lose)
        assert all(reward is None or reward == before for reward, before in zip(left, whole, strict=True))
        lost_rewards += left.count(None)
        left_rewards = [reward for reward in left if reward is not None]
        shifts.append(np.mean(left_rewards) - np.mean(whole))
    assert lost_rewards > 25
    assert abs(np.mean(shifts)) < 3 * np.std(shifts, ddof=1) / math.sqrt(len(shifts))


@EACH
def test_references_removed_at_random_move_the_mean_reward_by_noise_only(rewards, metric):
    """Over 15 draws the shift is within three standard errors of none, and far from what a zero would make."""
    shifts, as_if_zero = [], []
    for seed in range(15):
        batch = random_batch(200 + seed)
        whole = np.mean(rewards(metric, batch))
        random = np.random.default_rng(seed)
        left = {}
        for peers in batch["reference"]:
            kept = [peer for peer in peers if random.random() < 0.6] or [peers[0]]
            left.setdefault(tuple(peers), kept)
        thinned = {**batch, "reference": [left[tuple(peers)] for peers in batch["reference"]]}
        found = rewards(metric, thinned)
        shifts.append(np.mean(found) - whole)
        shares = [len(kept) / PEERS for kept in thinned["reference"]]
        as_if_zero.append(np.mean(np.multiply(found, shares)) - whole)
    noise = 3 * np.std(shifts, ddof=1) / math.sqrt(len(shifts))
    assert abs(np.mean(shifts)) < noise
    if "control" not in metric:
        assert abs(np.mean(as_if_zero)) > noise


# --- no reward leaves its scale ----------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("wrong", [math.nan, -math.inf, math.inf, 0.5])
@pytest.mark.parametrize("kept", [False, True], ids=["kept nowhere", "journal"])
def test_what_is_no_log_probability_is_no_reward(rewards, metric, wrong, kept, tmp_path):
    batch = random_batch(6)
    poisoned = batch["completions"][0]

    def answer(context, target):
        return [wrong] * len(overlap(context, target)) if poisoned in context else None

    journal = {"journal": tmp_path / "journal.sqlite"} if kept else {}
    found = rewards(metric, batch, answer, **journal)
    assert found == [None, *rewards(metric, batch)[1:]]


@EACH
@pytest.mark.parametrize("seed", range(5))
def test_a_reward_is_at_most_what_there_is_to_tell(rewards, metric, seed):
    """No text tells more about a reference than the reference's own surprise, and no control takes more than all."""
    batch = random_batch(300 + seed)
    copied = {**batch, "completions": [" ".join(peers) for peers in batch["reference"]]}
    most = -NEW_NATS * WORDS_OF_A_TEXT
    for found in (rewards(metric, batch), rewards(metric, copied)):
        assert all(-most <= reward <= most for reward in found)
    if "control" not in metric:
        assert min(rewards(metric, copied)) > 0


@EACH
def test_a_reward_filled_in_lies_between_those_of_its_group(rewards, metric):
    batch = random_batch(7)
    batch["completions"][::GROUP] = [SECRET] * TASKS
    filled = rewards(metric, batch, missing="group-mean")
    for first in range(0, TASKS * GROUP, GROUP):
        others = filled[first + 1 : first + GROUP]
        assert filled[first] == pytest.approx(np.mean(others))
        assert min(others) <= filled[first] <= max(others)
