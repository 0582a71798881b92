"""TVD-MI in a run, with critics whose verdicts are known.

The critic says Yes where the two responses share a word, so matched pairs of agents that answer the task are told from
shuffled ones, and an agent that always says the same is not.
"""

from __future__ import annotations

import math
import re

import pytest

import goldless
from goldless.errors import MetricError
from goldless.models.interface import ChatReply
from goldless.models.scripted import ScriptedModel
from tests.support.evidence_frames import scores
from tests.support.study_files import response_rows

WORDS = ["zarn", "bluk", "mipo", "vond", "rask"]
TEXTS = {f"t{i}": {"ann": f"{w} one", "bob": f"two {w}", "null": "nothing"} for i, w in enumerate(WORDS)}


def fenced(request) -> tuple[str, str]:
    first, second = re.findall(r"^(#{12,})\n(.*?)\n\1$", request.messages[1].content, flags=re.DOTALL | re.MULTILINE)
    return first[1], second[1]


def share(request) -> bool:
    first, second = (set(text.split()) for text in fenced(request))
    return bool(first & second)


def critic(answer=lambda request: "Yes" if share(request) else "No", **options) -> ScriptedModel:
    return ScriptedModel(answers=answer, **{"name": "critic", **options})


def evaluate(model=None, study=None, metrics="tvd-mi", **options):
    given = response_rows(TEXTS) if study is None else study
    return goldless.evaluate(given, metrics=metrics, critic=model or critic(), resamples=200, **options)


def test_agents_that_answer_the_task_are_told_from_one_that_does_not():
    """ann and bob know each other's task (1) and share nothing with null (matched Yes never, so 0): mean 1/2.

    null against itself is no pair; against ann and bob it shares no word, matched or shuffled.
    """
    result = evaluate()
    assert scores(result) == {"ann": 0.5, "bob": 0.5, "null": 0.0}
    for part in ("|critic:scripted:critic|", "|prompt:same-source|", "|shuffles:off-diagonal-4|", "|direction:both|"):
        assert part in result.leaderboard().signature
    assert result.scorer is None
    assert result.models["critic"].name == "critic"


def test_each_matched_pair_is_held_against_four_shuffles_or_as_many_as_asked():
    asked = {m: evaluate(shuffles=m).asked for m in (1, 2, None)}
    # 6 ordered pairs of agents on 5 tasks, each with 1 matched and m shuffled questions
    assert asked == {1: 30 * 2, 2: 30 * 3, None: 30 * 5}


def test_agents_without_two_tasks_in_common_are_an_error_that_says_so():
    lonely = {"t1": {"ann": "a", "bob": "b"}, "t2": {"cy": "c", "dan": "d"}}
    with pytest.raises(MetricError, match="no two agents have two tasks in common"):
        evaluate(study=response_rows(lonely))


def test_one_direction_alone_is_there_by_name_at_no_further_call():
    """A critic that says Yes only where the first response is ann's."""
    one_sided = critic(lambda r: "Yes" if share(r) and fenced(r)[0].endswith("one") else "No")
    result = evaluate(one_sided, metrics=["tvd-mi", "tvd-mi[given]", "tvd-mi[about]"])
    # ann: (1 + 0 + nothing about her) / 3; bob: in his own place the mean of ann's 1 about him and null's 0
    assert scores(result, "tvd-mi[given]") == pytest.approx({"ann": 1 / 3, "bob": 1 / 6, "null": 0.0})
    assert scores(result, "tvd-mi[about]") == pytest.approx({"ann": 1 / 6, "bob": 1 / 3, "null": 0.0})
    assert scores(result, "tvd-mi") == {"ann": 0.25, "bob": 0.25, "null": 0.0}
    assert len(one_sided.calls) == len({str(call.messages) for call in one_sided.calls})


def test_a_critic_that_answers_outside_its_labels_is_asked_once_more_then_missing():
    """It says Perhaps to everything about bob's t0, twice."""
    odd = critic(lambda r: "Perhaps" if "two zarn" in r.messages[1].content else ("Yes" if share(r) else "No"))
    result = evaluate(odd, shuffles=1)
    assert set(result.failures) == {"unparsable"}
    assert result.complete
    again = [call for call in odd.calls if len(call.messages) > 2]
    assert again
    assert all("Yes or No" in call.messages[-1].content for call in again)
    assert {row.agent: row.missing > 0 for row in result.leaderboard().rows} == dict.fromkeys(TEXTS["t0"], True)


def test_a_budget_of_calls_is_kept_and_stands_in_the_signature():
    result = evaluate(budget_calls=40)
    assert result.asked <= 40
    assert f"|calls:{result.asked}|" in result.leaderboard().signature
    assert scores(result)["ann"] > scores(result)["null"]
    with pytest.raises(MetricError, match="at least 12 critic calls to rank 3 agents"):
        evaluate(budget_calls=5)


def test_a_critic_that_scores_is_read_by_its_labels_probabilities_and_progress_counts_the_planned_calls():
    """Twice as likely to say Yes as No where a word is shared, else the other way: 2/3 - 1/3 = 1/3 for ann and bob."""

    def logprobs(context, target):
        texts = re.findall(r"^#{12,}\n(.*?)\n#{12,}$", context, flags=re.DOTALL | re.MULTILINE)
        if not texts:  # the canaries' texts, and that by which a plan is timed
            return [-1.0 - 2.0 * (word not in context) for word in target.split()]
        first, second = (set(text.split()) for text in texts)
        likely = {"Yes": 2 / 3, "No": 1 / 3} if first & second else {"Yes": 1 / 3, "No": 2 / 3}
        return [math.log(likely[target])]

    soft, reports = ScriptedModel(logprobs=logprobs, name="soft"), []
    (planned,) = goldless.plan(response_rows(TEXTS), metrics="tvd-mi", critic=soft).together
    result = evaluate(soft, progress=reports.append)
    assert planned.calls == reports[-1].total == reports[-1].done == result.spending[0].kept
    assert scores(result) == pytest.approx({"ann": 1 / 6, "bob": 1 / 6, "null": 0.0})
    assert "|verdicts:probabilities-scored|" in result.leaderboard().signature
    assert set(result.verdicts["read_from"]) == {"probabilities"}


def test_one_model_may_play_several_parts_and_is_opened_once():
    prepared = []

    class Both(ScriptedModel):
        async def prepare(self):
            prepared.append(1)

    both = Both(
        logprobs=lambda c, t: [-1.0 if w in c else -2.0 for w in t.split()],
        answers=lambda r: ChatReply("Yes" if share(r) else "No"),
        name="both",
    )
    result = goldless.evaluate(
        response_rows(TEXTS), metrics=["gem-raw", "tvd-mi"], scorer=both, critic=both, verdicts="labels", resamples=200
    )
    assert prepared == [1]
    assert len(result.spending) == 1
    assert scores(result, "tvd-mi") == {"ann": 0.5, "bob": 0.5, "null": 0.0}
