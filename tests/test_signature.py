"""A signature is one line of everything that made a number."""

from __future__ import annotations

from goldless import __version__
from goldless.signature import Signature


def test_it_is_the_metric_its_settings_in_order_and_the_version():
    signature = Signature("gem-raw", {"scorer": "embedded:x@1", "seed": "0"})
    assert str(signature) == f"gem-raw|scorer:embedded:x@1|seed:0|goldless:{__version__}"


def test_another_setting_is_another_line():
    assert str(Signature("gem", {"seed": "0"})) != str(Signature("gem", {"seed": "1"}))
