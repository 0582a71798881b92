"""What is packed with what: every request's own tokens, in order, in few well-filled sequences.

Expected values are the requests' own token ids, and counts made by hand.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.models.local_weights.packing import Lengths, Pack, longest_branch, plan_packs

Pair = tuple[tuple[int, ...], tuple[int, ...]]


def seen_from(pack: Pack, row: int) -> list[int]:
    """The tokens a position may attend to, by the rule itself: it lies inside their subtrees."""
    return [int(pack.tokens[k]) for k in range(row + 1) if row < pack.ends[k]]


def check(requests: list[Pair], packs: list[Pack], lengths: Lengths) -> None:
    """Each request is read once, and each read position sees the request's own past and nothing else."""
    assert sorted(i for pack in packs for i in pack.requests) == list(range(len(requests)))
    for pack in packs:
        assert len(pack.tokens) == len(pack.positions) == len(pack.ends) <= pack.length
        if pack.length > lengths.longest:
            assert pack.length == lengths.holding(max(sum(map(len, requests[i])) - 1 for i in pack.requests))
        place = 0
        for i in pack.requests:
            context, target = requests[i]
            assert pack.chosen[place : place + len(target)].tolist() == list(target)
            for offset in range(len(target)):
                row = int(pack.rows[place + offset])
                assert seen_from(pack, row) == list(context + target[:offset])
                assert pack.positions[row] == len(context) + offset - 1
            place += len(target)
        assert place == len(pack.rows) == len(pack.chosen)


def text(seed: int, length: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(0, 1000, length).tolist())


def study(papers: int, candidates: int, peers: int) -> list[Pair]:
    """Shared instructions, a synopsis for each paper, candidates, peers: 10, 30, 20 and 20 tokens."""
    return [
        (text(0, 10) + text(100 + p, 30) + text(200 + 10 * p + x, 20), text(900 + 10 * p + y, 20))
        for p in range(papers)
        for x in range(candidates)
        for y in range(peers)
    ]


def test_a_study_that_fits_is_one_sequence_with_every_shared_part_once():
    requests = study(2, 3, 2)
    (pack,) = plan_packs(requests, Lengths(4096, 512))
    # instructions, two synopses, six candidates, twelve peers whose last token is only predicted
    assert len(pack.tokens) == 10 + 2 * 30 + 6 * 20 + 12 * 19
    assert pack.length == 512
    check(requests, [pack], Lengths(4096, 512))


def test_a_tree_larger_than_a_sequence_goes_on_under_a_copy_of_its_path():
    requests = study(1, 6, 2)
    lengths = Lengths(128, 128)
    packs = list(plan_packs(requests, lengths))
    check(requests, packs, lengths)
    # 40 shared tokens and one candidate with its two peers, 58, leave 30: no other candidate fits with both its peers,
    # and one with a single peer, 39, does not fit either
    assert [len(pack.tokens) for pack in packs] == [40 + 20 + 2 * 19] * 6


def test_sequences_are_cut_where_least_is_wasted():
    # two trees of 10 + 4 * 9 tokens and a sequence of 60: after the first tree 14 are left, which would hold a copy of
    # the second tree's root and nothing more
    requests = [(text(tree, 10), text(10 + 4 * tree + leaf, 10)) for tree in (1, 2) for leaf in range(4)]
    packs = list(plan_packs(requests, Lengths(60, 60)))
    assert sorted(sorted(pack.requests) for pack in packs) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [len(pack.tokens) for pack in packs] == [46, 46]


def test_a_request_longer_than_the_longest_sequence_gets_one_that_holds_it():
    requests = [(text(1, 150), text(2, 51)), *((text(i, 40), (1,)) for i in range(3, 7))]
    packs = list(plan_packs(requests, Lengths(64, 64)))
    check(requests, packs, Lengths(64, 64))
    # one of the short ones finds room behind the long one
    assert sorted((pack.length, len(pack.tokens)) for pack in packs) == [(64, 40)] * 3 + [(256, 240)]
    assert longest_branch(requests) == 200
    assert longest_branch([]) == 0
    assert list(plan_packs([], Lengths(64, 64))) == []


def test_what_is_left_is_put_into_shorter_sequences_rather_than_into_padding():
    # 1024 + 600 tokens that share nothing: 600 of 1024 is less than three quarters, so 512 comes first; 88 of 128 is
    # less as well, so 64 come first and then 24
    requests = [(tuple(range(8 * i, 8 * i + 8)), (1,)) for i in range((1024 + 600) // 8)]
    packs = list(plan_packs(requests, Lengths(1024, 64)))
    assert [pack.length for pack in packs] == [1024, 512, 64, 64]
    assert [round(len(pack.tokens) / pack.length, 2) for pack in packs] == [1.0, 1.0, 1.0, 0.38]


@pytest.mark.parametrize(("longest", "least_fill", "most_repeated"), [(1024, 0.95, 1.08), (4096, 0.97, 1.03)])
def test_large_studies_fill_their_sequences_and_repeat_little(longest: int, least_fill: float, most_repeated: float):
    requests = study(20, 6, 5)
    packs = list(plan_packs(requests, Lengths(longest, 128)))
    computed = sum(len(pack.tokens) for pack in packs)
    assert computed / sum(pack.length for pack in packs) > least_fill
    assert computed / (10 + 20 * 30 + 120 * 20 + 600 * 19) < most_repeated
    assert len({pack.length for pack in packs}) <= 4


def test_the_plan_does_not_depend_on_the_order_of_the_requests():
    requests = study(4, 3, 2)
    order = np.random.default_rng(0).permutation(len(requests)).tolist()
    first = list(plan_packs(requests, Lengths(256, 64)))
    again = list(plan_packs([requests[i] for i in order], Lengths(256, 64)))
    assert len(first) == 4
    for one, other in zip(first, again, strict=True):
        assert one.requests == tuple(order[i] for i in other.requests)
        for part in ("length", "tokens", "positions", "ends", "rows", "chosen"):
            assert np.array_equal(getattr(one, part), getattr(other, part))


# few letters, so that requests share beginnings, end inside each other, and occur twice
few = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)


@given(st.lists(st.tuples(few, few), min_size=1, max_size=12), st.sampled_from([Lengths(24), Lengths(32, 8)]))
def test_every_position_sees_its_own_past_whatever_requests_share(requests: list[Pair], lengths: Lengths):
    check(requests, list(plan_packs(requests, lengths)), lengths)
