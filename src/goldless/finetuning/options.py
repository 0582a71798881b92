"""How to fine-tune: the recipe of the training and what it is given, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from goldless.errors import UserError
from goldless.runs.options import Progress

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
    """Examples computed at once."""
    accumulation: int = 4
    """Batches whose gradients make one step."""
    weight_decay: float = 0.01
    max_length: int = 4096
    """Most tokens of an example; a longer one is left out and counted, never cut."""
    seed: int = 42


@dataclass(frozen=True, kw_only=True, slots=True)
class FinetuneOptions:
    """What is fine-tuned, on what, and where it goes."""

    base: str
    """``hf:NAME_OR_PATH``, with ``?weights=4bit`` where it is to be trained so."""
    out: Path
    """Folder of the adapter, of checkpoints while it is trained, and of the result."""
    template: str = "general"
    """The wording the adapter will score with."""
    raw: bool = False
    """Train on the responses as they are instead of on recorded rewrites."""
    rewriter: str | None = None
    """Whose recorded rewrites, where the study carries several."""
    synopsis: str | None = None
    """The synopsis of GEM-S; None: the abstract, where the study has one."""
    agents: Sequence[str] | None = None
    """Agents whose responses are used; None: all."""
    held_out: float = 0.1
    """Share of tasks that are never trained on."""
    recipe: Recipe = field(default_factory=Recipe)
    check_base: bool = True
    """Refuse a base that the canaries refuse as a scorer; False: it is not asked, which the result says."""
    save_every: int = 50
    """Steps from one checkpoint to the next."""
    resamples: int = 10_000
    level: float = 0.95
    journal: Path | None = None
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)

    def tell(self, stage: str, total: int, tokens: Callable[[], int] = lambda: 0) -> Callable[[int], None]:
        """What passes on how much of a stage is done."""
        return lambda done: self.progress(Progress(stage, done, total, tokens(), 0.0))


def check_finetune_options(options: FinetuneOptions) -> None:
    """Refuse what no model could be fine-tuned with."""
    if not options.base.startswith("hf:") or options.base == "hf:":
        raise UserError(f"{options.base}: only weights on this machine can be trained; name the base as hf:NAME")
    if not 0 < options.held_out < 1:
        raise UserError(f"the share of held-out tasks lies between 0 and 1, such as 0.1, not at {options.held_out:g}")
    if options.raw and options.rewriter is not None:
        raise UserError("train on the responses as they are or on a rewriter's rewrites of them, not both")
    _check_whole(save_every=options.save_every)
    _check_recipe(options.recipe)
    if options.resamples < 100 or not 0 < options.level < 1:
        raise UserError(
            f"an interval needs at least 100 resamples and a level between 0 and 1, not {options.resamples} and "
            f"{options.level:g}"
        )


def _check_recipe(recipe: Recipe) -> None:
    whole = ("rank", "alpha", "epochs", "batch_size", "accumulation", "max_length")
    _check_whole(**{name: getattr(recipe, name) for name in whole})
    if not 0 < recipe.learning_rate < 1:
        raise UserError(f"a learning rate lies between 0 and 1, such as 2e-4, not at {recipe.learning_rate:g}")
    if not 0 <= recipe.dropout < 1:
        raise UserError(f"a dropout lies from 0 up to 1, not at {recipe.dropout:g}")
    if recipe.warmup_steps < 0 or recipe.weight_decay < 0:
        raise UserError("warm-up steps and weight decay are not negative")
    if not 0 <= recipe.seed <= LARGEST_SEED:
        raise UserError(f"a seed lies from 0 to {LARGEST_SEED}, not at {recipe.seed}")


def _check_whole(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise UserError(f"{name.replace('_', ' ')}: a whole number from 1 on is needed, not {value}")
