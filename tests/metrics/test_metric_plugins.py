"""Metrics by their names, and a metric of somebody's own, installed as a package."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import polars as pl
import pytest

import goldless as package
from goldless.errors import MetricError, UserError
from goldless.metrics.catalogue import METRICS, find_metric
from goldless.metrics.metric import LogprobNeed, Needs, Scores
from goldless.models.scripted import ScriptedModel
from tests.support.evidence_frames import scores


class Toy:
    """Nats that a response tells about its peers', and how often a critic sees that both belong together."""

    name = "toy"
    unit = "nats and verdicts"
    needs = Needs(logprobs=LogprobNeed(), verdicts="both")

    def scores(self, data):
        logprobs, verdicts = data.evidence.logprobs, data.evidence.verdicts
        alone = logprobs.filter(pl.col("given").is_null()).select("task", "target", alone="sum_logprob_nats")
        told = logprobs.drop_nulls("given").join(alone, on=["task", "target"])
        gained = told.group_by("task", agent="given").agg(
            gain=(pl.col("sum_logprob_nats") - pl.col("alone")).mean(), asked=pl.len().cast(pl.Int64)
        )
        matched = verdicts.filter(pl.col("task") == pl.col("second_task"))
        seen = matched.group_by("task", agent="first").agg(seen=pl.col("value").mean())
        rows = gained.join(seen, on=["task", "agent"]).with_columns(
            score=pl.col("gain") + pl.col("seen"), used=pl.col("asked")
        )
        return Scores(rows.select("task", "agent", "score", "asked", "used"), settings={"toy": "1"})


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, installed):
    """Makes values look like what an installed package adds under the names given."""

    def make(**values: object) -> None:
        module = ModuleType("toy_package")
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, "toy_package", module)
        installed(*(EntryPoint(name, f"toy_package:{name}", "goldless.metrics") for name in values))

    return make


def critic(reply: str = "Yes") -> ScriptedModel:
    return ScriptedModel(answers=lambda _: reply, name="critic")


@pytest.mark.parametrize(("reply", "seen"), [("Yes", 1.0), ("No", 0.0)])
def test_it_gets_the_log_probabilities_and_verdicts_it_asks_for(install, study_file, toy_scorer, reply, seen):
    """Where a critic sees all matched pairs as such, its score is GEM's and one more, by its own definition."""
    install(toy=Toy())
    result = package.evaluate(
        study_file(), metrics=["toy", "gem-raw"], scorer=toy_scorer(), critic=critic(reply), resamples=200
    )
    expected = {agent: pytest.approx(score + seen) for agent, score in scores(result, "gem-raw").items()}
    assert scores(result, "toy") == expected
    board = result.leaderboard("toy")
    assert board.unit == "nats and verdicts"
    assert board.signature.startswith("toy|toy:1|")
    # who gave the evidence it rests on, though it said nothing of that itself
    for told in (
        "scorer:scripted:toy",
        "template:general",
        "critic:scripted:critic",
        "prompt:same-source",
        "peers:all",
    ):
        assert f"|{told}|" in board.signature
    assert "critic" not in result.leaderboard("gem-raw").signature


def test_it_is_computed_again_from_recorded_evidence(install, study_file, toy_scorer, tmp_path):
    install(toy=Toy())
    live = package.evaluate(study_file(), metrics="toy", scorer=toy_scorer(), critic=critic(), resamples=200)
    folder = package.save_run(live, tmp_path / "run")
    again = package.evaluate(folder, metrics="toy", recorded=True, resamples=200)
    assert scores(again, "toy") == scores(live, "toy")
    bare = tmp_path / "bare"
    package.write_study(package.read_study(study_file()), bare)
    with pytest.raises(MetricError, match=r"has no recorded log-probabilities .* which toy needs"):
        package.evaluate(bare, metrics="toy", recorded=True)


def test_a_function_makes_the_metric_of_what_stands_in_the_brackets(install, study_file, toy_scorer):
    class Named(Toy):
        def __init__(self, option: str | None) -> None:
            self.name = "named" if option is None else f"named[{option}]"

    install(named=Named)
    result = package.evaluate(
        study_file(), metrics=["named", "named[x]"], scorer=toy_scorer(), critic=critic(), resamples=200
    )
    assert scores(result, "named") == scores(result, "named[x]")


class Wrong(Toy):
    def __init__(self, found) -> None:
        self.found = found

    def scores(self, data):
        return self.found


NAMES = {"task": pl.String, "agent": pl.String, "score": pl.Float64}
TEXT = {"score": pl.String}
COUNTS = {"asked": pl.Int64, "used": pl.Int64}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (3.0, "toy: scores must be a Scores, got float"),
        (Scores(pl.DataFrame(schema=NAMES)), r"toy: the responses must have the columns .*, got task, agent, score"),
        (
            Scores(pl.DataFrame([("t9", "ann", 1.0, 1, 1)], schema={**NAMES, **COUNTS}, orient="row")),
            "toy: the responses have the task 't9', which is not in the study",
        ),
        (
            Scores(pl.DataFrame([("t1", "eve", 1.0, 1, 1)], schema={**NAMES, **COUNTS}, orient="row")),
            "toy: the responses have the agent 'eve', which is not in the study",
        ),
        (
            Scores(pl.DataFrame([("t1", "ann", 1.0, 1, 1)] * 2, schema={**NAMES, **COUNTS}, orient="row")),
            "toy: responses must have one row per task and agent, got more for t1, ann",
        ),
        (
            Scores(pl.DataFrame([("t1", "ann", "much", 1, 1)], schema={**NAMES, **TEXT, **COUNTS}, orient="row")),
            "toy: the responses' score must be Float64, got String",
        ),
    ],
    ids=["no scores", "lacking columns", "strange task", "strange agent", "twice", "no number"],
)
def test_what_a_metric_gives_in_another_shape_is_told(install, study_file, toy_scorer, found, message):
    install(toy=Wrong(found))
    with pytest.raises(MetricError, match=message):
        package.evaluate(study_file(), metrics="toy", scorer=toy_scorer(), critic=critic(), resamples=200)


def test_a_metric_that_calls_itself_like_one_of_ours_cannot_be_used(install, study_file):
    """Its numbers would stand under our name."""
    disguised = Toy()
    disguised.name = "gem-raw"
    install(harmless=disguised)
    with pytest.raises(UserError, match=r"'harmless' from the package unknown cannot be used: .* got 'gem-raw'"):
        package.evaluate(study_file(), metrics="harmless")


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", METRICS)
def test_every_form_that_is_listed_is_known(form):
    name = form.replace("COLUMN", "abstract").replace("TABLE", "with_context")
    metric = find_metric(name)
    assert metric.name == name
    assert metric.unit


def test_gem_s_names_its_synopsis_with_or_without_the_columns_prefix():
    assert find_metric("gem-s[abstract]").synopsis == "abstract"
    assert find_metric("gem-s[synopsis_abstract]").synopsis == "abstract"


@pytest.mark.parametrize("name", ["gem-s[]", "gem[abstract]", "tvd-mi[both]", "judge", "mi[x]", "", "gem-s[a"])
def test_what_is_not_a_metric_is_refused_with_what_is_meant_or_all_that_are(name):
    with pytest.raises(MetricError, match=r"unknown metric.*goldless list metrics describes all") as caught:
        find_metric(name)
    assert "Did you mean" in str(caught.value) or all(form in str(caught.value) for form in METRICS)


def test_gem_s_without_a_synopsis_asks_for_one():
    with pytest.raises(MetricError, match=r"needs the name of a synopsis. Try gem-s\[abstract\]"):
        find_metric("gem-s")
