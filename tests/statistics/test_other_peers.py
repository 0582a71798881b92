"""How firm an order is under other peers: against a plain loop, and what is not said."""

from __future__ import annotations

import math

import numpy as np
import pytest

from goldless.reports.leaderboard import order_notes
from goldless.statistics.comparisons import all_pairs, compare_pairs
from goldless.statistics.other_peers import DRAWS, with_sign_kept

NAMES = list("abcdef")


def scores(agents: int = 6, spread: float = 0.6) -> np.ndarray:
    """[20 tasks, agents, peers]: agents that differ, and what each is worth with each peer."""
    random = np.random.default_rng(4)
    found = random.normal(size=(20, 1, 1)) + 0.3 * np.arange(agents)[None, :, None]
    found = found + spread * random.normal(size=(1, agents, agents)) + 0.3 * random.normal(size=(20, agents, agents))
    found[:, np.arange(agents), np.arange(agents)] = np.nan
    return found


def kept(by_peer: np.ndarray, seed: int = 0):
    agents = NAMES[: by_peer.shape[1]]
    found = compare_pairs(agents, all_pairs(np.nanmean(by_peer, axis=2)), permutations=499)
    return with_sign_kept(found, agents, by_peer, seed)


def test_the_share_is_that_of_a_plain_loop_over_the_same_draws():
    by_peer = scores()
    drawn = np.random.default_rng((0, 4)).integers(4, size=(DRAWS, 4))
    checked = 0
    for one in kept(by_peer):
        if not one.decided:
            assert one.sign_kept is None
            continue
        better, worse = NAMES.index(one.better), NAMES.index(one.worse)
        gaps = [
            sum(by_peer[t, better, p] - by_peer[t, worse, p] for t in range(20)) / 20
            for p in range(6)
            if p not in {better, worse}
        ]
        mean = sum(gaps) / 4
        moved = [mean + math.sqrt(8 / 3) * (sum(gaps[i] for i in row) / 4 - mean) for row in drawn]
        assert one.sign_kept == pytest.approx(sum(x > 0 for x in moved) / DRAWS)
        checked += 1
    assert checked > 5


def test_below_four_common_peers_nothing_is_said():
    found = kept(scores(5))
    assert any(one.decided for one in found)
    assert all(one.sign_kept is None for one in found)
    assert not [*order_notes(found)]


def test_a_peer_without_any_score_changes_nothing_and_the_unit_is_no_matter():
    by_peer = scores()
    more = np.concatenate([by_peer, np.full((20, 6, 1), np.nan)], axis=2)
    shares = [[one.sign_kept for one in kept(some)] for some in (by_peer, more, 1000 * by_peer + 7)]
    assert shares[0] == shares[1] == shares[2]


def test_the_note_counts_the_decided_and_names_the_least_sure():
    found = kept(scores(spread=1.2))
    known = {(one.better, one.worse): one.sign_kept for one in found if one.sign_kept is not None}
    (better, worse), least = min(known.items(), key=lambda pair: pair[1])
    (note,) = order_notes(found)
    share = math.floor(100 * sum(known.values()) / len(known))
    assert note == (
        f"With other peers like these, {share}% of {len(known)} decided differences would keep their sign "
        f"(least sure: {better} over {worse}, {math.floor(100 * least)}%)."
    )
