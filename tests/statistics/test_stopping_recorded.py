"""The benchmark of stopping on a recorded critic: the shares that its documentation claims, from a few orders."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = [
    pytest.mark.recorded,
    pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="installed without the benchmarks"),
]


def test_questions_need_part_of_the_tasks_and_a_ranking_needs_all(recorded, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    benchmark = runpy.run_path(str(BENCHMARKS / "stopping.py"), run_name="benchmark")
    values = benchmark["read_contrasts"](recorded / "samsum_peer_prediction")
    (wrong, peeking), rows = benchmark["measure"](values, 4)
    assert float(wrong) <= 0.05
    assert float(peeking) > 0.25
    baseline, best, top, ranking = (float(row[1]) for row in rows)
    # with 40 orders 0.29, 0.13, 0.36 and 0.97
    assert (baseline < 0.33, best < 0.25, top < 0.45, ranking > 0.9) == (True,) * 4
    assert all(row[3] == "0.0000" for row in rows)
