"""Honest against deceptive agents: twins that a model writes, and recorded groups, compared as two groups."""

from __future__ import annotations

import hashlib
import re
from statistics import fmean

import pytest
from scipy.stats import mannwhitneyu

import goldless as library
from goldless.meta_evaluation.perturbations.catalogue import DECEPTIVE
from goldless.meta_evaluation.perturbations.perturbation import perturb_study
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.runs.options import Options
from goldless.studies import study_from_frame

RIGHT = ["zarn", "bluk", "mipo", "tolu", "vond", "rask"]


def shared_words(context: str, target: str) -> list[float]:
    known = set(re.findall(r"\w+", context))
    return [-0.5 if word in known else -3.0 for word in re.findall(r"\w+", target)]


def forgetful(context: str, target: str) -> list[float]:
    """Remembers long words alone, of which the responses have none."""
    return shared_words(" ".join(word for word in re.findall(r"\w+", context) if len(word) > 6), target)


def study(samples: int = 1):
    rows = [
        {"task": f"t{i}", "prompt": f"Name {i}.", "agent": agent, "text": f"{right} {agent} {right}{n}"}
        | ({"sample": n} if samples > 1 else {})
        for i, right in enumerate(RIGHT)
        for agent in ("ann", "bob", "cy")
        for n in range(1, samples + 1)
    ]
    return study_from_frame(rows)


def liar() -> ScriptedModel:
    """Writes another lie for each text; refuses one."""

    def answer(request) -> str | CallFailure:
        text = request.messages[-1].content
        if text.startswith("rask cy"):
            return CallFailure("refused", "no")
        return " ".join(re.findall("....", hashlib.sha256(text.encode()).hexdigest())[:3])

    return ScriptedModel(answers=answer, name="liar")


async def with_twins(tmp_path, samples: int = 1):
    options = Options.of(journal=tmp_path / "j")
    await perturb_study(study(samples), tmp_path / "twins", [DECEPTIVE], writer=liar(), options=options)
    return library.read_study(tmp_path / "twins")


def compare_groups(twins, tmp_path, metric: str, scorer=shared_words):
    model = ScriptedModel(logprobs=scorer, name=scorer.__name__)
    asked = {"compare_groups": ("original", "degradation"), "resamples": 200, "journal": tmp_path / "j"}
    return library.evaluate(twins, metrics=metric, scorer=model, **asked).outcomes[metric].groups


@pytest.mark.anyio
async def test_twins_written_by_a_model_score_below_their_originals_unless_the_scorer_learns_nothing(tmp_path):
    twins = await with_twins(tmp_path)
    found = compare_groups(twins, tmp_path, "gem-raw")
    # on one of the six tasks a twin is missing, so the three pairs there are left out
    assert (found.auc_by_task.value, found.auc_by_task.n) == (1.0, 5)
    assert (found.n_first, found.n_second) == (15, 15)
    assert compare_groups(twins, tmp_path, "gem-raw", forgetful).auc_by_task.value == 0.5


@pytest.mark.anyio
async def test_twins_of_both_samples_play_both_parts_in_peer_prediction(tmp_path):
    found = compare_groups(await with_twins(tmp_path, samples=2), tmp_path, "peer-prediction")
    assert found.auc_by_task.value > 0.9
    assert found.n_first == 15


@pytest.mark.nightly
def test_recorded_groups_have_the_auc_of_scipy_within_tasks(recorded):
    source = library.read_study(recorded / "samsum_peer_prediction")
    groups = ("good faith", "problematic")
    evaluation = library.evaluate(source, metrics="tvd-mi", recorded=True, compare_groups=groups, resamples=200)
    group = {agent.agent: agent.group for agent in source.agents}
    by_task: dict[str, dict[str, list[float]]] = {}
    for row in evaluation.to_polars().iter_rows(named=True):
        by_task.setdefault(row["task"], {}).setdefault(str(group[row["agent"]]), []).append(row["score"])
    of_tasks = [
        mannwhitneyu(one["good faith"], one["problematic"]).statistic
        / (len(one["good faith"]) * len(one["problematic"]))
        for one in by_task.values()
    ]
    found = evaluation.outcomes["tvd-mi"].groups.auc_by_task
    assert (found.value, found.n) == (pytest.approx(fmean(of_tasks)), 200)
    assert found.low < found.value < found.high
    assert round(found.value, 2) == 0.86  # as on the page of the crash test
