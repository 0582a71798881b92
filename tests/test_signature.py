"""A signature is one line of everything that made a number."""

from __future__ import annotations

from goldless.signature import Signature


def test_a_line_is_read_part_by_part_and_written_as_it_was():
    line = "m|scorer:a:b|level:0.9|goldless:0.1.0"
    found = Signature.parse(line)
    assert found.parts == {"metric": "m", "scorer": "a:b", "level": "0.9", "goldless": "0.1.0"}
    assert str(found) == line
    assert Signature.parse("").parts == {}
