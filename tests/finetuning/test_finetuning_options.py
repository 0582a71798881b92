"""The default recipe is the paper's, and what no training could use is refused before anything is loaded."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from goldless.apps.finetune.options import FinetuneOptions, Recipe, check_finetune_options
from goldless.errors import UserError


def test_the_default_recipe_is_that_of_the_papers_appendix():
    # GEM, appendix E.1, the listing of settings
    assert asdict(Recipe()) == {
        "rank": 16,
        "alpha": 16,
        "dropout": 0.0,
        "learning_rate": 2e-4,
        "schedule": "linear",
        "epochs": 3,
        "warmup_steps": 5,
        "batch_size": 2,
        "accumulation": 4,
        "weight_decay": 0.01,
        "max_length": 4096,
        "seed": 42,
    }


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"base": "embedded"}, "only weights on this machine.*got embedded"),
        ({"base": "hf:"}, "--base must be hf:NAME"),
        ({"held_out": 0}, "held out must be greater than 0, got 0"),
        ({"held_out": 1.0}, "held out must be less than 1, got 1.0"),
        ({"raw": True, "rewriter": "gpt"}, "exclude each other"),
        ({"recipe": Recipe(epochs=0)}, "epochs must be at least 1, got 0"),
        ({"recipe": Recipe(max_length=-1)}, "max length"),
        ({"recipe": Recipe(learning_rate=0)}, "learning rate"),
        ({"recipe": Recipe(seed=-1)}, "seed must be at least 0, got -1"),
        # numpy.random.seed takes 32 bits
        ({"recipe": Recipe(seed=2**32)}, "seed must be less than 4294967296, got 4294967296"),
        ({"recipe": Recipe(warmup_steps=-1)}, "warmup steps must be at least 0"),
        ({"save_every": 0}, "save every"),
        ({"resamples": 10}, "resamples must be at least 100"),
    ],
)
def test_bad_options_are_refused_with_what_is_allowed(changed, message):
    with pytest.raises(UserError, match=message):
        check_finetune_options(FinetuneOptions(**{"base": "hf:x", "out": Path("out"), **changed}))
