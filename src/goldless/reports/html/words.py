"""What our words mean: the terms that sections link to, and the parts of a signature."""

from __future__ import annotations

from collections.abc import Iterable

WORDS = {
    "alpha": "Krippendorff's alpha",
    "bradley-terry": "Bradley-Terry strength",
    "ceiling": "human ceiling",
    "gap": "preference gap",
    "holm": "Holm's correction",
    "mean of ratings": "mean in a review",
    "smd": "standardised mean difference (SMD)",
    "spearman": "Spearman's coefficient",
}
"""Terms that have another word than their key."""
TERMS = {
    "alpha": "How far raters agree with each other: 1 is full agreement, 0 is what chance would give.",
    "bradley-terry": (
        "A number for each agent, in log-odds: one beats another with probability 1 / (1 + exp(other's less its own))."
    ),
    "canary": "A small question with a known answer, put to a scorer before its numbers are used.",
    "ceiling": (
        "How far one rater agrees with the others, measured as a judge is. No judge can be asked to do much better."
    ),
    "consistency": "How often a reviewer judges a pair the same way when the order is swapped.",
    "frontier": (
        "The panels that no other beats: none is at least as accurate and as cheap, and better in one of the two."
    ),
    "gap": (
        "The share of tasks on which one reviewer finds its own response better than another reviewer's, less the"
        " share on which the other says so as well. 0: neither leans to its own."
    ),
    "held out": (
        "The choice made on one half of the tasks and measured on the other. Choosing and measuring on the same "
        "tasks is too kind to the chosen."
    ),
    "holm": (
        "With many comparisons some look decided by chance. Holm's method keeps the probability of even one such "
        "mistake below the level."
    ),
    "influence": "What leaving one task out does to an agent's mean and to the ranking.",
    "interval": (
        "The range the true mean lies in with the given confidence, if tasks like these were drawn again. Tasks "
        "are resampled, because responses to one task are not independent; with fewer than ten, Student's t over "
        "tasks takes the place of resampling."
    ),
    "mean of ratings": (
        "The mean over tasks of what the panel gave an agent: its rating, raw or standardised, or its share of "
        "the votes. The unit says which."
    ),
    "missing": (
        "Asked for and not there: a failed call, a refusal, a reply that cannot be read. It is left out and "
        "counted, never taken for zero."
    ),
    "peer": "Another agent's response to the same task, which takes the place of a gold standard.",
    "pertinence": (
        "How often a reviewer prefers an answer to the question over a well-written answer to another question."
    ),
    "self-confidence": "Whether a reviewer is surer of easy pairs than of hard ones.",
    "signature": "One line that says exactly how a number was made.",
    "smd": (
        "(mean after \u2212 mean before) / pooled standard deviation. \u22121: scores fall by as much as they spread."
    ),
    "spearman": "Correlation of ranks: 1 is the same order, 0 none, \u22121 the reverse.",
    "win rate": "Share of comparisons that an agent wins, a tie counting one half.",
}
"""What each term means, by the key that links to it."""


def glossary(keys: Iterable[str]) -> list[tuple[str, str, str]]:
    """Key, word and explanation of each term that is used, in the order of the words."""
    used = [(key, WORDS.get(key, key), TERMS[key]) for key in set(keys) & TERMS.keys()]
    return sorted(used, key=lambda row: row[1].lower())


MEANINGS = {
    "against": "What a response is scored against: nothing, the task's reference, or the other agents' responses.",
    "alpha": "Measurement of Krippendorff's alpha.",
    "calls": "Questions put to the critic.",
    "candidates": "Whose responses were changed.",
    "categories": "What of a label counts: the sign of a preference, or the value of a rating.",
    "combination": "Whether a reviewer must pass all parts of the exam, or any.",
    "compared-on": "Pairs that all compared reviewers judged.",
    "convention": "How what is missing counts: left out (default), or as in the paper.",
    "critic": "The model that said whether two responses belong together.",
    "debate": "How reviewers discussed before they judged.",
    "demonstration": "That tasks and responses are invented: the numbers are no result.",
    "dialect": "The way a server was asked for log-probabilities.",
    "direction": "Whether an agent's score counts pairs in which it came first, second, or both.",
    "evidence": "Where judgements or log-probabilities came from; a hash tells two sets apart.",
    "exam": "What reviewers had to pass.",
    "families": "Which reviewers and agents count as of one family.",
    "fusion": "How reviewers' ratings were brought onto one scale.",
    "goldless": "Version of goldless.",
    "interval": "How intervals were made: tasks are resampled; with few tasks Student's t is used.",
    "items": "On which items raters were compared: those all of them labelled, or those two of them did.",
    "kernel": "Arithmetic of the scorer.",
    "labels": "Hash of the human labels.",
    "layout": "Whether texts were put into the model's chat format.",
    "least-judged": "A reviewer that judged less than this share of the busiest one's pairs was left out.",
    "level": "Confidence level of intervals.",
    "limits": "What a reviewer had to exceed in each part of the exam.",
    "margin": "An effect nearer to 0 than this counts as none.",
    "missing": "What was done about missing evidence.",
    "noise": "How far the same sum came out apart in different batches: numeric noise, in nats.",
    "null": "How chance was measured.",
    "orders": "Whether pairs were shown in both orders.",
    "own-family": "Whether reviewers judged agents of their own family.",
    "pairs": "How labels decided which response of a pair is better.",
    "peers": "Whose responses served as references.",
    "permutations": "Shuffles that chance was measured by.",
    "perturbations": "What was done to responses.",
    "positions": "Which tokens were scored: those of the target, with or without the end of text.",
    "prompt": "Wording of the question to the critic.",
    "prompts": "Whether reviewers saw the task's prompt.",
    "questioners": "Agents whose labelled responses the exam was made of.",
    "references": "How many peers a response was held against, or which.",
    "resamples": "Resamples behind each interval and test.",
    "responses": "How many responses were used.",
    "review-cut": "What became of a review that reached its longest length: kept as far as it goes, or missing.",
    "review-max-tokens": "Longest review that was asked for, in tokens.",
    "review-prompt": "What models were asked with for their reviews.",
    "review-temperature": "Temperature at which reviews were written.",
    "review-truncate": "Whether the end of a paper that did not fit a model's context was cut off.",
    "reviewers": "Models that judged.",
    "rewrite-max-tokens": "Longest rewrite that was asked for, in tokens; a longer one is missing.",
    "rewriter": "The model that rewrote responses into plain points, so that style counts for nothing.",
    "scale": "What reviewers were asked: which of two is better, or a rating.",
    "scorer": "The model whose log-probabilities the score is made of.",
    "seed": "Seed of all draws.",
    "shuffles": "How many shuffled pairs each matched pair was held against.",
    "splits": "How often tasks were halved to choose on one half and measure on the other.",
    "study": "First digits of the hash of the study's tasks and responses.",
    "synopsis": "The synopsis of the task that scores are conditioned on.",
    "template": "Wording under which a second response was predicted.",
    "test": "How differences between agents were tested: signs of tasks' differences flipped, corrected by Holm.",
    "ties": "What was done about ties.",
    "tokens": "How a text was cut into tokens.",
    "verdicts": "How a verdict was read: from probabilities of the answers, or from the reply.",
    "vote": "Weights of the reviewers' votes.",
    "weights": "Weight of each reviewer's vote.",
    "wording": "Hash of the question's wording.",
    "writer": "The model that wrote changed responses.",
    "written-by": "The model that wrote the synopsis.",
}


def signature_parts(signature: str) -> list[tuple[str, str, str]]:
    """Key, value and meaning of each part; the first has no key."""
    found = []
    for place, part in enumerate(signature.split("|")):
        key, colon, value = part.partition(":")
        if not colon:
            found.append(("" if place else "metric", part, "What was computed." if place == 0 else ""))
        else:
            found.append((key, value, MEANINGS.get(key, "")))
    return found


def signature_settings(signature: str) -> dict[str, str]:
    """The settings that a signature names, its metric first; none where there is no signature."""
    return {key or value: value for key, value, _ in signature_parts(signature)} if signature else {}
