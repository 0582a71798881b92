"""What the viewer shows as the prompt is what a model was asked: held against the calls that reached the model."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial

import anyio
import polars as pl

import goldless
from goldless.apps.studio.evidence import response_evidence
from goldless.apps.studio.site import Site
from goldless.models.interface import ChatRequest
from goldless.models.scripted import ScriptedModel
from goldless.reports.run_folder import RunFolder
from goldless.runs.options import Options
from goldless.runs.pipeline import review_study
from goldless.runs.prompts import Prompt
from goldless.runs.store import save_review, save_run
from goldless.studies import study_from_frame
from tests.apps.studio.viewer_runs import chat, scored_run
from tests.support.marked_verdicts import verdict_reply
from tests.support.study_files import response_rows, word_scorer

TEXTS = {
    "t1": {"ann": "zarn bluk", "bob": "zarn mipo", "cy": "quex"},
    "t2": {"ann": "vond rask", "bob": "rask ebbo", "cy": "quex"},
}


def study(prompt: str | None = None):
    tasks = pl.DataFrame(
        [{"task": t, "prompt": prompt and f"{prompt} {t}?", "synopsis_gist": f"Gist {t}"} for t in TEXTS]
    )
    return study_from_frame(pl.DataFrame(response_rows(TEXTS)), tasks=tasks, name="toy")


def evidence(folder, journal, number: int = 0, agent: str = "ann") -> dict:
    site = Site(folder, journal=journal)
    return response_evidence(site, site.task(folder.name, number), agent, {})


def everything(folder, journal, read) -> list:
    """All rows of a kind, over all tasks and agents, each once."""
    found = {}
    for number in range(len(TEXTS)):
        for agent in ("ann", "bob", "cy"):
            for row in read(evidence(folder, journal, number, agent)):
                found[number, str({key: value for key, value in row.row.items() if key != "logprobs_nats"})] = row
    return list(found.values())


def logprobs(found) -> list:
    return found["logprobs"].rows


def contents(asked: Prompt | ChatRequest) -> tuple[tuple[str, str], ...]:
    return tuple((message.role, message.content) for message in asked.messages)


def evaluated(folder, prompt: str | None = None, **options) -> None:
    save_run(goldless.evaluate(study(prompt), resamples=200, journal=folder.parent / "j.sqlite", **options), folder)


def test_the_prompt_of_every_log_probability_is_what_the_scorer_was_asked(tmp_path):
    scorer = scored_run(
        tmp_path / "run", TEXTS, tmp_path / "j.sqlite", metrics="gem-raw", template=["general", "plain"]
    )
    rows = everything(tmp_path / "run", tmp_path / "j.sqlite", logprobs)
    assert len(rows) == 2 * 2 * 9
    shown = {("\n\n".join(m.content for m in row.asked.messages), row.asked.target) for row in rows}
    called = {(call.context, call.target) for call in scorer.calls}
    # the canaries of the scorer are calls too
    assert shown <= called
    assert {target for _, target in shown} == {text for by in TEXTS.values() for text in by.values()}
    assert all(row.asked.messages and not row.asked.note for row in rows)


def test_a_synopsis_and_a_rewrite_stand_in_the_prompt_as_they_were_asked(tmp_path):
    scorer, rewriter = word_scorer(), chat("The point is zarn.", "Another point.", name="rewriter")
    evaluated(tmp_path / "run", "What", metrics="gem-s[gist]", scorer=scorer, rewriter=rewriter)
    rows = everything(tmp_path / "run", tmp_path / "j.sqlite", logprobs)
    shown = {("\n\n".join(m.content for m in row.asked.messages), row.asked.target) for row in rows}
    assert shown <= {(call.context, call.target) for call in scorer.calls}
    assert all("Gist t" in context for context, _ in shown)
    assert {target for _, target in shown} == {"The point is zarn.", "Another point."}
    rewrites = everything(tmp_path / "run", tmp_path / "j.sqlite", lambda found: found["rewrites"])
    assert {contents(row.asked) for row in rewrites} == set(map(contents, rewriter.calls))
    assert {row.asked.turns[0].reply for row in rewrites} == {"The point is zarn.", "Another point."}


def test_the_prompt_of_every_verdict_is_what_the_critic_was_asked_and_the_reply_is_found_in_the_journal(tmp_path):
    for prompt, verdict in (("same-source", "Yes"), ("three-level", "[[Little Gain]]")):
        critic = ScriptedModel(answers=partial(verdict_reply, verdict=verdict), name=f"critic {prompt}")
        evaluated(tmp_path / prompt, metrics="tvd-mi", critic=critic, critic_prompt=prompt, verdicts="labels")
        rows = everything(tmp_path / prompt, tmp_path / "j.sqlite", lambda found: found["verdicts"].rows)
        assert {contents(row.asked) for row in rows} == set(map(contents, critic.calls))
        assert all(row.asked.messages and not row.asked.note for row in rows)
        assert all(row.asked.turns[0].reply.endswith(verdict) for row in rows)


def judged(found):
    found = found["judgements"]
    return [*(row for _, rows in found["pairs"].rows for row in rows), *found["ratings"]]


def reviewed(tmp_path, reviewer, **options):
    options = Options.of(reviewers={"judge": reviewer}, resamples=200, journal=tmp_path / "j.sqlite", **options)
    save_review(anyio.run(review_study, study("Which of"), options), tmp_path / "run")
    return everything(tmp_path / "run", tmp_path / "j.sqlite", judged)


def test_the_prompt_of_every_judgement_is_what_the_reviewer_was_asked(tmp_path):
    for scale, reply in (("pairwise", "one"), ("5-level", "4")):
        reviewer = chat(reply, name=f"on {scale}")
        rows = reviewed(tmp_path / scale, reviewer, scale=scale, task_description="Prefer the shorter answer.")
        assert {contents(row.asked) for row in rows} == set(map(contents, reviewer.calls))
        assert {row.row["output"] for row in rows} == {reply}
        assert {row.asked.turns[0].reply for row in rows} == {reply}


def test_a_rating_that_a_score_and_a_review_of_one_folder_hold_is_shown_once(tmp_path):
    reviewer = chat("4", name="judge")
    evaluated(tmp_path / "run", "Which of", metrics="review[5-level]", reviewers={"judge": reviewer})
    reviewed(tmp_path, reviewer, scale="5-level")
    stored = RunFolder(tmp_path / "run").scan("judgements").collect()
    about = stored.filter((pl.col("task") == stored["task"][0]) & (pl.col("agent") == stored["agent"][0]))
    assert sorted(about["verb"]) == ["review", "score"]
    found = evidence(tmp_path / "run", tmp_path / "j.sqlite")["judgements"]
    assert (found["all_ratings"], [row.row["output"] for row in found["ratings"]]) == (1, ["4"])


def test_a_reply_without_a_verdict_is_shown_with_the_question_that_asked_again(tmp_path):
    rows = reviewed(tmp_path, chat("I cannot say.", "two"), scale="pairwise", verdicts="labels")
    twice = [row for row in rows if len(row.asked.turns) == 2]
    assert len(twice) == 1
    first, second = twice[0].asked.turns
    assert (first.reply, second.reply) == ("I cannot say.", "two")
    assert second.messages[-1].content.startswith("Your reply holds no verdict that can be read.")


def test_a_prompt_of_other_texts_or_of_another_version_is_not_shown_as_what_was_asked(tmp_path):
    scored_run(tmp_path / "run", TEXTS, tmp_path / "j.sqlite", metrics="gem-raw")
    board, texts = tmp_path / "run" / "leaderboard.json", tmp_path / "run" / "responses.parquet"
    board.write_text(board.read_text().replace(f'"goldless": "{goldless.__version__}"', '"goldless": "0.0.9"'))
    (first, *_) = logprobs(evidence(tmp_path / "run", tmp_path / "j.sqlite"))
    assert first.asked.note.startswith("in the wording of this version of goldless")
    assert first.asked.note.endswith("the run was made with 0.0.9")
    pl.read_parquet(texts).with_columns(pl.col("text") + " changed").write_parquet(texts)
    (first, *_) = logprobs(evidence(tmp_path / "run", tmp_path / "j.sqlite"))
    assert first.asked.note == "the texts in the folder are not the ones that were scored"


def test_a_reply_that_is_not_as_it_was_stored_is_not_shown(tmp_path):
    assert all(row.asked.turns[0].reply == "one" for row in reviewed(tmp_path, chat("one")))
    with closing(sqlite3.connect(tmp_path / "j.sqlite")) as journal:
        journal.execute("""update calls set reply = replace(reply, '"one"', '"two"')""")
        journal.commit()
    rows = judged(evidence(tmp_path / "run", tmp_path / "j.sqlite"))
    assert rows
    assert all(turn.reply is None for row in rows for turn in row.asked.turns)


def test_a_judgement_or_rewrite_is_said_to_be_word_for_word_only_where_the_journal_holds_the_question(tmp_path):
    assert all(row.asked.messages and not row.asked.note for row in reviewed(tmp_path, chat("one")))
    for row in judged(evidence(tmp_path / "run", tmp_path / "nowhere.sqlite")):
        assert "does not have the call" in row.asked.note
        assert row.asked.turns == ()
    assert not (tmp_path / "nowhere.sqlite").exists()
    rewriter = chat("The point is zarn.", name="rewriter")
    evaluated(tmp_path / "rewritten", "What", metrics="gem", scorer=word_scorer(), rewriter=rewriter)
    known, unknown = (evidence(tmp_path / "rewritten", tmp_path / f"{name}.sqlite") for name in ("j", "nowhere"))
    assert [row.asked.note for row in known["rewrites"]] == [""]
    assert "does not have the call" in unknown["rewrites"][0].asked.note
