"""The A/A certificate: flips counted where a judge was asked twice, bounds as scipy gives them, nothing paid twice."""

from __future__ import annotations

import re

import polars as pl
import pytest
from scipy import stats

import goldless
from goldless.comparison.certificate import flip_bound, verdicts_needed
from goldless.errors import UserError
from goldless.models.scripted import ScriptedModel
from tests.comparison.comparison_runs import judge, noisy, reviewed, worths, written_run
from tests.support.study_files import word_scorer


def gate(run, **options):
    return goldless.gate(run, **{"baseline": "old", "candidate": "new", "margin": 0.1, "resamples": 200, **options})


@pytest.mark.parametrize(("flips", "asked"), [(0, 59), (0, 20), (3, 11), (7, 100), (5, 5)])
@pytest.mark.parametrize("alpha", [0.05, 0.1])
def test_the_bound_is_scipys_exact_one_of_clopper_and_pearson(flips, asked, alpha):
    exact = stats.binomtest(flips, asked, alternative="less").proportion_ci(1 - alpha, method="exact")
    assert flip_bound(flips, asked, alpha) == pytest.approx(exact.high)


def test_without_a_flip_59_verdicts_are_needed_at_one_in_twenty():
    """The rule of three, exactly: 0.95^59 < 0.05 < 0.95^58."""
    assert verdicts_needed(0, 0.05) == 59
    assert verdicts_needed(0, 0.1) == 22


# --- reviewers -------------------------------------------------------------------------------------------------------


def test_a_judge_that_was_never_asked_twice_decides_nothing_unless_one_says_so(tmp_path):
    run = reviewed(tmp_path / "run", judge(), worths())
    found = gate(run)
    assert (found.verdict, found.certificate.state) == ("INCONCLUSIVE", "missing")
    assert found.reason == "no decision, because the judge is not certified"
    assert "was not asked twice. Ask it again with --aa 59" in found.certificate.words
    assert gate(run, uncertified=True).verdict == "SHIP"


def test_a_steady_judge_is_certified_by_asking_again_once_and_for_all(tmp_path):
    model = judge()
    run = reviewed(tmp_path / "run", model, worths())
    before = len(model.calls)
    found = gate(run, aa=60, reviewers={"judge": model})
    assert (found.verdict, found.certificate.asked, found.certificate.flips) == ("SHIP", 60, 0)
    assert found.certificate.upper == pytest.approx(1 - 0.05 ** (1 / 60))
    assert [row.calls for row in found.spending] == [60]
    assert len(model.calls) == before + 60
    # kept with the run: the next gate calls no one
    again = gate(run, aa=60, reviewers={"judge": model})
    assert (again.certificate, len(model.calls)) == (found.certificate, before + 60)
    assert gate(run).verdict == "SHIP"
    # and in the journal, should the folder be lost
    other = reviewed(tmp_path / "other", model, worths())
    assert gate(other, aa=60, reviewers={"judge": model}).certificate.asked == 60
    assert len(model.calls) == before + 60


def test_a_judge_that_changes_its_mind_decides_nothing(tmp_path):
    model = judge(flips=12)
    run = reviewed(tmp_path / "run", model, worths())
    found = gate(run, aa=60, reviewers={"judge": model})
    exact = stats.binomtest(12, 60, alternative="less").proportion_ci(0.95, method="exact")
    assert (found.verdict, found.certificate.state, found.certificate.flips) == ("INCONCLUSIVE", "refused", 12)
    assert found.certificate.upper == pytest.approx(exact.high)
    assert "12 of 60 verdicts flipped when asked twice" in found.certificate.words
    # not even where it is said that none is needed
    assert gate(run, uncertified=True).verdict == "INCONCLUSIVE"


def test_an_answer_without_a_verdict_counts_as_another_one(tmp_path):
    asked: dict[str, int] = {}

    def answer(request) -> str:
        question = "\n".join(message.content for message in request.messages)
        asked[question] = asked.get(question, 0) + 1
        return "one" if asked[question] == 1 and "no verdict" not in question else "hm"

    model = ScriptedModel(answers=answer, name="judge")
    run = reviewed(tmp_path / "run", model, worths(20))
    found = gate(run, aa=10, reviewers={"judge": model})
    assert (found.certificate.asked, found.certificate.flips) == (10, 10)


def test_ratings_flip_where_the_other_of_the_two_responses_is_rated_higher(tmp_path):
    model = judge(rates=True, flips=6)
    run = reviewed(tmp_path / "run", model, worths(), scale="5-level")
    found = gate(run, aa=40, reviewers={"judge": model})
    # 6 ratings of 80 were turned round (2 to 4, or 4 to 2): each makes a tie of its pair, unless both ratings of one
    # pair were turned, which is one flip as well
    assert found.certificate.asked == 40
    assert 3 <= found.certificate.flips <= 6


def test_a_second_run_of_the_same_questions_is_a_certificate_too(tmp_path):
    run = reviewed(tmp_path / "run", judge(), worths())
    again = reviewed(tmp_path / "again", judge(), worths(), journal=tmp_path / "j.sqlite")
    found = gate(run, second_runs=again)
    # 40 tasks, two orders, and three pairs of agents of which each has old or new in it
    assert (found.verdict, found.certificate.asked) == ("SHIP", 240)


def test_a_second_run_that_asked_nothing_new_or_something_else_certifies_nothing(tmp_path):
    run = reviewed(tmp_path / "run", judge(), worths(12))
    journalled = reviewed(tmp_path / "journalled", judge(), worths(12))
    other = reviewed(tmp_path / "other", judge(), worths(12, new=5), journal=tmp_path / "j1")
    another = reviewed(tmp_path / "another", judge(name="else"), worths(12), journal=tmp_path / "j2")
    for repeats, said in (
        (run, "the same answers twice certify nothing"),
        (journalled, "took all its answers from the journal"),
        (other, "is a run of other texts than"),
        (another, "reviewers is scripted:judge in run and scripted:else in another"),
        (tmp_path, "is not a run folder"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            gate(run, second_runs=repeats)


def test_another_model_or_an_unnamed_one_cannot_certify(tmp_path):
    run = reviewed(tmp_path / "run", judge(), worths(12))
    with pytest.raises(UserError, match=re.escape("must be the judge of the run, scripted:judge, got scripted:other")):
        gate(run, aa=5, reviewers={"judge": judge(name="other")})
    with pytest.raises(UserError, match=re.escape("name judge as in the review, such as --reviewers judge=MODEL")):
        gate(run, aa=5)
    with pytest.raises(UserError, match=re.escape("aa must be at least 1, got 0")):
        gate(run, aa=0, reviewers={"judge": judge()})
    result = goldless.review(run, reviewers=["judge"], recorded=True, resamples=200)
    recorded = goldless.save_review(result, tmp_path / "recorded")
    with pytest.raises(UserError, match="are recorded ones, so its model cannot be asked again"):
        gate(recorded, aa=5, reviewers={"judge": judge()})


# --- a critic --------------------------------------------------------------------------------------------------------

WORDS = ("zarn", "bluk", "mipo", "vond", "rask", "ebbo", "lirp", "hoft", "quex", "tolu", "wemp", "dask")


def critic(*, steady: bool = True) -> ScriptedModel:
    """Says Yes where the two responses share a word; an unsteady one, the second time, always No."""
    asked: dict[str, int] = {}

    def answer(request) -> str:
        question = request.messages[-1].content
        asked[question] = asked.get(question, 0) + 1
        first, second = re.findall(r"^(#{12,})\n(.*?)\n\1$", question, flags=re.DOTALL | re.MULTILINE)
        share = set(first[1].split()) & set(second[1].split())
        return "Yes" if share and (steady or asked[question] == 1) else "No"

    return ScriptedModel(answers=answer, name="critic")


def criticised(tmp_path, model):
    rows = [
        {"task": f"t{i}", "agent": agent, "text": f"{word} {agent}"}
        for i, word in enumerate(WORDS)
        for agent in ("old", "new", "other")
    ]
    result = goldless.evaluate(pl.DataFrame(rows), metrics="tvd-mi", critic=model, resamples=200)
    return goldless.save_run(result, tmp_path / "run")


def test_a_critic_is_asked_again_question_by_question(tmp_path):
    model = critic()
    run = criticised(tmp_path, model)
    assert gate(run).certificate.state == "missing"
    found = gate(run, aa=80, critic=model, margin=0.6)
    assert (found.verdict, found.certificate.asked, found.certificate.flips) == ("SHIP", 80, 0)


def test_a_critic_that_says_no_the_second_time_flips_on_every_yes(tmp_path):
    model = critic(steady=False)
    run = criticised(tmp_path, model)
    found = gate(run, aa=360, critic=model)
    verdicts = pl.read_parquet(run / "verdicts")
    assert found.certificate.asked == len(verdicts)  # every pair of three agents has one of the two
    assert found.certificate.flips == int((verdicts["label"] == "Yes").sum()) > 0
    assert found.verdict == "INCONCLUSIVE"


def test_verdicts_read_from_log_probabilities_are_certified_by_their_noise(tmp_path):
    """Where both labels are equally likely, every verdict is one half, and all of them could flip."""

    def scorer(yes: float) -> ScriptedModel:
        labels = {"Yes": [yes], "No": [-1.0]}
        words = word_scorer()._logprobs
        return ScriptedModel(logprobs=lambda c, t: labels.get(t) or words(c, t), name=f"scorer{yes}")

    found = gate(criticised(tmp_path / "even", scorer(-1.0)))
    assert found.certificate.state == "refused"
    assert "0 nats on 9 texts asked twice, so at most 360 of 360 verdicts can flip" in found.certificate.words
    found = gate(criticised(tmp_path / "sure", scorer(-0.1)))
    assert (found.certificate.state, found.certificate.asked, found.certificate.flips) == ("certified", 360, 0)


# --- log-probabilities and functions ---------------------------------------------------------------------------------


def test_the_noise_of_a_scorer_moves_the_bounds_before_they_decide(tmp_path):
    signature = "gem-raw|scorer:x|peers:all|seed:0"
    board = {"canaries": {"tokens_counted": True, "copied_nats": -1.0, "shuffled_nats": -9.0, "noise_nats": 0.02}}
    scores = noisy(40, 0.0, seed=3)
    calm = written_run(tmp_path / "calm", scores, metric="gem-raw", unit="nats", signature=signature)
    low = gate(calm, margin=1).bounds.low
    margin = -low + 0.04  # shipped by 0.04 nats, but four log-probabilities may each be off by 0.02
    assert gate(calm, margin=margin).verdict == "SHIP"
    loud = written_run(tmp_path / "loud", scores, metric="gem-raw", unit="nats", signature=signature, board=board)
    found = gate(loud, margin=margin)
    assert (found.verdict, found.certificate.shift) == ("INCONCLUSIVE", pytest.approx(0.08))
    assert "at most 0.02 nats on 9 texts asked twice" in found.certificate.words
