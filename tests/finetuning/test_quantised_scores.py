"""The comparison of scores under quantised weights; expected numbers are worked out by hand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "quantised_scores.py"
pytestmark = pytest.mark.skipif(not BENCHMARK.exists(), reason="installed without the benchmarks")


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    specification = importlib.util.spec_from_file_location("quantised_scores", BENCHMARK)
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "quantised_scores", module)
    specification.loader.exec_module(module)
    return lambda one, other: module.compare(*(module.Scored(with_marginals(pmi)) for pmi in (one, other)))


def with_marginals(pmi):
    """Log-probabilities with this information: marginals of 0."""
    return {**pmi, **{(task, None, peer): 0.0 for task, _, peer in pmi}}


OWN = {("t", "a", "b"): 4.0, ("t", "b", "a"): 2.0, ("u", "a", "c"): 2.0, ("u", "c", "a"): 0.0}


def test_changes_are_of_pairs_and_ranks_are_of_agents(compare):
    # means: a 3, b 2, c 0; then a 2.5, b 3, c 1
    found = compare(OWN, {("t", "a", "b"): 4.0, ("t", "b", "a"): 3.0, ("u", "a", "c"): 1.0, ("u", "c", "a"): 1.0})
    assert found.pairs == 4
    assert found.mean_change == pytest.approx((0 + 1 - 1 + 1) / 4)
    assert found.mean_size == pytest.approx(3 / 4)
    assert found.largest == 1.0
    # population sd of (0, 1, -1, 1) is sqrt(11/16), of (4, 2, 2, 0) sqrt(2)
    assert found.share_of_spread == pytest.approx((11 / 16 / 2) ** 0.5)
    # deviations (2, 0, 0, -2) and (1.75, 0.75, -1.25, -1.25): 6 / sqrt(8 * 6.75)
    assert found.pearson == pytest.approx(6 / (8 * 6.75) ** 0.5)
    assert found.tau_agents == pytest.approx(1 / 3)
    assert (found.agents_moved, found.furthest) == (2, 1)


def test_the_same_scores_move_nobody(compare):
    found = compare(OWN, OWN)
    assert (found.mean_size, found.agents_moved, found.furthest, found.tau_agents) == (0.0, 0, 0, pytest.approx(1))
    assert found.pearson == pytest.approx(1)
