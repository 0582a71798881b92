"""The benchmark of the size effect within families, against a regression with dummies and by hand."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from goldless.apps.gre.boards import read_board

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "size_effect.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="installed without the benchmarks")


@pytest.fixture(scope="module")
def effect():
    return runpy.run_path(str(SCRIPT), run_name="benchmark")


def regression(rows):
    """Slope of score on log10 size with a dummy for each family, by numpy's least squares."""
    families = sorted({family for family, _, _ in rows})
    design = [[np.log10(size), *(float(family == one) for one in families)] for family, size, _ in rows]
    return np.linalg.lstsq(np.array(design), np.array([score for *_, score in rows]), rcond=None)[0][0]


@pytest.mark.parametrize("source", ["published:70b", "published:8b"])
def test_in_the_papers_tables_the_larger_of_a_family_always_scores_higher(effect, source):
    """Counted in Tables 6 and 7: GPT-4o, Llama 3, Llama 3.1 and Mixtral 1 pair each, Claude 3 and Mistral 3 each.

    Variance of the jackknife: (g - 1) / g times the sum of squares of the slopes without a family around their mean.
    """
    board = read_board(source)
    for metric in board.metrics:
        found, scores = effect["families"](board, metric), board.models(metric)
        assert list(found) == ["Claude 3", "GPT-4o", "Llama 3", "Llama 3.1", "Mistral", "Mixtral"]
        assert effect["pairs"](found) == (10, 10)
        rows = [(a.family, a.parameters, scores[a.agent]) for a in board.agents if a.family in found]
        slope = effect["estimate"](found)
        without = np.array([regression([row for row in rows if row[0] != family]) for family in found])
        error = np.sqrt(5 / 6 * ((without - without.mean()) ** 2).sum())
        reach = stats.t.ppf(0.975, 5) * error
        middle = regression(rows)
        assert (slope.value, slope.low, slope.high) == pytest.approx((middle, middle - reach, middle + reach))
        assert slope.low > 0
