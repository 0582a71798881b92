"""Explaining a pair, with figures worked out by hand.

The toy scorer gives ln 4 nats for every word of the peer's response that the candidate's has; a token is a word with
what stands behind it.
"""

from __future__ import annotations

import math
import re

import pytest

import goldless
from goldless.errors import CapabilityError, MetricError, TextTooLongError, UserError
from goldless.models.scripted import ScriptedModel
from goldless.runs.explaining import explain_pair
from goldless.runs.options import Options
from goldless.studies import read_study
from tests.support.study_files import response_rows, study_folder

pytestmark = pytest.mark.anyio

LN4 = math.log(4)
TEXTS = {
    "t1": {"ann": "zarn bluk. mipo hoft.", "bob": "zarn mipo. quex bluk.", "cy": "zarn bluk. zarn bluk."},
    "t2": {"ann": "vond.", "bob": "vond rask."},
}


def words(text: str) -> list[str]:
    return re.findall(r"\w+\W*", text)


@pytest.fixture
def study(study_file):
    return read_study(study_file(TEXTS))


@pytest.fixture
def explain(study, toy_scorer, tmp_path):
    """Explains a pair of the study above; ``model`` is the scorer."""

    async def run(task="t1", agent="ann", peer="bob", *, of=study, **options):
        scorer = options.pop("scorer", None) or toy_scorer(tokens=words)
        calling = {name: options.pop(name) for name in ("say", "journal") if name in options}
        given = Options.of(scorer=scorer, **{"journal": tmp_path / "explain.sqlite", **calling})
        return await explain_pair(of, given, task=task, agent=agent, peer=peer, **options)

    return run


async def test_the_worked_map(explain):
    found = await explain()
    assert found.total_nats == pytest.approx(3 * LN4)  # zarn, mipo, bluk
    assert [token.text for token in found.tokens] == ["zarn ", "mipo. ", "quex ", "bluk."]
    assert [token.gain_nats for token in found.tokens] == pytest.approx([LN4, LN4, 0, LN4])
    assert [s.gain_nats for s in found.peer_sentences] == pytest.approx([2 * LN4, LN4])
    assert [s.contribution_nats for s in found.candidate_sentences] == pytest.approx([2 * LN4, LN4])
    assert found.matrix_nats == (pytest.approx((LN4, LN4)), pytest.approx((LN4, 0)))
    assert (found.task, found.agent, found.peer, found.end_gain_nats) == ("t1", "ann", "bob", None)
    assert found.peer_text == TEXTS["t1"]["bob"]
    assert found.signature.startswith("information-map|scorer:scripted:toy|template:general|synopsis:none|")


async def test_everything_is_asked_in_one_batch_and_never_again(explain, toy_scorer):
    batches = []

    class Counting(ScriptedModel):
        async def score(self, requests, deliver):
            batches.append(len(requests))
            await super().score(requests, deliver)

    def make():
        return Counting(logprobs=toy_scorer()._logprobs, tokens=words, name="toy")

    first = await explain(scorer=make())
    assert batches[-1] == 4  # given nothing, given all, without the first, without the second
    before = len(batches)
    said = []
    assert await explain(scorer=make(), say=said.append) == first
    assert len(batches) == before
    assert said == ["scripted:toy: 0 calls now (0 tokens), 4 from the journal"]


async def test_what_a_score_run_has_asked_is_not_asked_again(explain, study, toy_scorer, tmp_path):
    path = tmp_path / "both.sqlite"
    goldless.evaluate(study, metrics="gem-raw", scorer=toy_scorer(), journal=path, resamples=100)
    scorer = toy_scorer(tokens=words)
    await explain(scorer=scorer, journal=path)
    assert len(scorer.calls) == 2  # the candidate without each of its two sentences


async def test_the_map_of_a_pair_is_the_pmi_that_evaluate_gives(explain, study, toy_scorer):
    evidence = goldless.evaluate(study, metrics="gem-raw", scorer=toy_scorer(), resamples=100).logprobs
    sums = dict(evidence.filter(task="t1", target="bob").select("given", "sum_logprob_nats").iter_rows())
    assert (await explain()).total_nats == pytest.approx(sums["ann"] - sums[None])


# --- synopses and rewrites ---------------------------------------------------------------------------------------


@pytest.fixture
def rich_study(tmp_path):
    task = {"task": "t1", "prompt": "Find quex.", "notes": "quex", "year": 3, "synopsis_abstract": "quex"}
    rewrites = response_rows({"t1": {"ann": "rask", "bob": " rask lirp\n"}})
    tables = {"responses": response_rows({"t1": TEXTS["t1"]}), "rewrites": [{"rewriter": "r", **r} for r in rewrites]}
    return read_study(study_folder(tmp_path / "rich", tasks=[task], **tables))


@pytest.mark.parametrize(
    ("name", "shown"),
    [("abstract", "quex"), ("synopsis_abstract", "quex"), ("prompt", "Find quex."), ("notes", "quex")],
)
async def test_what_a_synopsis_or_any_text_column_tells_is_no_gain(explain, rich_study, toy_scorer, name, shown):
    scorer = toy_scorer(tokens=words)
    found = await explain(of=rich_study, synopsis=name, scorer=scorer)
    assert found.total_nats == pytest.approx(3 * LN4)
    assert f"|synopsis:{name.removeprefix('synopsis_')}|" in found.signature
    assert sum(f"[Synopsis of the task]\n\n{shown}" in call.context for call in scorer.calls) == 4


async def test_recorded_rewrites_are_explained_when_asked_for(explain, rich_study):
    found = await explain(of=rich_study, text="rewrites")
    assert (found.agent_text, found.peer_text) == ("rask", "rask lirp")
    assert found.total_nats == pytest.approx(LN4)
    assert "|rewriter:r|" in found.signature


async def test_a_synopsis_or_rewrite_that_is_not_there_is_named(explain, rich_study):
    with pytest.raises(
        MetricError, match=r"no synopsis 'abstrct'. Did you mean 'abstract'\? It has: abstract, prompt, notes"
    ):
        await explain(of=rich_study, synopsis="abstrct")
    with pytest.raises(MetricError, match=r"no synopsis 'year'. It has"):
        await explain(of=rich_study, synopsis="year")
    with pytest.raises(MetricError, match="no rewrite of the response of cy to t1"):
        await explain(of=rich_study, peer="cy", text="rewrites")
    with pytest.raises(MetricError, match=r"no synopsis 'assw'. It has: none"):
        await explain(synopsis="assw")


# --- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("t11", "ann", "bob"), r"no task 't11' in the study. Did you mean 't1'\?"),
        (("t1", "anne", "bob"), r"no agent 'anne' in the study. Did you mean 'ann'\?"),
        (("t1", "ann", "bobb"), r"no agent 'bobb' in the study. Did you mean 'bob'\?"),
        (("t1", "ann", "ann"), r"got 'ann' for both.*Other agents that answered t1: bob, cy"),
        (("t2", "cy", "bob"), r"cy has no response to t2. Answered by: ann, bob"),
        (("t2", "ann", "cy"), r"cy has no response to t2"),
    ],
)
async def test_a_pair_that_cannot_be_explained_is_refused_before_a_model_is_asked(explain, toy_scorer, pair, message):
    scorer = toy_scorer(tokens=words)
    with pytest.raises(UserError, match=message):
        await explain(*pair, scorer=scorer)
    assert scorer.calls == []


class Short(ScriptedModel):
    context_length = 20


@pytest.mark.parametrize(
    ("scorer", "error", "message"),
    [
        (
            lambda _: ScriptedModel(answers={}),
            CapabilityError,
            r"does not return log-probabilities.*embedded, gguf:PATH, hf:NAME_OR_PATH",
        ),
        (lambda toy: toy(tokens=None), CapabilityError, "does not return the text of its tokens"),
        (lambda toy: toy(tokens=str.split), CapabilityError, "spell 'zarnmipo"),
        (
            lambda toy: Short(logprobs=toy()._logprobs, tokens=words),
            TextTooLongError,
            r"\d+ tokens do not fit the context of 20",
        ),
    ],
    ids=["writes only", "without tokens", "tokens that do not spell", "texts are never cut"],
)
async def test_a_scorer_that_cannot_make_a_map_is_refused(explain, toy_scorer, scorer, error, message):
    with pytest.raises(error, match=message):
        await explain(scorer=scorer(toy_scorer))
