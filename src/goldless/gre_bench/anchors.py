"""Anchors: papers of an earlier edition in a new one, with the same human reviews, so that years can share a scale.

A task that is an anchor has the name of the earlier edition in its column ``anchor``; other tasks have none.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from goldless.errors import UserError
from goldless.gre_bench.edition_study import REVIEWS, table_rows
from goldless.gre_bench.papers import REFERENCE, draw_rank, is_person
from goldless.studies import Study
from goldless.studies.study import task_row

ANCHOR = "anchor"
"""The column of tasks with the name of the earlier edition."""

Row = dict[str, Any]


def anchored_papers(study: Study) -> dict[str, str]:
    """The earlier edition of each paper that is an anchor, by paper, in the study's order."""
    found = {task: study.task(task).extra.get(ANCHOR) for task in study.tasks}
    return {task: str(edition) for task, edition in found.items() if edition is not None}


def refuse_unlike(earlier: Study, name: str, *, papers: int, reviews: int) -> None:
    """Reject an earlier edition whose papers cannot be anchors: too few of them, or other numbers of reviews."""
    references = sum(agent.group == REFERENCE for agent in earlier.agents)
    if references != reviews - 1:
        raise UserError(
            f"--anchors {name}: its papers have {references + 1} human reviews each, not {reviews}, so scores on them "
            f"would not be on the same scale. Give --reviews {references + 1}, or other anchors"
        )
    own = len(earlier.tasks) - len(anchored_papers(earlier))
    if own < papers:
        raise UserError(
            f"--anchors {name}: it has {own} papers of its own, but {papers} anchors were requested. "
            f"Give --anchor-papers {own} or fewer"
        )


def anchor_tables(earlier: Study, name: str, *, papers: int, seed: int, taken: Collection[str]) -> dict[str, list[Row]]:
    """Rows of a study for papers drawn from an earlier edition: tasks, human reviews, and their rewrites.

    ``name``: of the earlier edition. ``taken``: papers that the new edition has already. Anchors of the earlier edition
    itself are never drawn: they belong to a year before.
    """
    older = anchored_papers(earlier)
    own = [task for task in earlier.tasks if task not in older and task not in set(taken)]
    if len(own) < papers:
        raise UserError(
            f"--anchors {name}: only {len(own)} of its papers are not in this edition anyway, but {papers} anchors "
            f"were requested. Give --anchor-papers {len(own)} or fewer"
        )
    drawn = sorted(own, key=lambda task: draw_rank(seed, name, task))[:papers]
    chosen = set(drawn)
    people = [{"task": r.task, "agent": r.agent, "text": r.text} for t in drawn for r in earlier.responses(t)]
    return {
        "tasks": [task_row(earlier.task(task)) | {ANCHOR: name} for task in drawn],
        "responses": [row for row in people if is_person(row["agent"])],
        **{
            table: [r for r in table_rows(earlier, table) if r["task"] in chosen and is_person(r["agent"])]
            for table in (REVIEWS, "rewrites")
        },
    }
