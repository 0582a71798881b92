"""The prefix tree holds every sequence exactly, and computes what is shared once."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from goldless.models.local_engine import Node, build_tree, computed_tokens

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


def test_a_long_stretch_is_cut_into_a_chain_that_all_its_requests_pass():
    shared = tuple(range(1200))
    node, chain = build_tree([(*shared, 1), (*shared, 2)], longest_node=512), []
    while len(node.children) == 1:
        (node,) = node.children
        chain.append((len(node.tokens), sorted(node.requests)))
    assert chain == [(512, [0, 1]), (512, [0, 1]), (176, [0, 1])]
    assert [len(child.tokens) for child in node.children] == [1, 1]
