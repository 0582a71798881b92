"""Laws that every metric of the catalogue obeys, with models whose answers depend on the texts alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import goldless
from goldless.metrics.catalogue import BASELINES, EMBEDDED, OURS, find_metric
from goldless.metrics.embedding_similarity import SentenceSimilarity
from goldless.metrics.sentence_embedding import SentenceEmbedder
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.runs.evaluation import Evaluation
from goldless.statistics.additive import scores_over_tasks
from tests.support.study_files import response_rows, study_folder

NAMES_OF = {
    "gem-raw": ("gem-raw", "gem-raw+control"),
    "mi": ("mi", "mi+control"),
    "gem-s": ("gem-s[abstract]",),
    "grounding": ("grounding[abstract]",),
    "grounding+covers": ("grounding+covers[abstract]",),
    "peer-prediction": ("peer-prediction", "peer-prediction[kind]"),
    "review": ("review[5-level]",),
    "judge": ("judge[words]",),
    "judge-first": ("judge-first[words]",),
    "tvd-mi": ("tvd-mi", "tvd-mi[given]", "tvd-mi[about]"),
    "rouge-l": ("rouge-l", "rouge-l[reference]"),
}
"""Metrics whose name takes something in brackets; of the others the name is all. tvd-mi[labels] ranks raters."""
METRICS = [name for base in OURS for name in NAMES_OF.get(base, (base,))]

Texts = Mapping[str, Mapping[str, str]]
TEXTS: Texts = {
    "t1": {"ann": "the zarn bluk mipo tolu", "bob": "the zarn bluk mipo", "cy": "a quex zarn"},
    "t2": {"ann": "vond rask ebbo the", "bob": "rask vond ebbo hoft", "cy": "a quex hoft"},
    "t3": {"ann": "lirp hoft gam the", "bob": "the lirp hoft", "cy": "hoft a quex"},
    "t4": {"ann": "sorn palu tavi", "bob": "sorn palu the quex", "cy": "quex"},
}


# --- models that know nothing but the texts ----------------------------------------------------------------------


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def likelihood(context: str, target: str) -> list[float]:
    known = set(words(context))
    return [-0.5 if word in known else -2.0 - len(word) / 10 for word in words(target)]


def refusing(secret: str | None, answer: Callable[..., object]) -> Callable[..., object]:
    """The answer, or a refusal where the secret text is part of the question."""

    def reply(*question):
        said = "\n".join(q if isinstance(q, str) else "\n".join(m.content for m in q.messages) for q in question)
        return CallFailure("refused", "no") if secret and secret in said else answer(*question)

    return reply


def share_a_word(request) -> str:
    found = re.findall(r"^(#{12,})\n(.*?)\n\1$", request.messages[1].content, flags=re.DOTALL | re.MULTILINE)
    first, second = (set(words(text)) - {"the", "a"} for _, text in found)
    return "Yes" if first & second else "No"


def rating(request) -> str:
    said = " ".join(message.content for message in request.messages)
    return str(1 + len(words(said)) % 5)


class LetterCounts:
    """Embeds a text as how often it has each letter."""

    limit = 64

    def __init__(self) -> None:
        self.tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
        self.tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()

    def encode(self, texts):
        counts = np.array([[text.count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for text in texts], dtype=np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def _embedder(monkeypatch):
    made = SentenceEmbedder(LetterCounts, {"model": "letters"})
    letters = {name: partial(SentenceSimilarity, name, measure, lambda: made) for name, measure in EMBEDDED.items()}
    monkeypatch.setattr("goldless.metrics.catalogue.BASELINES", {**BASELINES, **letters})


# --- studies and results -----------------------------------------------------------------------------------------


def write(folder: Path, texts: Texts) -> Path:
    """A study with references, synopses and recorded comparisons, in the order of the texts."""
    common = [
        {
            "task": t,
            "prompt": f"Say {t}.",
            "reference": f"{TEXTS[t]['bob']} indeed",
            "synopsis_abstract": f"quex {t}",
            "kind": "saying",
        }
        for t in texts
    ]
    wins = [
        # the longer response wins by its share of the letters, and the first place counts a little more
        {"task": t, "first": a, "second": b, "first_wins": min(1.0, len(x) / (len(x) + len(y)) + 0.05)}
        for t, by in texts.items()
        for a, x in by.items()
        for b, y in by.items()
        if a != b
    ]
    return study_folder(folder, tasks=common, responses=response_rows(texts), judge_words=wins)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory) -> Callable[..., Evaluation]:
    """Evaluates texts by all metrics; what was asked for before is not computed again."""
    known: dict[str, Evaluation] = {}

    def evaluate(texts: Texts = TEXTS, secret: str | None = None, **options) -> Evaluation:
        key = json.dumps([list(texts.items()), secret, options])
        if key not in known:
            known[key] = by_all_metrics(write(tmp_path_factory.mktemp("laws") / "study", texts), secret, **options)
        return known[key]

    return evaluate


def by_all_metrics(folder: Path, secret: str | None, **options) -> Evaluation:
    """The result of all metrics; none draws by chance, and worked examples do not tell the secret."""
    plain = refusing(secret, lambda request: request.messages[-1].content.replace("the ", ""))
    models = {
        "scorer": ScriptedModel(logprobs=refusing(secret, likelihood), name="scorer"),
        "rewriter": ScriptedModel(answers=plain, name="rewriter"),
        "critic": ScriptedModel(answers=refusing(secret, share_a_word), name="critic"),
        "reviewers": {"judge": ScriptedModel(answers=refusing(secret, rating), name="judge")},
    }
    others = len(TEXTS) - 1
    drawn = {"control_tasks": others, "shuffles": others, "verdicts": "labels"} | ({"examples": 0} if secret else {})
    journal = folder / ".journal"
    return goldless.evaluate(folder, metrics=METRICS, resamples=100, journal=journal, **models, **drawn, **options)


def responses(result: Evaluation, metric: str) -> dict[tuple[str, str], float | None]:
    frame = result.to_polars().filter(pl.col("metric") == metric)
    return {(row["task"], row["agent"]): row["score"] for row in frame.iter_rows(named=True)}


def approximately(expected: Mapping) -> dict:
    return {key: value if value is None else pytest.approx(value, abs=1e-9) for key, value in expected.items()}


# --- the laws ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_every_response_has_a_score_and_agents_differ(evaluated, metric):
    """Else the laws below would be true of nothing."""
    found = responses(evaluated(), metric)
    assert set(found) == {(task, agent) for task, by in TEXTS.items() for agent in by}
    assert len({round(value, 6) for value in found.values()}) > 1


@pytest.mark.parametrize("metric", METRICS)
def test_permuting_agents_permutes_scores(evaluated, metric):
    new = {"ann": "cy", "bob": "ann", "cy": "bob"}
    turned = {task: {new[agent]: by[agent] for agent in reversed(by)} for task, by in TEXTS.items()}
    before, after = responses(evaluated(), metric), responses(evaluated(turned), metric)
    assert after == approximately({(task, new[agent]): score for (task, agent), score in before.items()})


@pytest.mark.parametrize("metric", METRICS)
def test_permuting_tasks_changes_nothing(evaluated, metric):
    first, second = evaluated(), evaluated(dict(reversed(TEXTS.items())))
    assert responses(second, metric) == approximately(responses(first, metric))
    boards = [{row.agent: row.score for row in result.leaderboard(metric).rows} for result in (first, second)]
    assert boards[1] == approximately(boards[0])


@pytest.mark.parametrize("metric", METRICS)
def test_a_copy_scores_as_its_original_against_the_same_peers(evaluated, metric):
    copied = {task: {**by, "zoe": by["ann"]} for task, by in TEXTS.items()}
    found = responses(evaluated(copied, peers=["bob", "cy"]), metric)
    alone = responses(evaluated(peers=["bob", "cy"]), metric)
    for task in TEXTS:
        assert found[task, "zoe"] == pytest.approx(found[task, "ann"], abs=1e-9)
        assert found[task, "ann"] == pytest.approx(alone[task, "ann"], abs=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_a_response_that_is_not_there_has_no_score_and_its_agent_is_scored_on_the_others(evaluated, metric):
    less = {task: {a: x for a, x in by.items() if (task, a) != ("t1", "ann")} for task, by in TEXTS.items()}
    result = evaluated(less)
    found = responses(result, metric)
    assert found.get(("t1", "ann")) is None
    (row,) = [row for row in result.leaderboard(metric).rows if row.agent == "ann"]
    assert row.estimate.n == 3
    assert row.score == pytest.approx(over_tasks(found)["ann"])


@pytest.mark.parametrize("metric", [name for name in METRICS if find_metric(name).needs.model])
def test_what_a_model_refuses_to_answer_is_missing_and_never_zero(evaluated, metric):
    result = evaluated(secret="sorn palu")  # part of what ann and bob say to t4, and of no other text
    found = responses(result, metric)
    assert found["t4", "ann"] is None
    assert found["t4", "bob"] is None
    for row in result.leaderboard(metric).rows:
        scored = [score for (_, agent), score in found.items() if agent == row.agent and score is not None]
        assert row.estimate.n == len(scored)
        # reviewers and grounding rate cy by itself, all others compare it with the two
        needs = find_metric(metric).needs
        alone = needs.judgements or (needs.logprobs and not needs.logprobs.pairs)
        assert row.missing > 0 or (row.agent == "cy" and alone)
        assert row.score == pytest.approx(over_tasks(found)[row.agent])


def over_tasks(found):
    """The agents' scores by least squares with an effect of each task."""
    tasks, agents = (sorted({key[place] for key in found}) for place in (0, 1))
    table = np.array([[found.get((task, agent)) for agent in agents] for task in tasks], np.float64)
    return dict(zip(agents, scores_over_tasks(table), strict=True))


@pytest.mark.parametrize("metric", [name for name in METRICS if find_metric(name).needs.model])
def test_an_agent_whose_values_are_all_missing_changes_no_score(evaluated, metric):
    """What a model refuses about dan is absent, not zero."""
    secret = "grobnik"
    with_dan = {task: {**by_agent, "dan": f"{secret} {task}"} for task, by_agent in TEXTS.items()}
    found = responses(evaluated(with_dan, secret=secret), metric)
    before = responses(evaluated(TEXTS, secret=secret), metric)
    assert found == approximately(before | {(task, "dan"): None for task in TEXTS})


@pytest.mark.parametrize("metric", METRICS)
def test_the_unit_is_declared_and_is_that_of_every_leaderboard(evaluated, metric):
    unit = find_metric(metric).unit
    assert unit.strip()
    assert evaluated().leaderboard(metric).unit == unit
