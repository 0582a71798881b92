"""What all models on this machine share, whatever computes for them."""

from __future__ import annotations

import numpy as np

from goldless.models.local_model import _rounded


def test_values_are_rounded_as_python_rounds_them_digit_for_digit():
    chance = np.random.default_rng(0)
    halves = (np.arange(2000) + 0.5) / 1e6
    sizes = [chance.exponential(scale, 20_000) for scale in (1e-5, 1e-2, 2.0, 300.0)]
    values = -np.concatenate([[0.0], halves, *sizes]).astype(np.float32)
    assert list(map(str, _rounded(values))) == [str(round(float(value), 6)) for value in values]
