"""The glossary that sections link to, and the meaning of each part of a signature."""

from __future__ import annotations

from collections.abc import Iterable

WORDS = {
    "alpha": "Krippendorff's alpha",
    "bradley-terry": "Bradley-Terry strength",
    "ceiling": "human ceiling",
    "gap": "preference gap",
    "holm": "Holm's correction",
    "mean of ratings": "mean (review)",
    "smd": "standardised mean difference (SMD)",
    "spearman": "Spearman's coefficient",
}
"""Terms shown under another name than their key."""
TERMS = {
    "alpha": "How well raters agree with each other: 1 is full agreement, 0 is agreement by chance.",
    "bradley-terry": (
        "Strength of each agent, in log-odds: A beats B with probability 1 / (1 + exp(strength B \u2212 strength A))."
    ),
    "canary": "A small test with a known answer, run on a scorer before its numbers are used.",
    "ceiling": (
        "How well one rater agrees with the others, measured like a judge. No judge can be expected to do much better."
    ),
    "consistency": "How often a reviewer judges a pair the same way when the order is swapped.",
    "corrected": (
        "With many comparisons, some look significant by chance. The correction limits the probability of even one "
        "such mistake: by the largest statistic of all comparisons under flipped signs (max-T)."
    ),
    "gap": (
        "The share of tasks where one reviewer prefers its own response to another reviewer's, minus the share where "
        "the other reviewer agrees. 0 means that neither favours its own responses."
    ),
    "holm": (
        "With many comparisons, some look significant by chance. Holm's method limits the probability of even one "
        "such mistake."
    ),
    "influence": "How much an agent's mean and the ranking change when one task is left out.",
    "interval": (
        "The range that contains the true mean over tasks like these, with the given confidence. Tasks are "
        "resampled, because responses to the same task are not independent; with fewer than ten tasks, Student's t "
        "is used instead. Scores that are all at the ends of their scale have the exact interval of a share."
    ),
    "mean of ratings": (
        "The mean over tasks of an agent's rating by the panel, raw or standardised, or of its share of the votes. "
        "The unit says which."
    ),
    "missing": (
        "Requested but not available: a failed call, a refusal, a reply that cannot be parsed. It is left out and "
        "counted, never treated as zero."
    ),
    "peer": "Another agent that responded to the same task; its response is used in place of a gold standard.",
    "pertinence": (
        "How often a reviewer prefers an answer to the question over a well-written answer to another question."
    ),
    "self-confidence": "Whether a reviewer is more confident on easy pairs than on hard ones.",
    "signature": "One line that records exactly how a number was made.",
    "smd": (
        "(mean after \u2212 mean before) / pooled standard deviation. \u22121: scores fall by one standard deviation."
    ),
    "spearman": "Correlation of ranks: 1 is the same order, 0 is unrelated, \u22121 is the reverse order.",
    "win rate": "Share of comparisons that an agent wins; a tie counts as one half.",
}
"""The meaning of each term, by key."""


def glossary(keys: Iterable[str]) -> list[tuple[str, str, str]]:
    """Key, name and meaning of each term used, sorted by name."""
    used = [(key, WORDS.get(key, key), TERMS[key]) for key in set(keys) & TERMS.keys()]
    return sorted(used, key=lambda row: row[1].lower())


MEANINGS = {
    "against": "What a response is compared with: nothing, the task's reference, or the other agents' responses.",
    "alpha": "Level of measurement for Krippendorff's alpha.",
    "calls": "Number of critic calls.",
    "candidates": "Agents whose responses were changed.",
    "categories": "What is used of a label: the sign of a preference, or the value of a rating.",
    "combination": "Whether a reviewer must pass all parts of the exam or any of them.",
    "compared-on": "Pairs that all compared reviewers judged.",
    "convention": "How missing evidence is treated: left out (default), or as in the paper.",
    "critic": "The model that decided whether two responses answer the same task.",
    "debate": "How reviewers discussed before judging.",
    "demonstration": "The tasks and responses are invented, so the numbers are not results.",
    "dialect": "How log-probabilities were requested from the server.",
    "direction": "Whether an agent's score uses pairs where it is first, second, or both.",
    "evidence": "Source of the judgements or log-probabilities, with a hash that identifies the set.",
    "exam": "What reviewers had to pass.",
    "families": "Which reviewers and agents belong to the same family.",
    "fusion": "How ratings of different reviewers were put on one scale.",
    "goldless": "Version of goldless.",
    "interval": "How intervals were computed: by resampling tasks, or by Student's t if there are few tasks.",
    "items": "Items on which raters were compared: those labelled by all raters, or by both raters of a pair.",
    "kernel": "Arithmetic of the scorer.",
    "labels": "Hash of the human labels.",
    "layout": "Whether texts were wrapped in the model's chat format.",
    "least-judged": "Reviewers that judged less than this share of the busiest reviewer's pairs were left out.",
    "level": "Confidence level of intervals.",
    "limits": "Thresholds that a reviewer had to exceed in each part of the exam.",
    "margin": "Effects smaller than this count as none.",
    "metric": "What was computed.",
    "missing": "How missing evidence was treated.",
    "noise": "Numerical noise in nats: how much the same sum differed between batches.",
    "null": "How the chance level was measured.",
    "orders": "Whether pairs were shown in both orders, or once in a drawn one.",
    "own-family": "Whether reviewers judged agents of their own family.",
    "pairs": "How labels decide which response of a pair is better.",
    "predicted": "Whether the response that a juror predicts is another one than the one that informs.",
    "peers": "Agents whose responses were used as references.",
    "permutations": "Number of shuffles used to measure the chance level.",
    "perturbations": "Changes made to responses.",
    "positions": "Which tokens were scored: those of the target, with or without the end-of-text token.",
    "prompt": "Prompt given to the critic.",
    "prompts": "Whether reviewers saw the task's prompt.",
    "questioners": "Agents whose labelled responses were used for the exam.",
    "references": "Number or names of the peers that a response was compared with.",
    "resamples": "Number of resamples for each interval and test.",
    "responses": "Number of responses used.",
    "review-cut": "How reviews cut off at the length limit were treated: kept, or counted as missing.",
    "review-max-tokens": "Maximum length of a review in tokens.",
    "review-prompt": "Prompt used to write the reviews.",
    "review-temperature": "Temperature at which reviews were written.",
    "review-truncate": "Whether papers too long for a model's context were cut off at the end.",
    "reviewers": "Models that judged.",
    "rewrite-max-tokens": "Maximum length of a rewrite in tokens; longer ones are missing.",
    "rewriter": "The model that rewrote responses into plain points, so that style does not count.",
    "scale": "What reviewers were asked: which of two is better, or a rating.",
    "scorer": "The model whose log-probabilities were used.",
    "seed": "Random seed.",
    "shuffles": "Number of shuffled pairs that each matched pair was compared with.",
    "splits": "Number of random splits into a half to choose on and a half to measure on.",
    "study": "First digits of a hash of the study's tasks and responses.",
    "synopsis": "The synopsis of the task that scores are conditioned on.",
    "template": "Prompt used to predict a second response.",
    "test": "How differences between agents were tested: by flipping the signs of task differences.",
    "ties": "How ties were treated.",
    "tokens": "How texts were split into tokens.",
    "verdicts": "How verdicts were read: from token probabilities, or from the reply.",
    "vote": "Weights of the reviewers' votes.",
    "weights": "Weight of each reviewer's vote.",
    "wording": "Hash of the prompt.",
    "writer": "The model that wrote the changed responses.",
    "written-by": "The model that wrote the synopsis.",
}
"""The parts of a signature."""
