"""What is written after --on."""

from __future__ import annotations

import sys

import pytest

from goldless.apps.fleet.cluster import RayPlace, connect, parse_place, room
from goldless.errors import PrerequisiteError, UserError


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("ray", RayPlace()),
        ("ray?workers=4", RayPlace(workers=4)),
        ("ray://head:10001?gpus=0.5&cpus=2", RayPlace(address="ray://head:10001", gpus=0.5, cpus=2)),
        ("ray?timeout=90", RayPlace(timeout=90)),
    ],
)
def test_a_place_is_an_address_and_the_shape_of_its_workers(written, place):
    assert parse_place(written) == place


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("spark", "--on must be ray"),
        ("ray:4", "--on must be ray"),
        ("ray://head", "--on must be ray"),
        ("ray://:10001", "--on must be ray"),
        ("head:6379", "--on must be ray"),
        ("ray?workers=0", "workers in --on must be a whole number of at least 1, got '0'"),
        ("ray?workers=2.5", "workers in --on must be a whole number"),
        ("ray?gpus=many", "gpus in --on must be a number of at least 0, got 'many'"),
        ("ray?timeout=inf", "timeout in --on must be"),
        ("ray?worker=4", "unknown option 'worker'.*Did you mean 'workers'"),
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(written, said):
    with pytest.raises(UserError, match=said):
        parse_place(written)


def test_the_command_line_refuses_a_wrong_place_before_anything_is_read(goldless):
    ended = goldless("score", "nowhere", "--on", "spark")
    assert ended.code == 2
    assert "--on must be ray" in ended.err


def test_without_ray_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'goldless\[ray\]'"):
        connect(RayPlace())


def node(*, alive: bool = True, **resources: float) -> dict[str, object]:
    return {"Alive": alive, "Resources": resources}


@pytest.mark.parametrize(
    ("nodes", "place", "shape"),
    [
        ([node(CPU=16)], RayPlace(), (4, 0, 4)),
        ([node(CPU=2)], RayPlace(), (2, 0, 1)),
        ([node(CPU=16)], RayPlace(workers=2), (8, 0, 4 // 2)),
        ([node(CPU=2), node(CPU=8, GPU=2), node(CPU=8, GPU=4)], RayPlace(), (1, 1, 6)),
        ([node(CPU=8, GPU=2), node(CPU=8, GPU=2, alive=False)], RayPlace(), (1, 1, 2)),
        ([node(CPU=8, GPU=2)], RayPlace(gpus=0, cpus=3), (3, 0, 2)),
        ([node(CPU=2, GPU=4)], RayPlace(), (1, 1, 2)),
        ([node(CPU=8, GPU=1)], RayPlace(gpus=0.25), (1, 0.25, 4)),
        ([node(CPU=8)], RayPlace(gpus=1), (1, 1, 0)),
        ([], RayPlace(), (1, 0, 0)),
    ],
)
def test_room_is_counted_machine_by_machine(nodes, place, shape):
    found = room(nodes, place)
    assert (found.cpus, found.gpus, found.workers) == shape
