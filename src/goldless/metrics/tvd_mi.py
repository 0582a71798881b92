"""TVD-MI: how much better than chance a critic recognises that two agents' responses belong together.

For agents i and j on tasks t = 1..n, with the critic's verdict f in [0, 1] on a pair of responses,

    S(i, j) = 1/n Σ_t f(Y_i^t, Y_j^t) - 1/(n(n-1)) Σ_{t≠s} f(Y_i^t, Y_j^s)

is a lower bound of the total variation distance between the joint distribution of their responses and the product of
its marginals (the TVD-MI paper, equations 1-3). Equation 3 takes the second mean over all n² pairs, the matched ones
among them, which makes it (1 - 1/n) times this; here shuffled pairs are of different tasks only. The second mean is
estimated from a few shuffles of each task, drawn as derangements, so that S is the mean over tasks of

    contrast(t) = f(Y_i^t, Y_j^t) - mean over the shuffles s of t of f(Y_i^t, Y_j^s).

A response's score is the mean over its partners (the paper sums, which grows with their number). By default it is the
mean of both directions, what the response reveals about the partners' and what theirs reveal about it: a critic's
verdict depends on the order of the two, and both orders are requested anyway. Each direction alone has its own name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from goldless.grouped import mean_in_order
from goldless.metrics.metric import PAIRS, MetricInput, Needs, OverPeers, Scores, over_peers, pair_means

Direction = Literal["both", "given", "about"]
"""``given``: what a response reveals about its partners'. ``about``: what they reveal about it. ``both``: the mean."""


@dataclass(frozen=True)
class CriticMetric:
    """TVD-MI in one or both directions."""

    name: str
    direction: Direction = "both"
    unit: str = "matched less shuffled"
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    @property
    def needs(self) -> Needs:
        return Needs(verdicts="both" if self.direction == "both" else "one direction")

    def scores(self, data: MetricInput) -> Scores:
        """The contrast of every pair, and its mean over the partners of each response."""
        evidence = data.evidence
        recorded = len(evidence.contrasts) > 0
        pairs = recorded_pairs(evidence.contrasts) if recorded else contrasts(evidence.verdicts)
        return Scores(
            response_scores(pairs, over=data.over_peers, direction=self.direction, compared=data.compared),
            pairs,
            by_peer=peer_scores(pairs, direction=self.direction, compared=data.compared),
            averaged_over=data.over_peers,
            settings={
                **evidence.described.get("verdicts", {}),
                "direction": self.direction,
                "peers": data.peers_shown(pairs),
            },
            summary=objective_critic(pairs),
        )


def contrasts(verdicts: pl.DataFrame) -> pl.DataFrame:
    """The contrast of every ordered pair on every task: the agent is the first of the pair, the peer the second.

    Shuffled verdicts that are missing are left out. A contrast is missing where the matched verdict is, or every
    shuffled one; the cause is the failure's.
    """
    apart = [name for name in ("critic", "prompt") if verdicts[name].n_unique() > 1]
    pair = [*apart, "task", "first", "second"]
    matched = pl.col("task") == pl.col("second_task")
    rows = verdicts.lazy().select(*pair, "second_task", "value", "failure")
    known = rows.filter(matched).select(*pair, matched="value", lost="failure")
    joined = rows.join(known, on=pair, how="left", maintain_order="left")
    # the mean of the differences, not the difference of means: exactly 0 where all verdicts are equal
    difference = (pl.col("matched") - pl.col("value")).filter(~matched)
    return (
        joined.group_by(pair, maintain_order=True)
        .agg(score=mean_in_order(difference), lost=pl.coalesce("lost", "failure").drop_nulls().first())
        .select(
            "task",
            "score",
            agent="first",
            peer="second",
            missing=pl.when(pl.col("score").is_null()).then("lost"),
        )
        .select(*PAIRS)
        .collect()
    )


def objective_critic(pairs: pl.DataFrame) -> dict[str, float]:
    """Mean over ordered pairs of agents of their mean contrast over tasks, and the same with a zero diagonal.

    The latter is the TVD-MI paper's (table 1: .191). Empty if no contrast is known.
    """
    means = pair_means(pairs)
    if not len(means):
        return {}
    agents = len(set(means["agent"].cast(pl.String)) | set(means["peer"].cast(pl.String)))
    mean = float(means["score"].to_numpy().mean())
    return {"mean_over_pairs": mean, "objective_critic": mean * len(means) / (len(means) + agents)}


def recorded_pairs(recorded: pl.DataFrame) -> pl.DataFrame:
    """Recorded contrasts as pairs; an empty one is missing as not recorded."""
    missing = pl.when(pl.col("contrast").is_null()).then(pl.lit("not_recorded"))
    return recorded.select("task", agent="first", peer="second", score="contrast", missing=missing)


Compared = Callable[[pl.DataFrame], pl.DataFrame]
"""The pairs whose agent is to be compared with its peer."""


def response_scores(pairs: pl.DataFrame, *, over: OverPeers, direction: Direction, compared: Compared) -> pl.DataFrame:
    """The score of each response: the mean contrast over its partners, higher is better.

    ``given`` averages the contrasts with the response as first, ``about`` those with it as second, ``both`` takes the
    mean of these two averages. Missing where an average that is needed has no contrast left: the two directions differ
    in level, so one cannot replace the other. ``asked`` and ``used`` count contrasts.
    """
    rows = {"given": pairs, "about": _turned(pairs)}
    sides = pl.Enum([*rows] if direction == "both" else [direction])
    chosen = [compared(rows[side]).with_columns(side=pl.lit(side, sides)) for side in sides.categories]
    return over_peers(pl.concat(chosen), over)


def _turned(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.select("task", "score", "missing", agent="peer", peer="agent").select(*PAIRS)


def peer_scores(pairs: pl.DataFrame, *, direction: Direction, compared: Compared) -> pl.DataFrame:
    """Share of each partner in a response's score: the contrast in this direction, or the mean of both."""
    turned = _turned(pairs)
    if direction != "both":
        return compared(pairs if direction == "given" else turned)
    other = turned.select("task", "agent", "peer", about="score")
    both = pairs.join(other, on=["task", "agent", "peer"], how="inner", maintain_order="left")
    return compared(both.with_columns(score=(pl.col("score") + pl.col("about")) / 2).select(*PAIRS))


def reading(verdicts: pl.DataFrame, name: str | None = None) -> str:
    """The way verdicts were read, with the number read another way than requested; ``name``: the requested way."""
    read: dict[str, int] = dict(verdicts["read_from"].drop_nulls().value_counts().iter_rows())
    if name is None:
        return "+".join(f"{kind}-{count}" for kind, count in sorted(read.items())) or "recorded"
    labels = read.get("label", 0)
    return f"{name}+label-{labels}" if name != "labels" and labels else name
