"""Labels stand on no other label, on no point, and within the edges."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from goldless.reports.html.charts.label_places import label_places

WITHIN = (0.0, 0.0, 400.0, 300.0)


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("seed", range(3))
def test_no_label_covers_another_or_a_point_or_leaves_the_edges(seed):
    random = np.random.default_rng(seed)
    points = [(x, y) for x, y in random.uniform(20, 280, (25, 2)).tolist()]
    names = [f"model-{place}" for place in range(25)]
    places = [place for place in label_places(points, names, lines=[], within=WITHIN) if place is not None]
    assert places
    for one, other in itertools.combinations(places, 2):
        assert not overlap(one.box, other.box)
    for place in places:
        assert not any(overlap(place.box, (x - 6, y - 6, x + 6, y + 6)) for x, y in points)
        assert place.box[0] >= 0
        assert place.box[1] >= 0
        assert place.box[2] <= 400
        assert place.box[3] <= 300


def test_where_there_is_no_room_there_is_no_label():
    points = [(20 + i * 0.1, 20) for i in range(40)]
    places = label_places(points, ["a very long name of a model"] * 40, lines=[], within=(0.0, 0.0, 200.0, 60.0))
    assert None in places
    assert label_places([], [], lines=[], within=WITHIN) == []
