"""The line on what a model's calls cost."""

from __future__ import annotations

import pytest

from goldless.cli.output import tell_spending
from goldless.models.interface import Usage
from goldless.runs.opening import Spending


@pytest.mark.parametrize(("calls", "said"), [(0, "0 calls now"), (1, "1 call now"), (2, "2 calls now")])
def test_one_call_is_a_call(calls, said, capsys):
    tell_spending([Spending("http:toy", calls, 48, Usage(8, 1), None)])
    assert capsys.readouterr().err == f"http:toy: {said} (9 tokens, price unknown), 48 from the journal\n"
