"""The glossary: the words that other sections link to, in a sentence each."""

from __future__ import annotations

from collections.abc import Iterable

TERMS = {
    "alpha": (
        "Krippendorff's alpha",
        "How far raters agree with each other: 1 is full agreement, 0 is what chance would give.",
    ),
    "bradley-terry": (
        "Bradley-Terry strength",
        "A number for each agent, in log-odds: one beats another with probability 1 / (1 + exp(other's less its own)).",
    ),
    "canary": (
        "canary",
        "A small question with a known answer, put to a scorer before its numbers are used.",
    ),
    "ceiling": (
        "human ceiling",
        "How far one rater agrees with the others, measured as a judge is. No judge can be asked to do much better.",
    ),
    "consistency": ("consistency", "How often a reviewer judges a pair the same way when the order is swapped."),
    "frontier": (
        "frontier",
        "The panels that no other beats: none is at least as accurate and as cheap, and better in one of the two.",
    ),
    "gap": (
        "preference gap",
        (
            "The share of tasks on which one reviewer finds its own response better than another reviewer's, less the "
            "share on which the other says so as well. 0: neither leans to its own."
        ),
    ),
    "held out": (
        "held out",
        (
            "The choice made on one half of the tasks and measured on the other. Choosing and measuring on the same "
            "tasks is too kind to the chosen."
        ),
    ),
    "holm": (
        "Holm's correction",
        (
            "With many comparisons some look decided by chance. Holm's method keeps the probability of even one such "
            "mistake below the level."
        ),
    ),
    "influence": ("influence", "What leaving one task out does to an agent's mean and to the ranking."),
    "interval": (
        "interval",
        (
            "The range the true mean lies in with the given confidence, if tasks like these were drawn again. Tasks "
            "are resampled, because responses to one task are not independent; with fewer than ten, Student's t over "
            "tasks takes the place of resampling."
        ),
    ),
    "mean of ratings": (
        "mean in a review",
        (
            "The mean over tasks of what the panel gave an agent: its rating, raw or standardised, or its share of the "
            "votes. The unit says which."
        ),
    ),
    "missing": (
        "missing",
        (
            "Asked for and not there: a failed call, a refusal, a reply that cannot be read. It is left out and "
            "counted, never taken for zero."
        ),
    ),
    "peer": ("peer", "Another agent's response to the same task, which takes the place of a gold standard."),
    "pertinence": (
        "pertinence",
        "How often a reviewer prefers an answer to the question over a well-written answer to another question.",
    ),
    "self-confidence": ("self-confidence", "Whether a reviewer is surer of easy pairs than of hard ones."),
    "signature": ("signature", "One line that says exactly how a number was made."),
    "smd": (
        "standardised mean difference (SMD)",
        "(mean after \u2212 mean before) / pooled standard deviation. \u22121: scores fall by as much as they spread.",
    ),
    "spearman": ("Spearman's coefficient", "Correlation of ranks: 1 is the same order, 0 none, \u22121 the reverse."),
    "win rate": ("win rate", "Share of comparisons that an agent wins, a tie counting one half."),
}
"""Word and explanation by the key that terms link to."""


def glossary(keys: Iterable[str]) -> list[tuple[str, str, str]]:
    """Key, word and explanation of each term that is used, in the order of the words."""
    used = {key for key in keys if key in TERMS}
    return sorted(((key, *TERMS[key]) for key in used), key=lambda row: row[1].lower())
