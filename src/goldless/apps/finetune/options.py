"""Options of fine-tuning: the recipe and the data, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from goldless.errors import UserError

Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How a LoRA adapter is trained; the defaults are the paper's (GEM, appendix E.1)."""

    rank: Annotated[int, Field(ge=1, le=4096)] = 16
    alpha: Count = 16
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    learning_rate: Annotated[float, Field(gt=0, lt=1)] = 2e-4
    schedule: Literal["linear"] = "linear"
    epochs: Count = 3
    warmup_steps: Annotated[int, Field(ge=0)] = 5
    batch_size: Count = 2
    """Examples per batch."""
    accumulation: Count = 4
    """Batches per step."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    max_length: Count = 4096
    """Maximum tokens of an example; longer ones are left out and counted, never cut."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 42
    """In 32 bits, for numpy, which the training seeds too."""


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
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of tasks that are never trained on."""
    recipe: Recipe = field(default_factory=Recipe)
    check_base: bool = True
    """Reject a base that fails the canaries; False: do not test it, which the result records."""
    save_every: Count = 50
    """Steps between checkpoints."""
    resamples: Annotated[int, Field(ge=100)] = 10_000
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    journal: Path | None = None
    progress: Callable[[Any], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)

    def tell(self, stage: str, total: int, tokens: Callable[[], int] = lambda: 0) -> Callable[[int], None]:
        """A function that reports the progress of a stage."""
        from goldless.runs.progress import Progress  # noqa: PLC0415 - a help needs no frames

        return lambda done: self.progress(Progress(stage, done, total, tokens(), 0.0))


def check_finetune_options(options: FinetuneOptions) -> None:
    """Reject invalid options."""
    if not options.base.startswith("hf:") or options.base == "hf:":
        raise UserError(
            f"--base must be hf:NAME, because only weights on this machine can be trained; got {options.base}"
        )
    given = {each.name: getattr(options, each.name) for each in fields(options)}
    try:
        TypeAdapter(FinetuneOptions).validate_python({**given, "recipe": asdict(options.recipe)})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][-1]).replace("_", " ")
        must = first["msg"].removeprefix("Input should ").replace("greater than or equal to", "at least")
        raise UserError(f"{name} must {must}, got {first['input']}") from error
    if options.raw and options.rewriter is not None:
        raise UserError(
            "--raw and --rewriter exclude each other: train either on the original responses or on rewrites"
        )
