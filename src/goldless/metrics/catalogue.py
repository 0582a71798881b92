"""The metrics by name: the built-in ones, those of plugins, and the baselines BLEU, ROUGE, length and BERTScore."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from goldless.errors import MetricError, nearest
from goldless.metrics.embedding_similarity import Measure, SentenceSimilarity
from goldless.metrics.judged_metrics import ReviewMetric, WinMetric
from goldless.metrics.label_information import RaterMetric
from goldless.metrics.lexical import Bleu, Length, Rouge
from goldless.metrics.likelihood import (
    ABOUT,
    BOTH,
    CONTROL,
    GEM,
    GEM_ABOUT,
    GEM_BOTH,
    PROMPT,
    RELATIVES,
    GroundingMetric,
    Likelihood,
    LikelihoodMetric,
    TaskKind,
)
from goldless.metrics.metric import Metric, Needs
from goldless.metrics.peer_prediction import PeerPrediction
from goldless.metrics.sentence_embedding import named_embedder
from goldless.metrics.text_metrics import BaselineMetric, TextPairMetric
from goldless.metrics.tvd_mi import CriticMetric
from goldless.plugins import Catalogue

Factory = Callable[[], TextPairMetric]

EMBEDDED: Mapping[str, Measure] = {
    "bertscore": "f1",
    "bertscore-precision": "precision",
    "bertscore-recall": "recall",
}
"""Baselines that take a model: ``bertscore[NAME]``."""

BASELINES: Mapping[str, Factory] = {
    "bleu": Bleu,
    "bleu-1": partial(Bleu, "bleu-1", 1),
    "bleu-2": partial(Bleu, "bleu-2", 2),
    "rouge-1": partial(Rouge, "rouge-1", 1),
    "rouge-2": partial(Rouge, "rouge-2", 2),
    "rouge-l": Rouge,
    **{name: partial(SentenceSimilarity, name, measure) for name, measure in EMBEDDED.items()},
    "length": Length,
    # as in PRE's table 2(b): NLTK's words, case and endings kept, no brevity penalty
    "pre-bleu-1": partial(Bleu, "pre-bleu-1", 1, "nltk", brevity_penalty=False),
    "pre-bleu-2": partial(Bleu, "pre-bleu-2", 2, "nltk", brevity_penalty=False),
    "pre-rouge-1": partial(Rouge, "pre-rouge-1", 1, "nltk"),
    "pre-rouge-2": partial(Rouge, "pre-rouge-2", 2, "nltk"),
    "pre-rouge-l": partial(Rouge, "pre-rouge-l", "l", "nltk"),
}
"""A factory for each baseline. Calling it loads and imports nothing."""


def baseline(name: str) -> TextPairMetric:
    """The baseline of this name: one of ``BASELINES``, or ``bertscore[NAME]`` with a sentence-transformers model."""
    if name in BASELINES:
        return BASELINES[name]()
    kind, bracket, model = name.removesuffix("]").partition("[")
    if kind in EMBEDDED and bracket and name.endswith("]") and model.strip():
        return SentenceSimilarity(name, EMBEDDED[kind], partial(named_embedder, model.strip()))
    raise MetricError(
        f"unknown baseline {name!r}{nearest(name, BASELINES) or '.'} Known baselines: {', '.join(BASELINES)}, "
        "and bertscore[NAME] with a sentence-transformers model"
    )


SOURCED = "grounding+covers"
"""The metric for studies whose prompts hold what the responses are about."""

METRICS = {
    "shared-info": "the default, by the kind of task: grounding+covers where prompts hold what the responses are "
    "about, else gem-raw+about; from eight agents on each response's closest peer is left out, and from eleven on it "
    "has eight peers, drawn for it: shared-info[peers=N] draws N",
    "shared-info[COLUMN]": "gem-s[COLUMN]+about, the second given a text column of the tasks table: "
    "shared-info[prompt]",
    "gem-raw": "pointwise mutual information between responses as they are",
    "gem": "the same after a chat model has rewritten them into plain points (needs --rewriter or recorded rewrites)",
    "gem-s[COLUMN]": "the same given a text column of the tasks table: gem-s[prompt], gem-s[abstract], gem-s[assw]; "
    "gem-s[assw,writer=MODEL] has a chat model write a missing abstract or assw",
    "gem-raw+control": "minus what the same two agents share on two other tasks, or N with gem-raw[control=N]+control; "
    "+control works with every metric over log-probabilities",
    "gem-raw+control+both": "mean of both directions, what a response says about its peers' and they about it; +both "
    "works with gem-raw, gem and gem-s",
    "gem-raw+about": "the other direction: what the peers' responses say about it; +about works with gem-raw, gem and "
    "gem-s",
    "grounding": "share of a response's information that its prompt explains; grounding[COLUMN] takes another text "
    "column of the tasks table as the source",
    "grounding+covers": "mean of grounding and covers: what the response takes from its source, and how much of what "
    "the others take it says; grounding+covers[COLUMN] with another source",
    "covers": "share of the information in the peers' responses that this response explains",
    "backed": "share of this response's information that the peers' responses explain",
    "peer-prediction": "how much a response helps a juror to predict other agents' second responses, after worked "
    "examples; peer-prediction[COLUMN] takes examples from tasks with the same value in COLUMN, "
    "peer-prediction[examples=N] another number than 3, peer-prediction[juror=MODEL,juror=MODEL] jurors other than the "
    "scorer",
    "tvd-mi": "how well a critic separates matched pairs of responses from shuffled ones; both directions; "
    "tvd-mi[shuffles=N] draws more of these, tvd-mi[calls=N] asks about the most informative pairs alone, "
    "tvd-mi[prompt=three-level] asks as the paper does",
    "tvd-mi[given]": "one direction: what a response reveals about its peers'",
    "tvd-mi[about]": "the other direction: what the peers' responses reveal about it",
    "tvd-mi[labels]": "how much raters' labels reveal about each other's; from the labels table, no model",
    "mi": "how much likelier two responses make each other, in nats per token",
    "gppm": "log p per token of the peer's response given this one, without subtracting the marginal",
    "bartscore": "mean of bartscore-recall and bartscore-precision",
    "bartscore-recall": "log p of the peer's response given this one, summed",
    "bartscore-precision": "log p of this response given the peer's, summed",
    "gptscore": "log p per token of this response given the peer's",
    "bleu": "words in common with the peers' responses, 0 to 1; also bleu-1, bleu-2",
    "rouge-l": "longest common subsequence of words with the peers' responses, 0 to 1; also rouge-1, rouge-2",
    "bertscore": "sentence similarity with the peers' by embeddings; also bertscore-precision, bertscore-recall "
    "(pip install 'goldless[embeddings]')",
    "bertscore[MODEL]": "the same with another sentence-transformers model",
    "rouge-l[reference]": "any of these compared with the task's reference instead of the peers' responses",
    "length": "number of words in the response, as a baseline for the other metrics",
    "review[SCALE]": "mean rating by --reviewers on a scale that rates single responses: 5-level, lm-examiner, …",
    "judge[TABLE]": "win rate in recorded comparisons judge_TABLE, both orders",
    "judge-first[TABLE]": "the same from the first position only, to reproduce published numbers",
}
"""Forms of metric names, with descriptions."""

Make = Callable[[str, str | None], Metric | None]
"""Makes a metric from its full name and the option in brackets; None: it does not take this option."""


def _plain(make: Callable[[str], Metric]) -> Make:
    return lambda name, option: None if option is not None else make(name)


def _gem_s(name: str, option: str | None) -> Metric | None:
    if option is None:
        raise MetricError(f"{name!r} needs the name of a synopsis. Try gem-s[abstract] for a column synopsis_abstract")
    return LikelihoodMetric(name, GEM, "rewrites if any", option.removeprefix("synopsis_"))


def _shared_info(name: str, option: str | None) -> Metric:
    if option is not None:
        return _short_for(f"gem-s[{option}]{ABOUT}", name)
    by_kind: dict[TaskKind, str] = {"sources": SOURCED, "repeated texts": f"gem-raw{CONTROL}{ABOUT}"}
    of_kind = {kind: _short_for(spelled, name) for kind, spelled in by_kind.items()}
    return replace(_short_for(f"gem-raw{ABOUT}", name), of_kind=of_kind)


def _short_for(spelled: str, name: str) -> LikelihoodMetric:
    """The metric under a short name, without each response's closest peer where there are many."""
    metric = find_metric(spelled)
    assert isinstance(metric, LikelihoodMetric)
    return replace(metric, name=name, short_for=spelled, but_closest=True, draws_peers=True)


def _grounded(name: str, option: str | None) -> Metric:
    return LikelihoodMetric(name, RELATIVES["covers"], source=(option or PROMPT).removeprefix("synopsis_"))


def _tvd_mi(name: str, option: str | None) -> Metric | None:
    if option == "labels":
        return RaterMetric(name)
    if option in {"given", "about"}:
        return CriticMetric(name, "given" if option == "given" else "about")
    return CriticMetric(name) if option is None else None


def _wins(name: str, option: str | None, *, both_orders: bool = True) -> Metric | None:
    return None if option is None else WinMetric(name, f"judge_{option.removeprefix('judge_')}", both_orders)


def _baseline(base: str) -> Make:
    def make(name: str, option: str | None) -> Metric | None:
        if option is None:
            return BaselineMetric(name, baseline(base), "nothing" if base == "length" else "peers")
        if option == "reference" and base != "length":
            return BaselineMetric(name, baseline(base), "reference")
        return BaselineMetric(name, baseline(f"{base}[{option}]")) if base in EMBEDDED else None

    return make


OURS: Mapping[str, Make] = {
    "shared-info": _shared_info,
    "gem-raw": _plain(lambda name: LikelihoodMetric(name, GEM)),
    "gem": _plain(lambda name: LikelihoodMetric(name, GEM, "rewrites")),
    "peer-prediction": PeerPrediction,
    "gem-s": _gem_s,
    SOURCED: _grounded,
    "grounding": lambda name, option: GroundingMetric(name, (option or PROMPT).removeprefix("synopsis_")),
    "tvd-mi": _tvd_mi,
    **{base: _plain(partial(LikelihoodMetric, likelihood=one)) for base, one in RELATIVES.items()},
    **{base: _baseline(base) for base in BASELINES},
    "review": lambda name, option: ReviewMetric(name, option) if option is not None else None,
    "judge": _wins,
    "judge-first": partial(_wins, both_orders=False),
}


def _wrong_shape(value: Any) -> str | None:
    needs = getattr(value, "needs", None)
    if isinstance(value, Metric) and not isinstance(needs, Needs | property):
        return f"a metric's needs must be a goldless.metrics.metric.Needs, got {type(needs).__name__}"
    called = getattr(value, "name", None)
    if isinstance(value, Metric) and isinstance(called, str) and called.partition("[")[0] in OURS:
        return f"a plugin's metric must not have the name of a built-in metric, got {called!r}"
    if isinstance(value, Metric) or callable(value):
        return None
    return f"a metric must have name, unit, needs and scores, or be a function that makes one, got {value!r}"


CATALOGUE: Catalogue[Any] = Catalogue("goldless.metrics", OURS, _wrong_shape)
"""A plugin provides a metric, or a function that makes one from the option in brackets."""


def find_metric(name: str) -> Metric:
    """The metric with this name."""
    for ending, modified in ((BOTH, _both), (ABOUT, _about), (CONTROL, _controlled)):
        if name.strip().endswith(ending):
            return modified(name.strip())
    match = re.fullmatch(r"([^\[\]]+)(?:\[([^\[\]]+)\])?", name.strip())
    base, option = (match[1].strip(), match[2]) if match else (name, None)
    option = option.strip() if option else None
    found = OURS[base](name, option) if base in OURS else _made(CATALOGUE.get(base), name, option)
    if found is not None:
        return found
    theirs = CATALOGUE.of_packages()
    near = nearest(name, (*METRICS, *BASELINES, *theirs)) or f". Metrics: {', '.join([*METRICS, *theirs])}."
    raise MetricError(f"unknown metric {name!r}{near} goldless list metrics describes all")


def _controlled(name: str) -> Metric:
    plain = find_metric(name.removesuffix(CONTROL))
    if not isinstance(plain, LikelihoodMetric):
        raise MetricError(
            f"{name!r}: {CONTROL} is for metrics over log-probabilities, got {plain.name}. "
            f"Try gem-raw{CONTROL}, gem-s[prompt]{CONTROL} or mi{CONTROL}"
        )
    direction = BOTH if plain.likelihood is GEM_BOTH else ABOUT if plain.likelihood is GEM_ABOUT else ""
    if plain.control or direction:
        right = plain.name.replace(direction, "").replace(CONTROL, "") + CONTROL + direction
        raise MetricError(f"{CONTROL} must come once, before {direction or BOTH}, got {name!r}. Try {right}")
    return replace(plain, name=name, control=True)


def _both(name: str) -> Metric:
    return _turned(name, BOTH, GEM_BOTH, "mi, bartscore and tvd-mi already are means of both directions")


def _about(name: str) -> Metric:
    return _turned(name, ABOUT, GEM_ABOUT, "Other metrics have one direction or both by their definition")


def _turned(name: str, ending: str, likelihood: Likelihood, otherwise: str) -> Metric:
    """The metric without the ending, in the direction or directions that the ending says."""
    plain = find_metric(name.removesuffix(ending))
    if not isinstance(plain, LikelihoodMetric) or plain.likelihood is not GEM:
        raise MetricError(
            f"{name!r}: {ending} is for gem-raw, gem and gem-s, got {plain.name}. {otherwise}. "
            f"Try gem-raw{CONTROL * (ending == BOTH)}{ending}"
        )
    return replace(plain, name=name, likelihood=likelihood)


def _made(entry: Any, name: str, option: str | None) -> Metric | None:
    """The metric that a plugin's entry makes."""
    if isinstance(entry, Metric) and not isinstance(entry, type):
        return entry if option is None else None
    if entry is None:
        return None
    # a class without arguments is its only metric
    made = entry(option) if inspect.signature(entry).parameters else entry()
    if not isinstance(made, Metric):
        raise MetricError(
            f"{name}: the plugin must make a metric with name, unit, needs and scores, got {type(made).__name__}"
        )
    return made
