"""Several samples of one agent for a task: each is scored as an agent of its own, then they are averaged by task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from goldless.errors import UserError, nearest
from goldless.grouped import mean_in_order
from goldless.metrics.metric import PAIRS, RESPONSES, Scores, over_peers, without_closest
from goldless.models.interface import content_hash
from goldless.runs.options import Options
from goldless.studies import Study


def samples_apart(study: Study, options: Options) -> Options:
    """The options with a pairing in which no response has a sample of its own agent as a peer, unless asked for."""
    if not study.samples or options.pairing is not None or options.recorded:
        return options
    if options.budget_calls is not None:
        raise UserError("--budget-calls must be left out where agents have several samples. Try --peer-sample")
    of = study.samples
    peers = _peers(study, options)
    pairing = {}
    for task, responses in study:
        there = [response.agent for response in responses]
        for agent in there:
            mine = of.get(agent, agent)
            pairing[task.task, agent] = [
                peer
                for peer in there
                if peer != agent and of.get(peer, peer) in peers and (options.own_samples or of.get(peer, peer) != mine)
            ]
    told = {
        "samples": "averaged,own-as-peers" if options.own_samples else "averaged",
        "peers": "all" if len(peers) == len(_agents(study)) else "+".join(sorted(peers)),
    }
    return replace(options, pairing=pairing, peers=None, peer_sample=None, told={**options.told, **told})


def _peers(study: Study, options: Options) -> set[str]:
    """The agents, not samples, to be peers."""
    agents = _agents(study)
    if options.peers is not None:
        for name in options.peers:
            if name not in agents:
                raise UserError(f"no agent {name!r} in the study{nearest(name, agents)}")
        return set(options.peers)
    drawn = sorted(agents, key=lambda name: content_hash("panel", options.seed, name))
    return set(agents if options.peer_sample is None else drawn[: options.peer_sample])


def _agents(study: Study) -> list[str]:
    return list(dict.fromkeys(agent.sample_of or agent.agent for agent in study.agents))


def averaged(scores: Scores, samples: Mapping[str, str]) -> Scores:
    """Scores of agents from those of their samples: means by task; missing where no sample has a score."""
    if not samples or scores.raters is not None:
        return scores
    score = mean_in_order(pl.col("score"))
    missing = pl.when(pl.col("score").count() == 0).then(pl.col("missing").drop_nulls().first())

    def with_own(table: pl.DataFrame) -> pl.DataFrame:
        named = _named(table, samples, "agent", "peer")
        return named.group_by("task", "agent", "peer", maintain_order=True).agg(score, missing).select(*PAIRS)

    def pairs(table: pl.DataFrame) -> pl.DataFrame:
        return with_own(table).filter(pl.col("agent") != pl.col("peer"))

    by_agent = _named(scores.responses, samples, "agent").group_by("task", "agent", maintain_order=True)
    responses = by_agent.agg(score, pl.col("asked", "used").sum()).select(*RESPONSES)
    by_peer = None if scores.by_peer is None else with_own(scores.by_peer)
    if by_peer is not None and scores.over is not None and scores.over != "own":
        if scores.over == "but-closest":
            by_peer = without_closest(with_own(scores.pairs))
        over = over_peers(by_peer, scores.over).select("task", "agent", over="score")
        responses = responses.join(over, on=["task", "agent"], how="left", maintain_order="left")
        responses = responses.with_columns(score=pl.coalesce("over", "score"))
    return replace(
        scores,
        responses=responses.select(*RESPONSES),
        pairs=pairs(scores.pairs),
        by_peer=None if by_peer is None else by_peer.filter(pl.col("agent") != pl.col("peer")),
        by_wording={name: pairs(frame) for name, frame in scores.by_wording.items()},
    )


def _named(frame: pl.DataFrame, samples: Mapping[str, str], *columns: str) -> pl.DataFrame:
    return frame.with_columns(
        pl.col(name).cast(pl.String).replace(list(samples), list(samples.values())) for name in columns
    )
