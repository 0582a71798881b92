"""Results of fine-tuning: how well a model predicts the held-out tasks before and after, by the code that scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, Unpack

import polars as pl

from goldless.apps.finetune.material import ExampleSet, TaskTexts, TrainingMaterial
from goldless.apps.finetune.options import Recipe
from goldless.grouped import sum_in_order
from goldless.models.canaries import CanaryReport
from goldless.models.interface import ModelIdentity
from goldless.reports.document import InMemory, Result, cells, written_property
from goldless.reports.report_table import Column, ReportTable
from goldless.scoring import ScoringJob, ScoringStage, score_by_task
from goldless.signature import Signature
from goldless.statistics.bootstrap import Draws, Estimate, task_intervals

TRAINING_FILE, RESULT_FILE = "training.json", "finetune.json"
ADAPTER, CHECKPOINTS = "adapter", "checkpoints"
"""Names of the folders of the adapter and of the trainer's checkpoints."""
Term = Literal["conditional", "marginal", "difference"]
KEY = ("synopsis", "task", "target", "given")
"""Columns that identify a question."""


@dataclass(frozen=True)
class TrainingPlan:
    """The base model, its training texts, and the way it is trained."""

    base: ModelIdentity
    """Only with the settings that affect training."""
    template: Mapping[str, str]
    """Its name and all its wordings."""
    texts: str
    """Whose rewrites, or ``responses``."""
    synopsis: str | None
    recipe: Recipe
    optimizer: str
    """By transformers' name."""
    examples: str
    """Hash of all token ids that are trained on, in order."""
    held_out: str
    """Hash of the held-out tasks and their texts."""


@dataclass(frozen=True)
class Training:
    """The result of a training."""

    steps: int
    losses: tuple[tuple[int, float], ...]
    """Each step, and its mean of -log p per predicted token, in nats."""
    resumed_at: InMemory[int] = 0
    """The step of the checkpoint it was resumed from; 0: it started from scratch."""


# --- the held-out tasks ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A mean over tasks before and after, and the change."""

    before: float | None
    after: float | None
    change: Estimate


@dataclass(frozen=True)
class HeldOutRow:
    """The log-likelihood of held-out texts in one way of asking, in nats; higher is better predicted."""

    metric: Literal["gem", "gem-s"]
    term: Term
    """``conditional``: given another response; ``marginal``: given none; ``difference``: what the first adds."""
    tasks: int
    asked: int
    """Texts to predict, each once per response given."""
    missing: int
    tokens: int
    """Tokens of those predicted both before and after."""
    per_token: Change | None
    """Nats per token of a task. None for a difference."""
    per_response: Change
    """Nats per predicted text of a task."""


async def held_out_evidence(
    tasks: Sequence[TaskTexts], stages: Sequence[ScoringStage], *, done: Callable[[int], None] = lambda _: None
) -> pl.DataFrame:
    """The log-probabilities of every marginal and pair of the held-out tasks; ``done`` gets the count so far."""
    jobs = [[ScoringJob(stage, each.task, each.texts, each.questions) for stage in stages] for each in tasks]
    return await score_by_task(jobs, done)


def compare_held_out(before: pl.DataFrame, after: pl.DataFrame, **draws: Unpack[Draws]) -> tuple[HeldOutRow, ...]:
    """Changes by the training, row by row. A text that either model could not predict is missing in both."""
    both = before.select(*KEY, pl.col("tokens").fill_null(0), before="sum_logprob_nats").join(
        after.select(*KEY, after="sum_logprob_nats"), on=KEY, how="left", nulls_equal=True, maintain_order="left"
    )
    rows: list[HeldOutRow] = []
    for asked in both.partition_by("synopsis", maintain_order=True):
        marginal, conditional = asked.filter(pl.col("given").is_null()), asked.filter(pl.col("given").is_not_null())
        # what a given response adds to the log-likelihood of another: the mean pointwise mutual information
        alone = marginal.select("task", "target", alone_before="before", alone_after="after")
        paired = conditional.join(alone, on=["task", "target"], how="left", maintain_order="left")
        added = paired.with_columns(pl.col(name) - pl.col(f"alone_{name}") for name in ("before", "after"))
        terms: dict[Term, pl.DataFrame] = {"conditional": conditional, "marginal": marginal, "difference": added}
        for term, wanted in terms.items():
            used = wanted.drop_nulls(("before", "after"))
            rows.append(
                HeldOutRow(
                    metric="gem" if asked["synopsis"][0] is None else "gem-s",
                    term=term,
                    tasks=used["task"].n_unique(),
                    asked=len(wanted),
                    missing=len(wanted) - len(used),
                    tokens=int(used["tokens"].sum()),
                    per_token=None if term == "difference" else _change(used, pl.col("tokens").sum(), draws),
                    per_response=_change(used, pl.len(), draws),
                )
            )
    return tuple(rows)


def _change(used: pl.DataFrame, size: pl.Expr, draws: Draws) -> Change:
    """The means over tasks of their sums divided by ``size``."""
    if not len(used):
        return Change(None, None, Estimate(note="no task could be scored"))
    shares = [sum_in_order(pl.col(name)) / size for name in ("before", "after")]
    table = used.group_by("task", maintain_order=True).agg(shares).drop("task").to_numpy()
    (interval,) = task_intervals(table[:, 1:] - table[:, :1], **draws)
    first, second = (float(mean) for mean in table.mean(axis=0))
    return Change(first, second, interval)


# --- the whole result ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counts:
    """Numbers of tasks, texts and examples that were used or left out."""

    tasks_trained: int
    tasks_held_out: int
    tasks_too_few: int
    """Tasks with fewer than three usable responses."""
    texts_missing: int
    """Responses without a recorded rewrite."""
    held_out_texts_seen: int
    """Held-out texts that also occur verbatim in training, for example if an agent repeats itself."""
    held_out_synopses_seen: int
    """Held-out tasks whose synopsis also occurs verbatim in training, for example if a task is there twice."""
    examples: int
    tokens: int
    """Predicted tokens of all examples."""
    left_out: Mapping[str, int]
    """Questions without an example, by reason."""

    @classmethod
    def of(cls, material: TrainingMaterial, examples: ExampleSet) -> Self:
        texts = {text for each in material.trained for text in each.texts.values()}
        synopses = {each.task.synopses.get(material.synopsis or "") for each in material.trained} - {None}
        return cls(
            tasks_trained=len(material.trained),
            tasks_held_out=len(material.held_out),
            tasks_too_few=material.tasks_too_few,
            texts_missing=material.texts_missing,
            held_out_texts_seen=sum(text in texts for each in material.held_out for text in each.texts.values()),
            held_out_synopses_seen=sum(
                each.task.synopses.get(material.synopsis or "") in synopses for each in material.held_out
            ),
            examples=len(examples.examples),
            tokens=sum(example.target_tokens for example in examples.examples),
            left_out=examples.left_out,
        )

    @property
    def warnings(self) -> list[str]:
        """Warnings that a reader of the result must know, each in a sentence."""
        larger = "also occur word for word in training; they make the change look larger"
        said = {
            f"tasks with fewer than 3 usable responses, left out: {self.tasks_too_few}": self.tasks_too_few,
            f"responses without a usable text: {self.texts_missing}": self.texts_missing,
            **{f"questions that gave no example: {count} {kind}": count for kind, count in self.left_out.items()},
            f"{self.held_out_texts_seen} test texts {larger}": self.held_out_texts_seen,
            f"the synopses of {self.held_out_synopses_seen} test tasks {larger}": self.held_out_synopses_seen,
        }
        return [sentence for sentence, count in said.items() if count]


@dataclass(frozen=True)
class Canaries:
    """Canary results of the base before training, and of the adapter afterwards."""

    base: CanaryReport | None
    """None: not tested, as requested."""
    adapter: CanaryReport | None
    """None: failed; it must not be used as a scorer."""
    refused: str | None
    """The reason why it failed."""

    @property
    def notes(self) -> tuple[str, ...]:
        untested = () if self.base else ("The base was not tested with canaries.",)
        if self.adapter is None:
            return (*untested, f"The adapter failed the canaries and must not be used as a scorer: {self.refused}")
        noise = f"{self.adapter.noise_nats:.1e} nats"
        return (*untested, f"With the adapter, sums differ between batches of this engine by up to {noise}.")


@dataclass(frozen=True)
class Finetuned(Result):
    """An adapter and what it changed."""

    study: str
    fingerprint: str
    plan: TrainingPlan
    scorer: ModelIdentity
    """The base with the adapter on it."""
    adapter: InMemory[Path]
    specification: str
    """The same as a scorer spec."""
    held_out_tasks: tuple[str, ...]
    counts: Counts
    training: Training
    held_out: tuple[HeldOutRow, ...]
    level: float
    canaries: Canaries
    spending: InMemory[tuple[Any, ...]] = ()

    @written_property
    def step_losses(self) -> list[dict[str, float]]:
        return [{"step": step, "nats_per_token": loss} for step, loss in self.training.losses]

    @written_property
    def signature(self) -> str:
        plan, recipe = self.plan, self.plan.recipe
        settings = {
            # the plan does not say how the base scores, and the numbers are of that way
            "base": replace(plan.base, settings=self.scorer.settings).short,
            "template": plan.template["name"],
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
        return [self._table("token", 4), replace(self._table("response", 2), notes=self.canaries.notes)]

    def _table(self, per: Literal["token", "response"], decimals: int) -> ReportTable:
        columns = (
            Column("metric", "asked as"),
            Column("term", "term"),
            Column("tasks", "tasks", "count"),
            Column("missing asked", "missing", "fraction"),
            Column(f"{per}_before", "before", "number", decimals=decimals),
            Column(f"{per}_after", "after", "number", decimals=decimals),
            Column(f"{per}_change", "change", "signed", decimals=decimals),
            Column(
                f"{per}_low {per}_high",
                f"{self.level * 100:g}% interval",
                "signed interval",
                decimals=decimals,
                reason=f"{per}_note",
            ),
        )
        changes = [(row, getattr(row, f"per_{per}")) for row in self.held_out]
        rows = tuple(
            cells(row, **{f"{per}_{key}": value for key, value in cells(change, "change").items()})
            for row, change in changes
            if change is not None
        )
        return ReportTable(f"Held out: nats per {per}", columns, rows, self.signature)
