"""The default recipe is the paper's, and what no training could use is refused before anything is loaded."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import anyio
import pytest

from goldless.apps.finetune.options import FinetuneOptions, Recipe
from goldless.apps.finetune.pipeline import finetune_study
from goldless.errors import UserError
from goldless.runs.options import Options
from goldless.studies import sample_study


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
        ({"base": "hf:"}, "--base must be hf:NAME"),
        ({"held_out": 0}, "held_out must be a number between 0 and 1, got 0"),
        ({"raw": True, "rewriter": "gpt"}, "exclude each other"),
        ({"max_length": -1}, "max_length"),
        ({"learning_rate": 0}, "learning_rate"),
        # numpy.random.seed takes 32 bits
        ({"seed": -1}, "seed must be from 0 to 4294967295, as numpy takes it, got -1"),
        ({"save_every": 0}, "save_every"),
    ],
)
def test_bad_options_are_refused_with_what_is_allowed(changed, message):
    given = FinetuneOptions(**{"base": "hf:x", "folder": Path("out"), **changed})
    with pytest.raises(UserError, match=message):
        anyio.run(finetune_study, sample_study(), given, Options())
