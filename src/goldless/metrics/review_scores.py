"""Ratings by reviewers as a metric, ``review[SCALE]``: live judges are ranked and crash-tested like other metrics."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from goldless.metrics.chair import panel_scores
from goldless.metrics.judgement_table import response_ratings
from goldless.metrics.metric import Given, Needs, Scores, response_table


@dataclass(frozen=True, slots=True)
class ReviewMetric:
    """The mean rating of a response over the reviewers, on one scale."""

    name: str
    scale: str
    unit: str = "points"

    @property
    def needs(self) -> Needs:
        """Ratings of every response."""
        return Needs(judgements=self.scale)

    def scores(self, given: Given) -> Scores:
        """The mean over reviewers; missing where none of them gave a rating."""
        rows = given.evidence.judgements.filter(pl.col("format") == self.scale)
        reviewers = rows["reviewer"].unique(maintain_order=True).to_list()
        table = response_ratings(rows, reviewers=reviewers, tasks=given.study.tasks, agents=given.agents)
        panel = panel_scores(table, normalisation="raw")
        wanted = [(item.task.task, item.agent) for item in given.items(peers=False)]
        task_number = {task: number for number, task in enumerate(given.study.tasks)}
        agent_number = {agent: number for number, agent in enumerate(given.agents)}
        places = [(task_number[task], agent_number[agent]) for task, agent in wanted]
        found = pl.DataFrame(
            {
                "task": [task for task, _ in wanted],
                "agent": [agent for _, agent in wanted],
                "score": [float(panel.score[place]) for place in places],
                "asked": [int(panel.asked[place]) for place in places],
                "used": [int(panel.used[place]) for place in places],
            },
            schema_overrides={"score": pl.Float64},
        )
        found = found.with_columns(pl.col("score").fill_nan(None))
        return Scores(response_table(found), settings={"reviewers": "+".join(reviewers), "against": "nothing"})
