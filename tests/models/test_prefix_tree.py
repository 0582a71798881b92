"""The prefix tree holds every sequence exactly, and computes what is shared once."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from goldless.models.prefix_tree import Node, build_tree, computed_tokens, walk

# few tokens and short lengths, so that sequences often begin alike, end inside each other and repeat
tokens = st.lists(st.integers(0, 2), max_size=14).map(tuple)
sequences = st.lists(tokens, max_size=12)
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


def common_prefix(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@given(sequences, limits)
def test_each_request_ends_once_and_its_way_from_the_root_spells_exactly_its_tokens(given_sequences, given_limits):
    found = paths(build_tree(given_sequences, **given_limits))
    assert set(found) == {i for i, sequence in enumerate(given_sequences) if sequence}
    for request, ways in found.items():
        (way,) = ways
        assert tuple(itertools.chain.from_iterable(node.tokens for node in way)) == given_sequences[request]
        assert [node.start for node in way] == list(itertools.accumulate([len(n.tokens) for n in way], initial=0))[:-1]


@given(sequences, limits)
def test_every_position_of_every_request_is_in_exactly_one_of_the_nodes_that_list_it(given_sequences, given_limits):
    covered: dict[int, list[int]] = {i: [] for i in range(len(given_sequences))}
    for node in walk(build_tree(given_sequences, **given_limits)):
        for request in node.requests:
            covered[request] += range(node.start, node.end)
    assert {i: sorted(places) for i, places in covered.items()} == {
        i: list(range(len(sequence))) for i, sequence in enumerate(given_sequences)
    }


@given(sequences, limits)
def test_no_more_tokens_are_computed_than_without_sharing_nor_fewer_than_distinct_prefixes(
    given_sequences, given_limits
):
    distinct = {sequence[:end] for sequence in given_sequences for end in range(1, len(sequence) + 1)}
    computed = computed_tokens(build_tree(given_sequences, **given_limits))
    assert len(distinct) <= computed <= sum(map(len, given_sequences))


@given(sequences, limits)
def test_two_requests_share_nodes_for_all_of_their_common_beginning_but_less_than_the_shortest_stretch(
    given_sequences, given_limits
):
    ways = {i: found[0] for i, found in paths(build_tree(given_sequences, **given_limits)).items()}
    for i, j in itertools.combinations(ways, 2):
        shared = sum(len(a.tokens) for a, b in zip(ways[i], ways[j], strict=False) if a is b)
        common = common_prefix(given_sequences[i], given_sequences[j])
        assert common - given_limits["shortest_shared"] < shared <= common


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


def test_a_long_stretch_is_cut_into_a_chain_that_all_its_requests_pass():
    shared = tuple(range(1200))
    root = build_tree([(*shared, 1), (*shared, 2)], longest_node=512)
    lengths = [len(node.tokens) for node in walk(root)]
    assert sorted(lengths) == [1, 1, 176, 512, 512]
    assert [sorted(node.requests) for node in walk(root)][:3] == [[0, 1]] * 3
