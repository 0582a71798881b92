"""The deception drill; AUCs against SciPy's Mann-Whitney U."""

from __future__ import annotations

import hashlib
import json
import re
from statistics import fmean

import pytest
from scipy.stats import mannwhitneyu

import goldless as library
from goldless.errors import UserError
from goldless.meta_evaluation.crash_test import deception_drill
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.runs.options import Options
from goldless.studies import study_from_frame

pytestmark = pytest.mark.anyio

RIGHT = ["zarn", "bluk", "mipo", "tolu", "vond", "rask"]


def shared_words(context: str, target: str) -> list[float]:
    known = set(re.findall(r"\w+", context))
    return [-0.5 if word in known else -3.0 for word in re.findall(r"\w+", target)]


def hazy(context: str, target: str) -> list[float]:
    """Remembers long words alone, of which the responses have none."""
    known = {word for word in re.findall(r"\w+", context) if len(word) > 6}
    return [-0.5 if word in known else -3.0 for word in re.findall(r"\w+", target)]


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


def options(tmp_path, *metrics: str, scorer=shared_words) -> Options:
    model = ScriptedModel(logprobs=scorer, name=scorer.__name__)
    return Options(metrics=metrics, scorer=model, journal=tmp_path / "j", resamples=200)


async def test_twins_written_by_a_model_enter_the_study_and_score_below_their_originals(tmp_path):
    scorers = [ScriptedModel(logprobs=script, name=script.__name__) for script in (hazy, shared_words)]
    found = await deception_drill(study(), options(tmp_path, "gem-raw", "length"), writer=liar(), scorers=scorers)
    rows = {(row.metric, row.model): row for row in found.rows}
    assert set(rows) == {("gem-raw", "scripted:hazy"), ("gem-raw", "scripted:shared_words"), ("length", None)}
    assert rows["gem-raw", "scripted:shared_words"].auc.value == 1.0
    assert rows["gem-raw", "scripted:hazy"].auc.value == 0.5  # a juror that learns nothing
    good = rows["gem-raw", "scripted:shared_words"]
    assert (good.auc.n, good.honest, good.deceptive) == (6, 18, 17)
    assert found.missing == {"refused": 1}
    assert found.deceptive == ("ann~deceptive", "bob~deceptive", "cy~deceptive")


async def test_twins_of_both_samples_play_both_parts_in_peer_prediction(tmp_path):
    found = await deception_drill(study(2), options(tmp_path, "peer-prediction"), writer=liar())
    (row,) = found.rows
    assert "predicted:second-sample" in row.signature
    assert row.auc.value > 0.9
    assert row.honest == 18


async def test_what_cannot_be_drilled_is_refused(tmp_path):
    asked = options(tmp_path, "gem-raw")
    for problem, given in (
        ("or a chat model that writes twins", {}),
        ("no agent of frame is in the group 'good'", {"honest": "good", "deceptive": "bad"}),
        ("leave out one", {"honest": "good", "writer": liar()}),
    ):
        with pytest.raises(UserError, match=problem):
            await deception_drill(study(), asked, **given)


@pytest.mark.nightly
def test_recorded_groups_have_the_auc_of_scipy_within_tasks(goldless, recorded):
    path = recorded / "samsum_peer_prediction"
    groups = ["--honest", "good faith", "--deceptive", "problematic"]
    metrics = ["--metric", "tvd-mi,judge[with_context]", "--recorded", "--resamples", "200", "--json"]
    ended = goldless("crashtest", "--drill", path, *groups, *metrics)
    assert ended.code == 0, ended.err
    rows = {row["metric"]: row for row in json.loads(ended.out)["rows"]}
    source = library.read_study(path)
    group = {agent.agent: agent.group for agent in source.agents}
    scored = library.evaluate(source, metrics="tvd-mi", recorded=True, resamples=100).to_polars()
    by_task: dict[str, dict[str, list[float]]] = {}
    for row in scored.iter_rows(named=True):
        by_task.setdefault(row["task"], {}).setdefault(str(group[row["agent"]]), []).append(row["score"])
    wanted = [
        mannwhitneyu(one["good faith"], one["problematic"]).statistic
        / (len(one["good faith"]) * len(one["problematic"]))
        for one in by_task.values()
    ]
    assert rows["tvd-mi"]["auc"] == pytest.approx(fmean(wanted))
    assert rows["tvd-mi"]["low"] < rows["tvd-mi"]["auc"] < rows["tvd-mi"]["high"]
    assert rows["tvd-mi"]["tasks"] == 200
    assert set(rows) == {"tvd-mi", "judge[with_context]"}
