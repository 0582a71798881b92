"""How well reviewers can be ordered without labels, by the number of tasks: recorded XSum, ten reviewers, pairwise.

    python benchmarks/papers/panel_order.py ../shared/data/xsum_peer_review

Spearman's correlation of each order with the reviewers' agreement with people, mean over random draws of tasks.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import spearmanr

import goldless
from goldless.metrics.judgement_table import pair_judgements
from goldless.metrics.label_agreement import reviewer_judges
from goldless.metrics.panel_worth import PanelVotes, panel_votes
from goldless.runs.options import Options
from goldless.runs.review_evidence import recorded_review, what_people_said
from goldless.statistics.vote_models import both_sides, dawid_skene, judge_aware_bradley_terry


def orders(votes: PanelVotes) -> dict[str, np.ndarray]:
    """One number per reviewer by each way to order them."""
    said = votes.vote.T
    mean = np.nanmean(said, axis=1)
    count = (~np.isnan(said)).sum(axis=1)
    lean = np.sign((mean * count)[:, None] - np.nan_to_num(said) - (count[:, None] - 1) / 2)
    rest = np.where(np.isnan(said), np.nan, 0.5 + lean * np.sign(said - 0.5) / 2)
    agents = len(votes.agents)
    number = np.unique(np.concatenate([votes.task * agents + side for side in (votes.low, votes.high)]))
    first, second = (np.searchsorted(number, votes.task * agents + side) for side in (votes.low, votes.high))
    return {
        "Dawid-Skene (the exam peers)": dawid_skene(both_sides(said)).accuracy,
        "judge-aware Bradley-Terry": judge_aware_bradley_terry(said, first, second).discrimination,
        "agreement with the others' vote": np.nanmean(rest, axis=0),
    }


def main() -> None:
    """Print one row per way to order reviewers."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("study")
    arguments.add_argument("--draws", type=int, default=20)
    given = arguments.parse_args()
    study = goldless.read_study(given.study)
    options = Options.of(recorded=True, own_family=True)
    evidence = recorded_review(study, scale=options.review.chosen_scale, reviewers=(), convention="default")
    agents = [agent.agent for agent in study.agents]
    table = pair_judgements(evidence.judgements, reviewers=evidence.reviewers, tasks=study.tasks, agents=agents)
    tested = what_people_said(study, options).tested
    known = [float(np.nanmean(judge.credits(tested).credit)) for judge in reviewer_judges(table)]
    votes = panel_votes(table, table.reviewers)
    sizes = [size for size in (2, 5, 20, 50) if size < len(study.tasks)]
    found: dict[str, list[float]] = {}
    random = np.random.default_rng(0)
    for size in sizes:
        drawn: dict[str, list[float]] = {}
        for _ in range(given.draws):
            chosen = random.permutation(len(study.tasks))[:size]
            for name, values in orders(votes.kept(np.isin(votes.task, chosen))).items():
                drawn.setdefault(name, []).append(float(spearmanr(values, known)[0]))
        for name, values in drawn.items():
            found.setdefault(name, []).append(float(np.mean(values)))
    for name, values in orders(votes).items():
        found[name].append(float(spearmanr(values, known)[0]))
    print(f"{'tasks':34}" + "".join(f"{size:>8}" for size in (*sizes, len(study.tasks))))
    for name, row in found.items():
        print(f"{name:34}" + "".join(f"{value:8.3f}" for value in row))


if __name__ == "__main__":
    main()
