"""What the benchmark of packed scoring compares is taken from all papers alike, and counted where it is printed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs the transformers extra: pip install 'goldless[transformers]'")
torch = pytest.importorskip("torch", reason="needs the transformers extra")

from goldless.models.local_weights import packed  # noqa: E402

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "scoring_gpu.py"
pytestmark = [
    pytest.mark.transformers,
    pytest.mark.skipif(not BENCHMARK.exists(), reason="installed without the benchmarks"),
]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    # it imports its neighbour
    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    specification = importlib.util.spec_from_file_location("scoring_gpu", BENCHMARK)
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "scoring_gpu", module)
    specification.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:.*there is no rewriter")
def test_the_whole_is_measured_beside_the_kernel_on_the_same_requests(benchmark, monkeypatch, capsys):
    from scoring_end_to_end import main  # noqa: PLC0415 - a neighbour of the benchmark

    monkeypatch.setattr(packed, "plan_packs", packed.plan_packs)  # the benchmark times it in its place
    assert main(["--stand-in", "2000000", "--tasks", "3", "--agents", "3", "--repeats", "1", "--length", "2048"]) == 0
    printed = capsys.readouterr().out
    # three agents: six pairs and three marginals a task
    assert "3 tasks x 3 agents, gem-s[prompt]: 27 requests" in printed
    whole, kernel, ratio = (float(printed.splitlines()[-1].split("|")[place]) for place in (2, 4, 6))
    # seconds are printed with two decimals, the ratio with three
    assert (kernel - 0.005) / (whole + 0.005) - 0.0005 <= ratio <= (kernel + 0.005) / (whole - 0.005) + 0.0005
