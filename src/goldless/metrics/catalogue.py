"""The metrics by name: what each is, and what evidence it takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from goldless.errors import MetricError, nearest
from goldless.metrics.baselines import BASELINES, EMBEDDED, baseline
from goldless.metrics.likelihood import GEM, RELATIVES, LikelihoodMetric
from goldless.metrics.text_metrics import ItemMetric, TextPairMetric
from goldless.metrics.tvd_mi import Direction

METRICS = {
    "gem-raw": "pointwise mutual information between responses as they are",
    "gem": "the same after a chat model has rewritten them into plain points (needs --rewriter or recorded rewrites)",
    "gem-s[COLUMN]": "the same given a synopsis of the task: gem-s[abstract], gem-s[assw], any synopsis_COLUMN",
    "tvd-mi": "a critic tells matched pairs of responses from shuffled ones; both directions",
    "tvd-mi[given]": "one direction of it: what a response tells about its peers'",
    "tvd-mi[about]": "the other direction: what the peers' responses tell about it",
    "tvd-mi[labels]": "how much raters' labels tell about each other's; from the labels table, no model",
    "mi": "nats per token that two responses make each other likelier",
    "gppm": "log p per token of the peer's response given this one, no marginal taken off",
    "bartscore": "mean of bartscore-recall and bartscore-precision",
    "bartscore-recall": "log p of the peer's response given this one, summed",
    "bartscore-precision": "log p of this response given the peer's, summed",
    "gptscore": "log p per token of this response given the peer's",
    "bleu": "words in common with the peers' responses; also bleu-1, bleu-2",
    "rouge-l": "longest common run of words with the peers' responses; also rouge-1, rouge-2",
    "bertscore": "sentences like the peers', by embeddings; also bertscore-precision, bertscore-recall",
    "bertscore[MODEL]": "the same by another model of sentence-transformers",
    "rouge-l[reference]": "any of these against the task's reference instead of the peers' responses",
    "length": "words of the response, to hold the others against",
    "judge[TABLE]": "win rate in recorded comparisons judge_TABLE, both orders",
    "judge-first[TABLE]": "the same from the first position only, for parity",
}
"""Forms of a metric's name, with what it is."""

Kind = Literal["likelihood", "critic", "labels", "wins", "texts"]
Against = Literal["peers", "reference", "nothing"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as it was asked for."""

    name: str
    kind: Kind
    text: Literal["responses", "rewrites", "rewrites if any"] = "responses"
    """What is scored."""
    synopsis: str | None = None
    """Name of the synopsis everything is conditioned on."""
    likelihood: LikelihoodMetric | None = None
    direction: Direction = "both"
    """Of a critic's contrasts, or of recorded comparisons ("given": first position only)."""
    table: str | None = None
    """The recorded table of comparisons."""
    pairs: TextPairMetric | None = None
    """Of texts: how near a response is to another text."""
    items: ItemMetric | None = None
    """Of texts: what somebody else's metric says of a response."""
    against: Against = "peers"
    """What a response is held against by a metric of texts."""

    @property
    def unit(self) -> str:
        """What its numbers are in."""
        if self.pairs is not None:
            return self.pairs.unit
        if self.items is not None:
            return self.items.unit
        units = {"critic": "matched less shuffled", "labels": "total variation", "wins": "win rate"}
        return units[self.kind] if self.likelihood is None else self.likelihood.unit

    @property
    def log_probabilities(self) -> LikelihoodMetric:
        """The function of log-probabilities that it is."""
        if self.likelihood is None:
            raise MetricError(f"{self.name} is not a function of log-probabilities")
        return self.likelihood


def find_metric(name: str) -> Metric:
    """The metric of that name."""
    match = re.fullmatch(r"([^\[\]]+)(?:\[([^\[\]]+)\])?", name.strip())
    base, option = (match[1].strip(), match[2]) if match else (name, None)
    option = option.strip() if option else None
    metric = _plain(name, base) if option is None else _with_option(name, base, option)
    if metric is None and base == "gem-s":
        raise MetricError(
            f"{name!r}: name the synopsis that is given, such as gem-s[abstract] for a column synopsis_abstract"
        )
    if metric is None:
        known = "\n".join(f"  {form:20} {text}" for form, text in METRICS.items())
        raise MetricError(f"unknown metric {name!r}{nearest(name, (*METRICS, *BASELINES))}\nKnown metrics:\n{known}")
    return metric


def _plain(name: str, base: str) -> Metric | None:
    if base == "gem-raw":
        return Metric(name, "likelihood", likelihood=GEM)
    if base == "gem":
        return Metric(name, "likelihood", text="rewrites", likelihood=GEM)
    if base == "tvd-mi":
        return Metric(name, "critic")
    if base in RELATIVES:
        return Metric(name, "likelihood", likelihood=RELATIVES[base])
    if base in BASELINES:
        return Metric(name, "texts", pairs=baseline(base), against="nothing" if base == "length" else "peers")
    return None


def _with_option(name: str, base: str, option: str) -> Metric | None:
    if base in BASELINES:
        return _baseline_with(name, base, option)
    if base == "gem-s":
        column = option.removeprefix("synopsis_")
        return Metric(name, "likelihood", text="rewrites if any", synopsis=column, likelihood=GEM)
    if base == "tvd-mi" and option == "labels":
        return Metric(name, "labels")
    if base == "tvd-mi" and option in {"given", "about"}:
        return Metric(name, "critic", direction="given" if option == "given" else "about")
    if base in {"judge", "judge-first"}:
        table = f"judge_{option.removeprefix('judge_')}"
        return Metric(name, "wins", table=table, direction="both" if base == "judge" else "given")
    return None


def _baseline_with(name: str, base: str, option: str) -> Metric | None:
    if option == "reference" and base != "length":
        return Metric(name, "texts", pairs=baseline(base), against="reference")
    return Metric(name, "texts", pairs=baseline(f"{base}[{option}]")) if base in EMBEDDED else None
