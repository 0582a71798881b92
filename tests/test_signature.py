"""A signature is one line of everything that made a number."""

from __future__ import annotations

from goldless import __version__
from goldless.signature import Signature


def test_it_is_the_metric_its_settings_in_order_and_the_version():
    signature = Signature("gem-raw", {"scorer": "embedded:x@1", "seed": "0"})
    assert str(signature) == f"gem-raw|scorer:embedded:x@1|seed:0|goldless:{__version__}"


def test_another_setting_is_another_line():
    assert str(Signature("gem", {"seed": "0"})) != str(Signature("gem", {"seed": "1"}))


def test_a_line_is_read_part_by_part_and_written_as_it_was():
    line = "m|scorer:a:b|level:0.9|goldless:0.1.0"
    found = Signature.parse(line)
    assert found.parts == {"metric": "m", "scorer": "a:b", "level": "0.9", "goldless": "0.1.0"}
    assert str(found) == line
    assert Signature.parse("").parts == {}
