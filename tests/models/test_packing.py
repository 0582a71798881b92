"""What requests share is computed once: in a tree, or packed in few well-filled sequences, with nothing lost.

Expected values are the requests' own token ids, and counts made by hand.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from goldless.models.local_engine import Node, build_tree, computed_tokens
from goldless.models.local_weights.packing import Lengths, Pack, plan_packs

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


def test_a_request_longer_than_the_longest_sequence_gets_one_that_holds_it():
    requests = [(text(1, 150), text(2, 51)), *((text(i, 40), (1,)) for i in range(3, 7))]
    packs = list(plan_packs(requests, Lengths(64, 64)))
    check(requests, packs, Lengths(64, 64))
    # one of the short ones finds room behind the long one
    assert sorted((pack.length, len(pack.tokens)) for pack in packs) == [(64, 40)] * 3 + [(256, 240)]
    assert list(plan_packs([], Lengths(64, 64))) == []


# few letters, so that requests share beginnings, end inside each other, and occur twice
few = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)


@given(st.lists(st.tuples(few, few), min_size=1, max_size=12), st.sampled_from([Lengths(24), Lengths(32, 8)]))
def test_every_position_sees_its_own_past_whatever_requests_share(requests: list[Pair], lengths: Lengths):
    check(requests, list(plan_packs(requests, lengths)), lengths)


# --- the tree ------------------------------------------------------------------------------------------------------

# few tokens and short lengths, so that sequences often begin alike, end inside each other and repeat
letters = st.lists(st.integers(0, 2), max_size=14).map(tuple)
sequences = st.lists(letters, max_size=12)
limits = st.fixed_dictionaries({"shortest_shared": st.integers(1, 6), "longest_node": st.integers(1, 6)})


def paths(root: Node) -> dict[int, list[list[Node]]]:
    """For every request the ways from the root to the nodes where it goes no further."""
    found: dict[int, list[list[Node]]] = {}

    def descend(node: Node, way: list[Node]) -> None:
        way = [*way, node] if node.tokens else way
        further = {request for child in node.children for request in child.requests}
        for request in node.requests:
            if request not in further:
                found.setdefault(request, []).append(way)
        for child in node.children:
            descend(child, way)

    descend(root, [])
    return found


@given(sequences, limits)
def test_each_request_ends_once_and_its_way_from_the_root_spells_exactly_its_tokens(given_sequences, given_limits):
    found = paths(build_tree(given_sequences, **given_limits))
    assert set(found) == {i for i, sequence in enumerate(given_sequences) if sequence}
    for request, ways in found.items():
        (way,) = ways
        assert tuple(itertools.chain.from_iterable(node.tokens for node in way)) == given_sequences[request]
        assert [node.start for node in way] == list(itertools.accumulate([len(n.tokens) for n in way], initial=0))[:-1]


def test_the_ordered_pairs_of_six_agents_take_2310_tokens_where_one_by_one_takes_8100():
    """150 of instructions once, 6 candidates of 60 once each, 30 targets of 60: 150 + 360 + 1,800."""
    chance = random.Random(0)

    def text(length: int, first: int) -> tuple[int, ...]:
        return (first, *(chance.randrange(1000) for _ in range(length - 1)))

    instructions = text(150, 0)
    candidates = [text(60, i) for i in range(6)]
    targets = [text(60, i) for i in range(6)]
    pairs = [instructions + candidates[i] + targets[j] for i in range(6) for j in range(6) if i != j]
    assert len(pairs) == 30
    assert sum(map(len, pairs)) == 8100
    assert computed_tokens(build_tree(pairs)) == 2310
