"""A peer review from exam to ranking, with scripted reviewers whose judgements are known.

Responses hold a number, and a longer number of points is better: the honest reviewer prefers the higher number, the
lazy one always says one, the odd one answers in another language.
"""

from __future__ import annotations

import json
import math
import re

import polars as pl
import pytest

import goldless
from goldless.errors import MetricError, StudyError, UserError
from goldless.models.scripted import ScriptedModel
from goldless.reports.document import write
from tests.support.study_files import study_folder

TASKS = {f"t{i}": word for i, word in enumerate(("dogs", "cats", "boats", "rivers", "clocks", "lamps"))}
WORTH = {"ann": 9, "bob": 5, "cy": 2}


def study(prompts=True, labels=None, agents=None):
    responses = pl.DataFrame(
        [
            {"task": t, "agent": a, "text": f"About {word}: {n} points."}
            for t, word in TASKS.items()
            for a, n in WORTH.items()
        ]
    )
    tasks = pl.DataFrame([{"task": t, "prompt": f"Tell of {word} please"} for t, word in TASKS.items()])
    return goldless.study_from_frame(responses, tasks=tasks if prompts else None, labels=labels, agents=agents)


def people(flip=()):
    """Two raters that score as the worth is; on flipped tasks the other way round."""
    rows = [
        {"task": t, "agent": a, "rater": r, "score": float(-n if t in flip else n)}
        for t in TASKS
        for a, n in WORTH.items()
        for r in ("x", "y")
    ]
    return pl.DataFrame(rows)


def points(request) -> list[tuple[str, int]]:
    """What each fenced response is about, and its number."""
    fenced = re.findall(r"About (\w+): (\d+) points", request.messages[-1].content)
    return [(about, int(n)) for about, n in fenced]


def asked_about(request) -> str:
    return re.search(r"Tell of (\w+) please", request.messages[-1].content)[1]


def honest(name="honest"):
    def answer(request):
        (about1, first), (about2, second) = points(request)
        wanted = asked_about(request) if "Tell of" in request.messages[-1].content else about1
        if about1 != about2:
            return "one" if about1 == wanted else "two"
        return "one" if first > second else "two"

    return ScriptedModel(answers=answer, name=name)


def confident(name="confident"):
    """Honest, and surer the farther apart the two are; says so where it is asked how sure it is."""

    def answer(request):
        text = request.messages[0].content + request.messages[-1].content
        if "null" in text and "expert" in text:
            (_, first), (_, second) = points(request)
            return "expert" if abs(first - second) > 5 else "low"
        return honest()._answers(request)

    return ScriptedModel(answers=answer, name=name)


def odd(name="odd"):
    """Honest, but the other way round on every third task."""

    def answer(request):
        turned = list(TASKS.values()).index(points(request)[0][0]) % 3 == 0
        return {"one": "two", "two": "one"}[honest()._answers(request)] if turned else honest()._answers(request)

    return ScriptedModel(answers=answer, name=name)


def lazy(name="lazy"):
    return ScriptedModel(answers=lambda _: "one", name=name)


def review(reviewers, given=None, **options):
    return goldless.review(given or study(), reviewers=reviewers, **{"resamples": 200, "verdicts": "labels", **options})


def by_name(found):
    return {row.name: row for row in found.reviewers}


# --- the whole way -----------------------------------------------------------------------------------------------


def test_without_an_exam_all_vote_alike_and_the_lazy_ones_orders_cancel():
    found = review({"h": honest(), "l": lazy()})
    ranking = [(row.agent, row.rank) for row in found.ranking]
    assert ranking == [("ann", 1), ("bob", 2), ("cy", 3)]
    # ann beats both, bob one of two, cy none; the lazy one says "one" in both orders, which is a tie
    assert [row.score for row in found.ranking] == [1.0, 0.5, 0.0]
    assert found.voters == ("h", "l")
    # 3 pairs of agents on 6 tasks in both orders
    assert {row.asked for row in found.reviewers} == {36}


def test_consistency_lets_the_honest_one_pass_and_not_the_lazy_one():
    """Honest: the same way round in all 18 pairs, 1. Lazy: never, 0. The mean is 1/2."""
    found = review({"h": honest(), "l": lazy()}, exams="consistency")
    rows = by_name(found)
    assert (rows["h"].traits["consistency"].value, rows["l"].traits["consistency"].value) == (1.0, 0.0)
    assert (rows["h"].passed, rows["l"].passed) == (True, False)
    assert found.voters == ("h",)
    assert rows["l"].asked == 0, "who does not pass is not asked to judge"
    assert "not above 0.5" in rows["l"].why


def test_the_automatic_exam_measures_three_traits_and_weighs_by_their_mean():
    """Confident: 1, 1 and 1. Lazy: consistency 0, pertinence 1/2, confidence cannot be read from its one-word reply."""
    found = review({"c": confident(), "l": lazy()}, exams="auto")
    rows = by_name(found)
    assert {name: trait.value for name, trait in rows["c"].traits.items()} == {
        "consistency": 1.0,
        "pertinence": 1.0,
        "self-confidence": 1.0,
    }
    assert (rows["c"].passed, rows["c"].weight) == (True, 1.0)
    assert rows["l"].traits["pertinence"].value == 0.5
    assert not rows["l"].passed
    assert found.ranking[0].agent == "ann"


def test_the_human_exam_holds_reviewers_against_labels_and_keeps_its_pairs_out_of_the_test():
    """Questioners ann and bob: 6 exam pairs, 12 left. The honest one is right in all of them."""
    found = review({"h": honest(), "l": lazy()}, study(labels=people()), exams="human", questioners=["ann", "bob"])
    rows = by_name(found)
    assert rows["h"].traits["human exam"].value == 1.0
    # the lazy one is right in one order and wrong in the other
    assert rows["l"].traits["human exam"].value == 0.5
    assert found.labels == {"pairs": 18, "decided": 18, "tied": 0, "tested": 12}
    assert found.panel.agreement.accuracy.value == 1.0
    assert found.panel.agreement.n_pairs == 12
    overlapping = review(
        {"h": honest()}, study(labels=people()), exams="human", questioners=["ann", "bob"], overlap=True
    )
    assert overlapping.labels["tested"] == 18


def test_agreement_with_people_is_counted_on_pairs_and_by_rank():
    """People turned round on 2 of 6 tasks: the honest reviewer agrees on 4/6 of the pairs; Spearman is 1 or -1."""
    found = review({"h": honest()}, study(labels=people(flip=("t0", "t1"))))
    numbers = by_name(found)["h"].agreement
    assert numbers.accuracy.value == pytest.approx(4 / 6)
    assert numbers.spearman == pytest.approx((4 - 2) / 6)
    assert numbers.kendall_tau_a == pytest.approx((4 - 2) / 6)
    assert numbers.n_pairs == 18


def test_nobody_passing_says_who_came_nearest_and_asks_for_no_judgement():
    found = review({"l": lazy()}, exams="consistency")
    assert found.voters == ()
    assert found.nobody.startswith("no reviewer passed. Closest: l (consistency 0.0000 not above 0.5")
    assert found.rankings == {}
    assert found.judgements.is_empty()


def test_ratings_are_fused_z_normalised_and_rank_by_mean():
    """The strict reviewer gives 1, 2, 3 and the kind one 3, 4, 5: in standard deviations they are the same."""

    def rating(shift):
        order = {9: 3, 5: 2, 2: 1}
        return ScriptedModel(answers=lambda r: str(order[points(r)[0][1]] + shift), name=f"plus{shift}")

    found = review({"strict": rating(0), "kind": rating(2)}, scale="5-level")
    scores = [row.score for row in found.ranking]
    # three values one step apart: (x - mean) / sd of 1, 0, -1, whichever way the sd is taken over equal thirds
    assert scores[1] == pytest.approx(0.0, abs=1e-9)
    assert scores[0] == pytest.approx(-scores[2])
    raw = review({"strict": rating(0), "kind": rating(2)}, scale="5-level", fusion="raw")
    assert [row.score for row in raw.ranking] == pytest.approx([4.0, 3.0, 2.0])


def test_a_rating_out_of_range_is_unparsable_and_not_clamped():
    found = review({"far": ScriptedModel(answers=lambda _: "8", name="far")}, scale="5-level")
    assert dict(found.failures) == {"unparsable": 18}
    assert by_name(found)["far"].used == 0


# --- reviewers ---------------------------------------------------------------------------------------------------


def pairs_judged(found):
    return {frozenset(pair) for pair in found.judgements.select("first", "second").iter_rows()}


def test_a_reviewer_does_not_judge_its_own_family_unless_asked():
    agents = pl.DataFrame([{"agent": "ann", "family": "acme"}, {"agent": "bob"}, {"agent": "cy"}])
    found = review({"h": honest()}, study(agents=agents), families={"h": "acme"})
    assert pairs_judged(found) == {frozenset(("bob", "cy"))}
    asked = review({"h": honest()}, study(agents=agents), families={"h": "acme"}, own_family=True)
    assert len(asked.judgements) == 36
    assert "|own-family:left-out|" in found.signature
    assert "no reviewer judges agents of its own family (h: ann); --own-family lets it" in found.notes
    assert not [note for note in asked.notes if "own family" in note]


def test_a_reviewer_that_is_an_agent_of_the_study_does_not_judge_itself():
    """By its own name, or by its model's: agent ann is judged neither by the reviewer ann nor by a model called ann."""
    agents = pl.DataFrame([{"agent": "ann", "family": "open"}, {"agent": "bob"}, {"agent": "cy"}])
    for reviewers in ({"ann": honest()}, {"h": honest("ann")}):
        found = review(reviewers, study(agents=agents))
        assert pairs_judged(found) == {frozenset(("bob", "cy"))}


def test_settings_that_change_a_number_change_the_signature():
    labelled = study(labels=people(flip=("t0",)))
    base = {"exams": "human", "questioners": ["ann", "bob"]}
    lines = {
        review({"h": honest()}, labelled, **base).signature,
        review({"h": honest()}, labelled, **base, overlap=True).signature,
        review({"h": honest()}, labelled, **base, level=0.8).signature,
        review({"h": honest()}, labelled, **base, descriptions={"h": "Be kind."}).signature,
    }
    assert len(lines) == 4
    with pytest.raises(UserError, match="--questioners must be at least two agents, got ann"):
        review({"h": honest()}, labelled, exams="human", questioners=["ann", "ann"])


def test_a_study_without_prompts_is_judged_on_responses_alone_and_says_so():
    found = review({"h": honest()}, study(prompts=False))
    assert "|prompts:none: responses alone|" in found.signature
    with pytest.raises(UserError, match="needs prompts"):
        review({"h": honest()}, study(prompts=False), exams="pertinence")


@pytest.mark.parametrize(
    ("reviewers", "options", "message"),
    [
        (1, {"exams": "autto"}, "Did you mean 'auto'"),
        (1, {"exams": "none,auto"}, "none alone"),
        (1, {"scale": "6-level"}, "5-level"),
        (1, {"thresholds": {"pertinence": 0.5}, "exams": "consistency"}, "these exams measure: consistency"),
        (1, {"convention": "papers"}, "convention must be one of default, paper, pre, auto-pre, got 'papers'"),
        (0, {}, "no reviewer was named"),
        (1, {"exams": "human"}, "no labels"),
        (1, {"wheight": 1}, "Did you mean"),
        (1, {"easy": ("ann", "cy")}, "give both, or neither"),
        (1, {"debate": "C9"}, "unknown debate 'C9'"),
        (1, {"families": {"x": "acme"}}, "--family: unknown reviewer 'x'"),
        (2, {"exams": "auto+peers"}, "the exam peers must have at least 3 reviewers, got 2"),
        (3, {"exams": "peers", "weighting": "logit"}, "other than peers"),
        (3, {"exams": "auto+peers", "weight_from": "peers"}, "--weight-from must not be peers"),
        (1, {"orders": "one-random", "scale": "5-level"}, "orders one-random must be used with a scale that compares"),
        (1, {"orders": "once"}, "orders must be one of both, one-random, got 'once'"),
    ],
)
def test_bad_requests_are_refused_with_what_is_allowed_before_anything_is_asked(reviewers, options, message):
    models = {f"r{i}": honest() for i in range(reviewers)}
    with pytest.raises(UserError, match=message):
        review(models, **options)
    assert [len(model.calls) for model in models.values()] == [0] * reviewers


def test_questions_may_be_changed_by_a_model_for_the_pertinence_exam():
    """The changer writes of trains, and answers of trains; the honest reviewer prefers what was asked for."""

    def change(request):
        wanted = "Write another task" in request.messages[0].content
        return "Tell of trains please" if wanted else "About trains: 7 points."

    changer = ScriptedModel(answers=change, name="changer")
    found = review({"h": honest()}, exams="pertinence", changer=changer)
    assert by_name(found)["h"].traits["pertinence"].value == 1.0
    assert changer.calls
    assert len(found.spending) == 2


# --- what a panel is worth -----------------------------------------------------------------------------------------


def test_with_labels_errors_count_and_a_judge_that_is_never_wrong_has_none_to_share():
    found = review({"a": odd(), "b": odd(), "h": honest()}, study(labels=people()))
    worth = write(found)["panel"]["worth"]
    assert worth["errors"]["votes"]["value"] == pytest.approx(1.0)
    assert "every pair: h" in worth["errors"]["votes"]["note"]
    # two of three are wrong on every third task, and so is the model that believes them
    assert worth["right"] == pytest.approx(2 / 3)


# --- peers as an exam ----------------------------------------------------------------------------------------------


def test_the_exam_by_peers_lets_the_odd_one_out_fail_and_asks_no_more_than_consistency():
    alone = {"a": honest("a"), "b": honest("b"), "o": odd("o")}
    found = review(alone, exams="peers")
    assert found.voters == ("a", "b")
    assert {row.name: row.weight for row in found.reviewers} == {"a": 1.0, "b": 1.0, "o": None}
    both = {"a": honest("d"), "b": honest("e"), "o": odd("p")}
    review(both, exams="consistency,peers")
    assert [len(model.calls) for model in alone.values()] == [len(model.calls) for model in both.values()]


# --- one order -----------------------------------------------------------------------------------------------------


def test_one_random_order_halves_the_calls_and_ranks_alike():
    both, once = honest("both"), honest("once")
    ranked = [review({"r": both}), review({"r": once}, orders="one-random")]
    assert (len(both.calls), len(once.calls)) == (36, 18)
    orders = [[row.agent for row in found.ranking] for found in ranked]
    assert orders[0] == orders[1] == ["ann", "bob", "cy"]
    assert "orders:one-random" in ranked[1].signature
    assert "orders" not in ranked[0].signature


def test_position_bias_is_reported_apart():
    """The lazy one takes the first wherever it is; the honest one has no bias: each agent is first half the time."""
    found = review({"h": honest(), "l": lazy()}, orders="one-random")
    rows = {row.name: row.first_shown for row in found.reviewers}
    assert (rows["l"].value, rows["l"].n) == (1.0, 18)
    assert rows["h"].value == pytest.approx(0.5)
    # shown first as often as second, all agents win as often with it: its votes are noise, not a lean
    alone = review({"l": lazy()}, orders="one-random")
    assert [row.score for row in alone.ranking] == [0.5] * 3


def test_recorded_judgements_in_both_orders_are_read_as_if_asked_once(tmp_path, goldless):
    texts = [{"task": t, "agent": a, "text": f"{a} {t}"} for t in TASKS for a in WORTH]
    rows = [
        {"reviewer": r, "format": "pairwise", "task": t, "first": a, "second": b, "output": "one"}
        for r in ("x", "y")
        for t in TASKS
        for a in WORTH
        for b in WORTH
        if a != b
    ]
    kept = study_folder(tmp_path / "judged", responses=texts, judgements=rows)
    line = ("review", str(kept), "--recorded", "--orders", "one-random", "--format", "json")
    found = json.loads(goldless(*line).out)
    assert [(row["asked"], row["first_shown"]["value"]) for row in found["reviewers"]] == [(18, 1.0), (18, 1.0)]
    shown = goldless(*line[:-2]).out
    assert "Position bias" in shown
    assert "independent votes" in shown


# --- licences ----------------------------------------------------------------------------------------------------


def test_a_licence_stands_for_the_exam_and_is_refused_for_another_task_or_model(tmp_path):
    folder = tmp_path / "licences"
    first = review({"h": honest()}, exams="consistency", issue_to=folder, task_kind="points")
    assert len(first.licences) == 1
    with_licence = review({"h": honest()}, licences=[folder], task_kind="points")
    assert with_licence.voters == ("h",)
    assert by_name(with_licence)["h"].weight == by_name(first)["h"].weight
    with pytest.raises(UserError, match="'points', not 'poems'"):
        review({"h": honest()}, licences=[folder], task_kind="poems")
    with pytest.raises(UserError, match="other"):
        review({"o": honest("other")}, licences=[folder], task_kind="points")
    with pytest.raises(UserError, match="leave out --exam"):
        review({"h": honest()}, licences=[folder], exams="auto")
    with pytest.raises(UserError, match="another prompt"):
        review({"h": honest()}, licences=[folder], task_kind="points", descriptions={"h": "Prefer rhymes."})


# --- the folder --------------------------------------------------------------------------------------------------


def test_a_saved_review_is_a_study_that_gives_the_same_ranking_without_a_model(tmp_path):
    found = review({"h": honest(), "l": lazy()}, study(labels=people()))
    folder = goldless.save_review(found, tmp_path / "run")
    assert json.loads((folder / "review.json").read_text())["rankings"]["win rate"]["agents"][0]["agent"] == "ann"
    again = goldless.review(folder, recorded=True, resamples=200, own_family=True)
    assert [(r.agent, r.score) for r in again.ranking] == [(r.agent, r.score) for r in found.ranking]


def test_recorded_values_off_the_scale_and_strange_names_are_not_taken(tmp_path):
    folder = goldless.save_review(review({"h": honest()}), tmp_path / "run")
    part = folder / "judgements" / "part-00000.parquet"
    frame = pl.read_parquet(part)
    frame.with_columns(value=pl.lit(7.0), output=pl.lit("?")).write_parquet(part)
    found = goldless.review(folder, recorded=True, resamples=200)
    assert dict(found.failures) == {"unparsable": 36}
    (folder / "agents.jsonl").write_text('{"agent": "ann"}\n{"agent": "bob"}\n')
    with pytest.raises(StudyError, match="agent 'cy' is not in agents"):
        goldless.review(folder, recorded=True)


def test_the_exams_of_a_saved_review_can_be_held_again_without_a_model(tmp_path):
    found = review({"c": confident(), "l": lazy()}, exams="auto")
    folder = goldless.save_review(found, tmp_path / "run")
    again = goldless.review(folder, recorded=True, reviewers=["c"], exams="self-confidence,pertinence", resamples=200)
    assert {name: trait.value for name, trait in by_name(again)["c"].traits.items()} == {
        "self-confidence": 1.0,
        "pertinence": 1.0,
    }


def recorded_exams(tmp_path, rows):
    """A study with judgements of h and l, and these rows as its table of exams."""
    folder = goldless.save_review(review({"h": honest(), "l": lazy()}), tmp_path / "run")
    return study_folder(folder, exams=rows)


def confidence_rows(reviewer, **columns):
    """One row for an easy and one for a hard item, with a cell of each column."""
    return [
        {"reviewer": reviewer, "exam": "self-confidence", "item": difficulty, "difficulty": difficulty}
        | {name: cells[i] for name, cells in columns.items()}
        for i, difficulty in enumerate(("easy", "hard"))
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (confidence_rows("h", certainty=(0.8, 0.4)), r"the table exams: unknown column 'certainty'"),
        (
            confidence_rows("h", probability=(80, 40)),
            r"the table exams, h: probability must be above 0 and at most 1, got 80",
        ),
        (confidence_rows("h", probability=("sure", "0.4")), r"probability must be a number, got 'sure'"),
        (confidence_rows("h", exam=("confidence",) * 2), r"exam must be planted, .*, got 'confidence'"),
        (confidence_rows("h", difficulty=("easy", "medium")), r"difficulty must be easy or hard .*, got 'medium'"),
    ],
)
def test_recorded_exam_answers_that_are_not_understood_are_an_error(tmp_path, rows, said):
    folder = recorded_exams(tmp_path, rows)
    with pytest.raises(MetricError, match=said):
        goldless.review(folder, recorded=True, exams="self-confidence", resamples=200)
    assert goldless.review(folder, recorded=True, resamples=200).voters == ("h", "l")  # no exam reads them


def rated_study(tmp_path):
    """Ratings of three reviewers, by agent: h right on all tasks, m on four of six, o in odd cases unparsable."""
    given = study(labels=people())
    rows = []
    for i, task in enumerate(TASKS):
        ratings = {
            "h": {"ann": "5", "bob": "3", "cy": "1"},
            "m": {"ann": "4", "bob": "3", "cy": "2"} if i < 4 else {"ann": "2", "bob": "3", "cy": "4"},
            "o": {"ann": "I cannot say" if i == 0 else "2", "bob": "1", "cy": "1"},
        }
        rows += [
            {"reviewer": r, "format": "5-level", "task": task, "agent": a, "output": output}
            for r, by_agent in ratings.items()
            for a, output in by_agent.items()
        ]
    return study_folder(goldless.write_study(given, tmp_path / "rated"), judgements=rows)


def test_the_papers_count_an_unparsable_rating_as_0(tmp_path):
    """o on 18 pairs: ann over bob and ann over cy are right on 5 tasks and, 0 against 1, wrong on one; bob ties cy."""
    folder = rated_study(tmp_path)
    how = {"recorded": True, "scale": "5-level", "resamples": 200}
    paper = by_name(goldless.review(folder, convention="paper", **how))["o"]
    assert paper.agreement.accuracy.value == pytest.approx((10 + 6 / 2) / 18)
    assert (paper.asked, paper.used) == (18, 17)
    default = by_name(goldless.review(folder, **how))["o"]
    assert default.agreement.accuracy.value == pytest.approx((10 + 6 / 2) / 16)


def test_pre_weighs_by_log_odds_and_adds_z_and_auto_pre_by_accuracy_and_adds_raw(tmp_path):
    """On ann and bob: h right on 6 tasks of 6 (held to .99), m on 4, o on 5."""
    folder = rated_study(tmp_path)
    how = {"recorded": True, "scale": "5-level", "resamples": 200, "exams": "human", "questioners": ["ann", "bob"]}
    pre, auto, paper = (goldless.review(folder, convention=name, **how) for name in ("pre", "auto-pre", "paper"))
    shares = {"h": 1, "m": 4 / 6, "o": 5 / 6}
    log_odds = {"h": math.log(99), "m": math.log(2), "o": math.log(5)}
    for found, weights, fusion in ((pre, log_odds, "z"), (auto, shares, "raw"), (paper, shares, "raw")):
        assert {name: one.weight for name, one in by_name(found).items()} == pytest.approx(weights)
        assert f"|fusion:{fusion}|" in found.signature
        assert found.labels["tested"] == 18
    both = goldless.review(
        folder, convention="pre", **{**how, "exams": "human,consistency"}, thresholds={"consistency": None}
    )
    assert {name: one.weight for name, one in by_name(both).items()} == pytest.approx(log_odds)

    with pytest.raises(UserError, match="--convention auto-pre needs --questioners"):
        goldless.review(folder, convention="auto-pre", **{**how, "questioners": None})


def test_a_sweep_shows_every_limit_and_kind_of_weights(tmp_path, request):
    """By hand, on ann and bob: h is right on 6 tasks of 6, m on 4 and o on 5; equal votes of h alone are all right."""
    goldless_command = request.getfixturevalue("goldless")  # the package has the same name here
    folder = rated_study(tmp_path)
    line = ["review", folder, "--recorded", "--scale", "5-level", "--exam", "human", "--questioners", "ann,bob"]
    ended = goldless_command(*line, "--convention", "auto-pre", "--sweep", "0.9,0.7", "--format", "json")
    cells = {(cell["limit"], cell["weights"]): cell for cell in json.loads(ended.out)["sweep"]}
    assert {limit: cells[limit, "equal"]["reviewers"] for limit in (0.9, 0.7)} == {0.9: ["h"], 0.7: ["h", "o"]}
    assert cells[0.9, "equal"]["agreement"]["accuracy"]["value"] == 1
    assert "limit and weights" in goldless_command(*line, "--overlap", "--sweep", "0.9,mean").out
    assert "--sweep must be comma-separated numbers or mean" in goldless_command(*line, "--sweep", "high").err
    with pytest.raises(UserError, match="an exam whose limit can vary"):
        goldless.review(folder, recorded=True, scale="5-level", sweep=[0.6])


def test_recorded_judgements_that_are_not_there_are_an_error_that_names_those_that_are(tmp_path):
    found = review({"h": honest()})
    folder = goldless.save_review(found, tmp_path / "run")
    with pytest.raises(MetricError, match=r"no judgements on the scale 5-level. It has: pairwise"):
        goldless.review(folder, recorded=True, scale="5-level")
    with pytest.raises(UserError, match="on the scale pairwise run has no judgements of 'x'"):
        goldless.review(folder, reviewers="x", recorded=True)
