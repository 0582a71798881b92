"""Options of fine-tuning: the recipe and the data, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from goldless.errors import UserError
from goldless.runs.progress import Progress

LARGEST_SEED = 2**32 - 1
"""numpy's, which the training seeds too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How a LoRA adapter is trained; the defaults are the paper's (GEM, appendix E.1)."""

    rank: int = 16
    alpha: int = 16
    dropout: float = 0.0
    learning_rate: float = 2e-4
    schedule: Literal["linear"] = "linear"
    epochs: int = 3
    warmup_steps: int = 5
    batch_size: int = 2
    """Examples per batch."""
    accumulation: int = 4
    """Batches per step."""
    weight_decay: float = 0.01
    max_length: int = 4096
    """Maximum tokens of an example; longer ones are left out and counted, never cut."""
    seed: int = 42


@dataclass(frozen=True, kw_only=True, slots=True)
class FinetuneOptions:
    """What to fine-tune, on what, and where to write it."""

    base: str
    """``hf:NAME_OR_PATH``, with ``?weights=4bit`` to train on 4-bit weights."""
    out: Path
    """Folder of the adapter, of checkpoints during training, and of the result."""
    template: str = "general"
    """The template that the adapter will score with."""
    raw: bool = False
    """Train on the original responses instead of recorded rewrites."""
    rewriter: str | None = None
    """Which rewriter's recorded rewrites, if there are several."""
    synopsis: str | None = None
    """The synopsis of GEM-S; None: the abstract, if the study has one."""
    agents: Sequence[str] | None = None
    """Agents whose responses are used; None: all."""
    held_out: float = 0.1
    """Share of tasks that are never trained on."""
    recipe: Recipe = field(default_factory=Recipe)
    check_base: bool = True
    """Reject a base that fails the canaries; False: do not test it, which the result records."""
    save_every: int = 50
    """Steps between checkpoints."""
    resamples: int = 10_000
    level: float = 0.95
    journal: Path | None = None
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)

    def tell(self, stage: str, total: int, tokens: Callable[[], int] = lambda: 0) -> Callable[[int], None]:
        """A function that reports the progress of a stage."""
        return lambda done: self.progress(Progress(stage, done, total, tokens(), 0.0))


def check_finetune_options(options: FinetuneOptions) -> None:
    """Reject invalid options."""
    if not options.base.startswith("hf:") or options.base == "hf:":
        raise UserError(
            f"--base must be hf:NAME, because only weights on this machine can be trained; got {options.base}"
        )
    if not 0 < options.held_out < 1:
        raise UserError(f"the share of held-out tasks must be between 0 and 1, got {options.held_out:g}. Try 0.1")
    if options.raw and options.rewriter is not None:
        raise UserError(
            "--raw and --rewriter exclude each other: train either on the original responses or on rewrites"
        )
    _check_whole(save_every=options.save_every)
    _check_recipe(options.recipe)
    if options.resamples < 100 or not 0 < options.level < 1:
        raise UserError(
            f"resamples must be at least 100 and level between 0 and 1, got {options.resamples} and {options.level:g}"
        )


def _check_recipe(recipe: Recipe) -> None:
    whole = ("rank", "alpha", "epochs", "batch_size", "accumulation", "max_length")
    _check_whole(**{name: getattr(recipe, name) for name in whole})
    if not 0 < recipe.learning_rate < 1:
        raise UserError(f"the learning rate must be between 0 and 1, got {recipe.learning_rate:g}. Try 2e-4")
    if not 0 <= recipe.dropout < 1:
        raise UserError(f"dropout must be at least 0 and below 1, got {recipe.dropout:g}")
    if recipe.warmup_steps < 0 or recipe.weight_decay < 0:
        raise UserError("warm-up steps and weight decay must not be negative")
    if not 0 <= recipe.seed <= LARGEST_SEED:
        raise UserError(f"seed must be between 0 and {LARGEST_SEED}, got {recipe.seed}")


def _check_whole(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise UserError(f"{name.replace('_', ' ')} must be at least 1, got {value}")
