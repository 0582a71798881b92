"""How much scores change when a scorer's weights are kept in 4 or 8 bits: per pair, in correlation and in ranks.

    python benchmarks/speed/quantised_scores.py [--base NAME_OR_PATH | --random 1b] [--ways 8bit,4bit] [--study STUDY]

Scores every ordered pair of a study's responses (PMI, as gem-raw) with the model's own bf16 weights and in every other
way, and compares. Without --base the embedded model is taken, unpacked into a folder of bf16 weights: it was published
in 4 bits, so rounding it again says less than a model that never was. float32 shows how much bf16 alone changes.
4bit needs bitsandbytes, 8bit torchao (or bitsandbytes); a way that cannot run here is named and left out.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import kendalltau, spearmanr

from goldless.errors import GoldlessError
from goldless.models.embedded import locate_embedded
from goldless.models.local_weights import HfModel
from goldless.scoring import ScoringJob, ScoringStage, questions, score_together
from goldless.studies import Study, as_study
from goldless.templates import find_template
from random_base import SHAPES, build_base

PRECISIONS = ("float32", "bfloat16", "float16")
COLUMNS = ("task", "given", "target", "sum_logprob_nats")
Pmi = Mapping[tuple[str, str, str], float]
"""Task, agent, peer: by how many nats the agent's response makes the peer's likelier."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed between two ways of keeping the same weights."""

    pairs: int
    sums: tuple[float, float]
    """Nats; by how much a log-probability changed: median and largest."""
    mean_change: float
    """Nats; the mean over pairs."""
    mean_size: float
    """Nats; the mean of the change's absolute value."""
    largest: float
    share_of_spread: float
    """Standard deviation of the change over that of the scores themselves."""
    pearson: float
    spearman: float
    tau_agents: float
    """Kendall's tau-b of the agents' mean scores."""
    agents_moved: int
    """Agents whose rank is another one."""
    furthest: int
    """Ranks that the one that moved furthest moved."""


def compare(own_sums: Scored, other_sums: Scored) -> Comparison:
    """What changed, over the pairs that both have."""
    own, other = own_sums.pmi, other_sums.pmi
    moved = np.array([abs(value - other_sums.sums[key]) for key, value in own_sums.sums.items()])
    keys = [key for key in own if key in other]
    first, second = (np.array([pmi[key] for key in keys]) for pmi in (own, other))
    change = second - first
    ranks = [_ranks(pmi, keys) for pmi in (own, other)]
    moves = [abs(ranks[0][agent] - ranks[1][agent]) for agent in ranks[0]]
    means = [list(_means(pmi, keys).values()) for pmi in (own, other)]
    return Comparison(
        pairs=len(keys),
        sums=(float(np.median(moved)), float(moved.max())),
        mean_change=float(change.mean()),
        mean_size=float(np.abs(change).mean()),
        largest=float(np.abs(change).max()),
        share_of_spread=float(change.std() / first.std()),
        pearson=float(np.corrcoef(first, second)[0, 1]),
        spearman=float(spearmanr(first, second).statistic),
        tau_agents=float(kendalltau(*means).statistic),
        agents_moved=sum(move > 0 for move in moves),
        furthest=max(moves),
    )


def _means(pmi: Pmi, keys: list[tuple[str, str, str]]) -> dict[str, float]:
    """An agent's score: the mean over tasks of the mean over peers."""
    cells: dict[str, dict[str, list[float]]] = {}
    for key in keys:
        cells.setdefault(key[1], {}).setdefault(key[0], []).append(pmi[key])
    return {agent: float(np.mean([np.mean(v) for v in by.values()])) for agent, by in sorted(cells.items())}


def _ranks(pmi: Pmi, keys: list[tuple[str, str, str]]) -> dict[str, int]:
    means = _means(pmi, keys)
    return {agent: rank for rank, agent in enumerate(sorted(means, key=lambda a: -means[a]), 1)}


@dataclass(frozen=True, slots=True)
class Scored:
    """What a model said about a study."""

    sums: Mapping[tuple[str, str | None, str], float]
    """Task, agent (None: the marginal), peer: log p of the peer's response in nats."""

    @property
    def pmi(self) -> Pmi:
        """Every pair's PMI in nats."""
        return {
            (task, given, target): value - self.sums[task, None, target]
            for (task, given, target), value in self.sums.items()
            if given is not None and (task, None, target) in self.sums
        }


async def scored(model: HfModel, study: Study, template: str) -> Scored:
    """Every log-probability that gem-raw needs; task by task, or many tasks at once where that is faster."""
    stage = ScoringStage(model, find_template(template))
    jobs = [
        ScoringJob(stage, task, {r.agent: r.text for r in responses}, list(questions([r.agent for r in responses])))
        for task, responses in study
    ]
    groups = [jobs] if model.capabilities.together else [[job] for job in jobs]
    frames = [await score_together(group) for group in groups]
    rows = pl.concat(frames).drop_nulls("sum_logprob_nats")
    return Scored({tuple(key): value for *key, value in rows.select(*COLUMNS).iter_rows()})


def model_of(base: str, way: str, own: str) -> HfModel:
    """The base in one precision, or with its weights kept in few bits and computed in its own."""
    if way in PRECISIONS:
        return HfModel(base, dtype=way)  # type: ignore[arg-type]
    return HfModel(base, dtype=own, weights=way)  # type: ignore[arg-type]


def weight_bytes(model: HfModel) -> int:
    """What the weights take in memory."""
    engine: Any = model.engine
    return int(engine.weight_bytes)


def unpacked_embedded(folder: Path) -> Path:
    """The embedded model as a folder of bf16 weights with its tokenizer."""
    import torch  # noqa: PLC0415 - an extra
    import transformers  # noqa: PLC0415

    path = locate_embedded(print)
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name)
    # a model read from such a file counts as quantised and is not saved: its weights go into one that never was
    settings = {key: value for key, value in loaded.config.to_dict().items() if key != "quantization_config"}
    model: Any = transformers.AutoModelForCausalLM.from_config(type(loaded.config)(**settings))
    model.load_state_dict(loaded.state_dict())
    model.to(torch.bfloat16).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).save_pretrained(folder)
    return folder


async def measured(base: str, way: str, arguments: Any, study: Study) -> Scored | None:
    """The sums in one way; None where it cannot run here."""
    model = model_of(base, way, arguments.own)
    try:
        await model.prepare()
    except GoldlessError as error:
        print(f"{way}: left out: {str(error).splitlines()[0]}", flush=True)
        return None
    begin = time.perf_counter()
    found = await scored(model, study, arguments.template)
    seconds = time.perf_counter() - begin
    size = weight_bytes(model) / 2**20
    settings = model.identity.settings
    how = settings.get("weights", settings["dtype"])
    print(f"{way}: {model.identity.short}, {how}, {size:.0f} MiB, {seconds:.1f} s, {settings['sharing']}", flush=True)
    await model.aclose()
    return found


async def run(arguments: Any, base: str, study: Study) -> int:
    """Measure all ways and print the table."""
    own = await measured(base, arguments.own, arguments, study)
    if own is None:
        return 1
    values = np.array(list(own.pmi.values()))
    print(f"\n{len(values)} pairs, PMI with own weights: mean {values.mean():.2f}, sd {values.std():.2f} nats\n")
    rows = {}
    for way in arguments.ways.split(","):
        other = await measured(base, way, arguments, study)
        if other is not None:
            rows[way] = compare(own, other)
    print(
        f"\n| against {arguments.own} | change of a sum, nats: median, largest | change of a PMI: mean | size "
        "| largest | sd, share of the scores' sd "
        "| Pearson | Spearman | tau of agents | agents moved (furthest) |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for way, c in rows.items():
        print(
            f"| {way} | {c.sums[0]:.3f}, {c.sums[1]:.3f} | {c.mean_change:+.3f} | {c.mean_size:.3f} | "
            f"{c.largest:.3f} | {c.share_of_spread:.3f} | "
            f"{c.pearson:.5f} | {c.spearman:.5f} | {c.tau_agents:.3f} | {c.agents_moved} ({c.furthest}) |"
        )
    return 0


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="a model folder or a name on the hub")
    parser.add_argument("--random", choices=SHAPES, help="random weights of this shape instead")
    parser.add_argument("--ways", default="float32,8bit,4bit", help="precisions and weights to compare, by commas")
    parser.add_argument("--own", default="bfloat16", choices=PRECISIONS, help="what the others are held against")
    parser.add_argument("--study", default="sample")
    parser.add_argument("--template", default="general")
    parser.add_argument("--tasks", type=int, help="only the first so many")
    arguments = parser.parse_args()
    study = as_study(arguments.study)
    if arguments.tasks:
        study = study.subset(tasks=study.tasks[: arguments.tasks])
    with tempfile.TemporaryDirectory() as folder:
        base = arguments.base
        if base is None:
            own = Path(folder)
            base = str(
                build_base(own / "random", arguments.random)
                if arguments.random
                else unpacked_embedded(own / "SmolLM2-135M-Instruct")
            )
        return asyncio.run(run(arguments, base, study))


if __name__ == "__main__":
    sys.exit(main())
