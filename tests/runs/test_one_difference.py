"""One difference: table, heat map, comparisons, ``compare`` and ``gate`` say the same of random studies with holes."""

from __future__ import annotations

import itertools
import re

import numpy as np
import polars as pl
import pytest

import goldless
from goldless.reports.document import write
from goldless.reports.html.page import write_report
from goldless.runs.store import save_run

AGENTS = ("ann", "bob", "cy", "dan", "eve")
METRICS = ("tvd-mi[given]", "tvd-mi")


def random_study(folder, seed, *, missing):
    """Recorded contrasts with effects of agents, peers and tasks; pairs and whole responses are missing."""
    draw = np.random.default_rng(seed)
    level = {agent: draw.uniform(-0.3, 0.3, size=2) for agent in AGENTS}
    answered = {f"t{t}": [a for a in AGENTS if draw.random() > missing] for t in range(12)}
    rows = [
        {"task": t, "first": a, "second": b, "contrast": float(np.clip(level[a][0] + level[b][1] + noise, -1, 1))}
        for t, there in answered.items()
        for a, b in itertools.permutations(there, 2)
        if draw.random() > missing
        for noise in [draw.normal(0, 0.15)]
    ]
    folder.mkdir()
    texts = [
        {"task": t, "agent": a, "text": f"{a} on {t} says {draw.integers(1e9)}"}
        for t, on in answered.items()
        for a in on
    ]
    pl.DataFrame(texts).write_csv(folder / "responses.csv")
    pl.DataFrame({"task": list(answered), "prompt": [f"Question {t}?" for t in answered]}).write_csv(
        folder / "tasks.csv"
    )
    pl.DataFrame(rows).write_parquet(folder / "critic_contrasts.parquet")
    return folder


EVERY_DAY = {(1, "common"), (2, "own")}


@pytest.mark.parametrize(
    ("seed", "missing", "over"),
    [
        pytest.param(seed, missing, over, marks=[pytest.mark.nightly] * ((seed, over) not in EVERY_DAY))
        for seed, missing in ((0, 0.0), (1, 0.15), (2, 0.3), (3, 0.3))
        for over in ("common", "own")
    ],
)
def test_every_difference_is_that_of_the_scores(tmp_path, seed, missing, over):
    study = random_study(tmp_path / "study", seed, missing=missing)
    found = goldless.evaluate(study, metrics=METRICS, recorded=True, over_peers=over, resamples=200)
    save_run(found, tmp_path / "run")
    html = write_report(tmp_path / "run").read_text(encoding="utf-8")
    for metric in METRICS:
        board = write(found)["metrics"][metric]
        scores = {row["agent"]: row["estimate"]["value"] for row in board["rows"]}
        assert f"|over:{over}-peers|" in board["signature"]
        for one in board["comparisons"]:
            apart = scores[one["first"]] - scores[one["second"]]
            assert one["difference"] == pytest.approx(apart, abs=1e-9)
            told = goldless.compare(
                tmp_path / "run", agents=(one["first"], one["second"]), metrics=metric, resamples=200
            ).metric(metric)
            assert (told.first, told.second) == pytest.approx((scores[one["first"]], scores[one["second"]]))
            assert told.difference.value == pytest.approx(-apart)
            assert told.difference.n == one["n"]
            cells = re.findall(rf"<title>{one['first']} minus {one['second']}: ([+−-]?[0-9.]+)", html)
            assert any(abs(float(cell.replace("−", "-")) - apart) < 0.0051 for cell in cells), (cells, apart)
        gated = goldless.gate(
            tmp_path / "run",
            baseline="ann",
            candidate="bob",
            metric=metric,
            margin=0.5,
            uncertified=True,
            resamples=200,
        )
        assert gated.comparison.metric(metric).difference.value == pytest.approx(scores["bob"] - scores["ann"])
