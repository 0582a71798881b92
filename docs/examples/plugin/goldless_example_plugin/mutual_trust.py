"""A metric of one's own that asks for both kinds of evidence: log-probabilities and a critic's verdicts.

Its score of a response is the mean of two ranks among the responses to the task, by GEM-raw and by TVD-MI, each from 0
(last) to 1 (first): a response that both rank high is one that neither metric alone was fooled by.
"""

from __future__ import annotations

import polars as pl

from goldless.metrics.likelihood import GEM, pair_scores
from goldless.metrics.metric import LogprobNeed, MetricInput, Needs, Scores, over_peers, response_table
from goldless.metrics.tvd_mi import contrasts


class MutualTrust:
    """Mean rank by GEM-raw and TVD-MI, from 0 to 1."""

    name = "mutual-trust"
    unit = "mean rank"
    needs = Needs(logprobs=LogprobNeed(), verdicts="both")

    def scores(self, data: MetricInput) -> Scores:
        """The score of each response; missing where either metric has none."""
        by_gem = over_peers(data.compared(pair_scores(data.evidence.logprobs, GEM)), data.over_peers)
        by_critic = over_peers(data.compared(contrasts(data.evidence.verdicts)), data.over_peers)
        rank = (pl.col("score").rank() - 1).over("task") / (pl.col("score").count().over("task") - 1)
        both = by_gem.with_columns(gem=rank).join(
            by_critic.select("task", "agent", critic=rank), on=["task", "agent"], how="left", maintain_order="left"
        )
        return Scores(
            response_table(both.with_columns(score=(pl.col("gem") + pl.col("critic")) / 2)),
            settings={"ranks": "within-task", **data.evidence.described.get("logprobs", {})},
        )


mutual_trust = MutualTrust()
