"""Results of fine-tuning, as tables and as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from goldless.finetuning.held_out import HeldOutRow
from goldless.finetuning.training_folder import TrainingPlan
from goldless.models.canaries import CanaryReport
from goldless.models.interface import ModelIdentity
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.opening import Spending
from goldless.signature import Signature


def _columns(name: str, decimals: int, level: float) -> tuple[Column, ...]:
    interval = f"{level * 100:g}% interval"
    return (
        Column("metric", "asked as"),
        Column("term", "term"),
        Column("tasks", "tasks", "count"),
        Column("missing asked", "missing", "fraction"),
        Column(f"{name}_before", "before", "number", decimals=decimals),
        Column(f"{name}_after", "after", "number", decimals=decimals),
        Column(f"{name}_change", "change", "signed", decimals=decimals),
        Column(f"{name}_low {name}_high", interval, "signed interval", decimals=decimals, reason=f"{name}_note"),
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """What was used and what was left out."""

    tasks_trained: int
    tasks_held_out: int
    tasks_too_few: int
    """Tasks with fewer than three usable responses."""
    texts_missing: int
    """Responses without a recorded rewrite."""
    held_out_texts_seen: int
    """Held-out texts that also occur verbatim in training."""
    held_out_synopses_seen: int
    """Held-out tasks whose synopsis also occurs verbatim in training."""
    examples: int
    tokens: int
    """Predicted tokens of all examples."""
    left_out: Mapping[str, int]
    """Questions without an example, by reason."""


@dataclass(frozen=True, slots=True)
class Canaries:
    """Canary results of the base before training, and of the adapter afterwards."""

    base: CanaryReport | None
    """None: not tested, as requested."""
    adapter: CanaryReport | None
    """None: failed; it must not be used as a scorer."""
    refused: str | None
    """Why it failed."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The same in sentences."""
        untested = () if self.base else ("The base was not tested with canaries.",)
        if self.adapter is None:
            return (*untested, f"The adapter failed the canaries and must not be used as a scorer: {self.refused}")
        noise = f"{self.adapter.noise_nats:.1e} nats"
        return (*untested, f"With the adapter, sums differ between batches of this engine by up to {noise}.")


@dataclass(frozen=True, slots=True)
class Finetuned:
    """An adapter and what it changed."""

    study: str
    fingerprint: str
    plan: TrainingPlan
    scorer: ModelIdentity
    """The base with the adapter on it."""
    adapter: Path
    specification: str
    """The same as a scorer spec."""
    held_out_tasks: tuple[str, ...]
    counts: Counts
    steps: int
    resumed_at: int
    losses: tuple[tuple[int, float], ...]
    held_out: tuple[HeldOutRow, ...]
    level: float
    canaries: Canaries
    spending: tuple[Spending, ...] = ()

    @property
    def signature(self) -> str:
        """The signature of training and measurement."""
        plan, recipe = self.plan, self.plan.recipe
        settings = {
            # the plan does not say how the base scores, and the numbers are of that way
            "base": replace(plan.base, settings=self.scorer.settings).short,
            "template": plan.template.name,
            "texts": plan.texts,
            "synopsis": plan.synopsis or "none",
            "lora": f"r{recipe.rank},alpha{recipe.alpha},dropout{recipe.dropout:g}",
            "optimizer": f"{plan.optimizer},lr{recipe.learning_rate:g},{recipe.schedule},warmup{recipe.warmup_steps},"
            f"decay{recipe.weight_decay:g}",
            "batch": f"{recipe.batch_size}x{recipe.accumulation}",
            "epochs": str(recipe.epochs),
            "max-length": str(recipe.max_length),
            "seed": str(recipe.seed),
            "held-out": f"{self.counts.tasks_held_out} of {self.counts.tasks_trained + self.counts.tasks_held_out}",
        }
        return str(Signature("finetune", settings))

    def tables(self) -> list[ReportTable]:
        """The log-likelihood of held-out texts before and after, by token and by response."""
        rows = [_cells(row) for row in self.held_out]
        tokens = tuple(row for row in rows if row["term"] != "difference")
        columns = [_columns("token", 4, self.level), _columns("response", 2, self.level)]
        return [
            ReportTable("Held out: nats per token", columns[0], tokens, self.signature),
            ReportTable("Held out: nats per response", columns[1], tuple(rows), self.signature, self.canaries.notes),
        ]

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data; nothing in it depends on when or how fast it ran."""
        plain = to_jsonable_python(self, exclude={"plan", "scorer", "adapter", "resumed_at", "losses", "spending"})
        return {
            **plain,
            "signature": self.signature,
            "plan": self.plan.as_dict(),
            "scorer": self.scorer.as_dict(),
            "losses": [{"step": step, "nats_per_token": loss} for step, loss in self.losses],
        }


def _cells(row: HeldOutRow) -> dict[str, Cell]:
    cells = asdict(row)
    for name in ("token", "response"):
        change = cells.pop(f"per_{name}") or {}
        cells |= {f"{name}_{field}": value for field, value in change.items()}
    return cells
