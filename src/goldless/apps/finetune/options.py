"""Options of fine-tuning, with their bounds; the recipe's defaults are the paper's (GEM, appendix E.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from goldless.errors import UserError
from goldless.runs.option_forms import LEVEL, NAMES, REQUIRED, TEXT, OptionForm, option
from goldless.runs.options import METRICS, STATISTICS

OUTPUT = "Output"
SEED = OptionForm(int, must_be="from 0 to 4294967295, as numpy takes it", allows=lambda given: 0 <= given < 2**32)
RANK = OptionForm(int, must_be="from 1 to 4096", allows=lambda given: 1 <= given <= 4096)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings for training a LoRA adapter."""

    epochs: int = option(3, "Passes over all examples.", group="Training", at_least=1)
    rank: int = option(16, "Rank of the adapter (LoRA r).", form=RANK)
    alpha: int = option(16, "Scale of the adapter (LoRA alpha).", "--lora-alpha", at_least=1)
    dropout: float = 0.0
    learning_rate: float = option(2e-4, "Peak learning rate.", form=LEVEL)
    schedule: str = "linear"
    warmup_steps: int = 5
    batch_size: int = option(2, "Examples per batch.", at_least=1)
    accumulation: int = option(4, "Batches per step.", at_least=1)
    weight_decay: float = 0.01
    max_length: int = option(4096, "Maximum tokens of an example; longer ones are left out.", at_least=1)
    seed: int = option(42, "Seed for draws, training and resampling.", form=SEED)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The model to fine-tune, the texts to train on, and the folder to write to."""

    base: str = option(REQUIRED, "Model to train: hf:NAME_OR_PATH, or hf:NAME?weights=4bit.", "hf:NAME", group=METRICS)
    folder: Path = option(  # noqa: RUF009 - as for all options
        REQUIRED, "Write the adapter to this folder; the same command resumes there.", "--out FOLDER", group=OUTPUT
    )
    untested_base: bool = option(False, "Train even if the base model fails the tests of a scorer.", group=METRICS)
    template: str = option(
        "general", "Prompt wording to train for: general, plain, peer-review, or FILE.toml.", "NAME", form=TEXT
    )
    raw: bool = option(False, "Train on the responses themselves, not on rewrites.")
    rewriter: str | None = option(None, "Rewriter whose recorded rewrites are used, if there are several.", "NAME")
    synopsis: str | None = option(
        None, "Synopsis to train with, for gem-s (default: the abstract, if tasks have one).", "NAME"
    )
    agents: Sequence[str] = option(
        (), "Comma-separated agents whose responses are trained on (default: all).", "AGENTS", form=NAMES
    )
    held_out: float = option(0.1, "Share of tasks kept for testing.", "SHARE", group=STATISTICS, form=LEVEL)


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions(Recipe, Chosen):
    """Options of ``finetune``."""

    save_every: int = option(50, "Steps between checkpoints.", "STEPS", group=OUTPUT, at_least=1)

    @property
    def recipe(self) -> Recipe:
        return Recipe(**{one.name: getattr(self, one.name) for one in fields(Recipe)})

    def check(self) -> None:
        if not self.base.startswith("hf:") or self.base == "hf:":
            raise UserError(
                f"--base must be hf:NAME, because only weights on this machine can be trained; got {self.base}"
            )
        if self.raw and self.rewriter is not None:
            raise UserError(
                "--raw and --rewriter exclude each other: train either on the original responses or on rewrites"
            )
