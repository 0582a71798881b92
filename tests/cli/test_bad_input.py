"""Bad input ends in one clear message on standard error and exit code 2: no traceback, nothing on standard output."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from goldless.models.scripted import ScriptedModel
from tests.support.paths import FIXTURES
from tests.support.study_files import response_rows, study_folder

KNOWN_MODELS = (
    *("embedded", "gguf:PATH", "hf:NAME_OR_PATH", "openai:MODEL", "http://HOST:PORT/v1#MODEL", "scripted:FILE"),
)
RUNS = FIXTURES / "runs"
SIX = {f"t{i}": {"ann": f"x{i}", "bob": f"y{i}"} for i in range(6)}


@pytest.fixture(autouse=True)
def _no_calls(monkeypatch):
    """Whatever is wrong is found before a model is asked anything."""

    async def score(self, requests, deliver):
        pytest.fail("a scorer was asked")

    monkeypatch.setattr(ScriptedModel, "score", score)


@pytest.fixture
def script(script_file):
    return f"scripted:{script_file([{'context': 'a', 'target': 'b', 'logprobs': [-1]}])}"


@pytest.fixture
def refuses(goldless):
    """Runs a command that must be refused; gives its message."""

    def run(*arguments) -> str:
        ended = goldless(*arguments)
        assert ended.code == 2, ended.err
        assert ended.out == ""
        assert "Traceback" not in ended.err
        assert ended.err.startswith(("error: ", "Usage: goldless"))
        assert ended.err.count("error: ") <= 1
        return ended.err

    return run


@pytest.fixture
def scored(refuses, script):
    """The message where a study is scored with the scripted scorer."""
    return lambda study, *more: refuses("score", study, "--metric", "gem-raw", "--scorer", script, *more)


# --- the study ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("nowhere.jsonl", None, "nowhere.jsonl"),
        ("e.jsonl", b"", "e.jsonl: the file is empty"),
        ("e.csv", b"", "e.csv: the file is empty"),
        ("e.csv", b"task,agent,text\n", "e.csv: no rows"),
        ("latin.jsonl", '{"task": "t", "agent": "a", "text": "grün"}\n'.encode("latin-1"), "latin.jsonl:1"),
        ("latin.jsonl", '{"task": "t", "agent": "a", "text": "grün"}\n'.encode("latin-1"), "UTF-8"),
        ("wrong.csv", b"task,agnet,text\nt,a,x\nt,b,y\n", "Try --columns agent=agnet\n"),
        ("two.csv", b"task,agent,text\nt,a,x\nt,a,y\nt,b,z\n", "a second response of agent 'a' to task 't'"),
        ("two.csv", b"task,agent,text\nt,a,x\nt,a,y\nt,b,z\n", "the first is on line 2. Number the samples"),
    ],
)
def test_a_file_that_is_no_study_is_told_with_its_line_and_what_to_do(scored, tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert said in scored(tmp_path / name)


def test_an_empty_folder(scored, refuses, tmp_path):
    (tmp_path / "bare").mkdir()
    assert "bare" in scored(tmp_path / "bare")
    assert "nowhere" in refuses("study", "show", tmp_path / "nowhere")


def test_one_agent_alone_has_a_length_and_no_other_score(scored, goldless, study_file):
    alone = study_file({"t": {"ann": "x y"}, "u": {"ann": "y"}})
    message = scored(alone)
    assert all(said in message for said in ("only one agent (ann)", "second agent", "With one agent, length works"))
    ended = goldless("score", alone, "--metric", "length")
    assert (ended.code, "1.5" in ended.out) == (0, True)
    assert "no task has responses of two agents" in scored(study_file({"t": {"ann": "x"}, "u": {"bob": "y"}}))


@pytest.mark.parametrize(
    ("columns", "lacking", "named"),
    [
        ("doc_id,doc,target,resps,filter,metrics", "'agent', 'text'", "task=doc_id,agent=COLUMN,text=COLUMN"),
        ("question_id,model_a,model_b,winner,judge", "'agent', 'text'", "task=question_id,agent=COLUMN,text=COLUMN"),
        ("question,output", "'agent'", "task=question,agent=COLUMN,text=output"),
        ("a,b,c", "'task', 'agent', 'text'", "task=COLUMN,agent=COLUMN,text=COLUMN"),
    ],
)
def test_columns_that_cannot_be_guessed_are_asked_for_and_no_others(scored, tmp_path, columns, lacking, named):
    path = tmp_path / "other.csv"
    path.write_text(f"{columns}\n{','.join('1' for _ in columns.split(','))}\n")
    line = scored(path).splitlines()[-1].strip()
    assert line.startswith(f"no column {lacking}; the columns are ")
    assert line.endswith(f"--columns {named}")


@pytest.mark.parametrize(
    ("columns", "command"),
    [
        ("id,modle,output,prompt", "Try --columns task=id,agent=modle,text=output"),
        ("Question ID,Modle,Response", "Try --columns 'task=Question ID,agent=Modle,text=Response'"),
        ("task,model,answer,output", "Try --columns agent=model,text=output"),
        ("question,reply,bot", "Try --columns task=question,agent=bot,text=reply,prompt=question"),
        ("prompt,gpt4,llama", "If each agent has a column, try --wide"),
        ("uid,question,gpt4,llama", "If each agent has a column, try --wide --columns task=uid,prompt=question"),
        ("prompt,category,gpt4,llama", "If each agent has a column, try --wide --columns agent=gpt4,agent=llama"),
    ],
)
def test_a_table_with_other_columns_is_given_the_options_that_read_it(scored, goldless, tmp_path, columns, command):
    path = tmp_path / "other.csv"
    path.write_text(f"{columns}\n{','.join('x' for _ in columns.split(','))}\n")
    assert scored(path).strip().endswith(command)
    assert goldless("study", "check", path, *shlex.split(command.partition("ry ")[2])).code == 0


def test_columns_of_which_some_are_known_are_asked_for_with_the_option_to_complete(refuses, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("question_id,answer_id,model_id,choices\nx,x,x,x\n")
    message = refuses("score", path, "--metric", "gem-raw")
    assert message.strip().endswith("COLUMN: --columns task=question_id,agent=model_id,text=COLUMN")


# --- models, money and options -----------------------------------------------------------------------------------


@pytest.fixture
def words(study_file, script, judged, tmp_path, monkeypatch):
    """What the names in a line mean, in a folder with files that are neither study nor journal."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    monkeypatch.chdir(tmp_path)
    for name in ("mine.csv", "file"):
        (tmp_path / name).write_text("")
    (tmp_path / "letter").write_text("no journal, but a letter that is long enough to be looked at " * 20)
    (tmp_path / "mine.py").write_text("def informative(response): return 1.0\n")
    crashed = {"study": "s", "margin": 0.2, "level": 0.95, "responses": 0, "responses_there_are": 0, "problems": {}}
    study_folder(tmp_path / "crashed", tasks=[{"task": "t"}], responses=response_rows({"t": {"a": "x"}}))
    (tmp_path / "crashed" / "crash_test.json").write_text(json.dumps(crashed | {"metrics": {}}))
    studies = {"three": study_file(), "six": study_file(SIX, "six.jsonl"), "judged": judged}
    folders = {"run": RUNS / "score", "reviewed": RUNS / "review", "crashed": tmp_path / "crashed"}
    return {"script": script, **studies, **folders}


@pytest.fixture
def judged(tmp_path, three_agents):
    """A study with labels, and one reviewer's ratings of 1 to 5."""
    keys = [{"task": task, "agent": agent} for task, by in three_agents.items() for agent in by]
    return study_folder(
        tmp_path / "judged",
        responses=response_rows(three_agents),
        labels=[key | {"rater": "p", "score": len(key["agent"])} for key in keys],
        judgements=[key | {"reviewer": "rev", "format": "5-level", "output": "3"} for key in keys],
    )


@pytest.mark.parametrize("verb", ["score {three} --scorer", "doctor"])
@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("embeded", ("unknown model 'embeded'. Did you mean 'embedded'", *KNOWN_MODELS)),
        ("http://127.0.0.1:9/v1#m", ("127.0.0.1:9",)),
        ("gpt-4o", ("unknown model 'gpt-4o'. Did you mean 'openai:gpt-4o'",)),
        ("o3-mini", ("Did you mean 'openai:o3-mini'",)),
        ("meta-llama/Llama-3.1-8B", ("Did you mean 'hf:meta-llama/Llama-3.1-8B'",)),
        ("models/tiny.gguf", ("Did you mean 'gguf:models/tiny.gguf'",)),
        ("opnai:gpt-4o", ("Did you mean 'openai'",)),
        ("gguf:/nowhere.gguf", ("/nowhere.gguf",)),
    ],
)
def test_a_model_that_there_is_not_gets_the_right_hint(refuses, study_file, verb, model, said):
    message = refuses(*verb.format(three=study_file()).split(), model)
    assert [words for words in said if words not in message] == []


def test_openai_as_a_scorer_is_refused_before_a_key_is_needed(refuses, study_file):
    message = refuses("score", study_file(), "--scorer", "openai:gpt-4o")
    assert "openai:gpt-4o cannot be a scorer: OpenAI gives no log-probabilities" in message
    assert "KEY" not in message


def test_a_key_that_is_missing_is_found_before_any_model_is_loaded(refuses, scored, study_file, monkeypatch):
    assert "OPENAI_API_KEY is not set" in scored(study_file(), "--metric", "gem", "--rewriter", "openai:gpt-4o")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert "OPENAI_API_KEY is not set" in refuses("score", study_file(), "--scorer", "openai:gpt-4o")


def test_a_script_with_bad_lines_or_without_log_probabilities(refuses, study_file, script_file, tmp_path):
    (tmp_path / "bad.jsonl").write_text("{}\n[]\n")
    message = refuses("score", study_file(), "--scorer", f"scripted:{tmp_path / 'bad.jsonl'}")
    assert all(f"bad.jsonl:{line}" in message for line in (1, 2))
    chatty = script_file([{"prompt": "a", "answer": "b"}], "chatty.jsonl")
    assert "does not return log-probabilities" in refuses("score", study_file(), "--scorer", f"scripted:{chatty}")


HELD = "agree {judged} --reviewers rev"
BIASED = "bias {judged} --recorded --scale 5-level"
REVIEW = "review {three} --reviewers honest={script}"
COPIED = "crashtest {three} --write out"
TUNED = "finetune {three} --out out --base"
SCORE = "score {three} --scorer {script}"
CRITIC = "score {six} --metric tvd-mi --critic"
REFUSED = {
    **{f"{CRITIC} openai:gpt-4o --budget {zero}": "a budget of 0 USD allows no call" for zero in ("0", "0USD", "$0")},
    f"{SCORE} --metric gem --rewriter openai:gpt-4o --budget 0": "a budget of 0 USD allows",
    f"{CRITIC} openai:gpt-of-tomorrow --budget 2USD": "is unknown, so --budget cannot be enforced",
    f"{CRITIC} http://127.0.0.1:9/v1#gpt-4o --budget 2USD": "MODEL?price=IN:OUT",
    **{f"{SCORE} --budget={wrong}": "such as 2USD" for wrong in ("two", "-1", "2EUR", "")},
    **{f"{CRITIC} openai:m?price={wrong}": "price must be IN:OUT" for wrong in ("1", "a:b", "-1:2", "nan:1", "1,2")},
    f"{CRITIC} http://127.0.0.1:1/v1#m": "the connection failed: Connection refused). Start it, or check the host",
    f"{SCORE} --metric gem-row": "unknown metric 'gem-row'. Did you mean 'gem-raw'",
    f"{SCORE} --metric gem": "--rewriter",
    f"{SCORE} --template peer-revue": "Did you mean 'peer-review'? Known: general, plain, peer-review",
    f"{SCORE} --peers 0": "--peers must be a whole number of at least 1, or names of agents, got 0",
    f"{SCORE} --metric python:m.py:f?timeout=soon": "timeout in the name of a metric must be a number, got 'soon'",
    **{f"score {{three}} --level={level}": "between 0 and 1" for level in ("0", "1", "95", "-0.5", "nan")},
    "score {three} --level=high": "--level must be a number, got 'high'",
    **{f"score {{three}} --{name}": name.split("=")[0] for name in ("format=xml", "on-too-long=cut", "nonsense")},
    **{f"score {{three}} --{name}": name.split("=")[0] for name in ("seed=x", "seed=-1", "resamples=5")},
    "score {three} --scoror y": "unknown option '--scoror'. Did you mean '--scorer'?",
    "score": "STUDY is missing",
    "scoer": "unknown verb 'scoer'. Did you mean 'score'?",
    "study chek": "unknown verb 'chek'. Did you mean 'check'?",
    "mine.csv": "'mine.csv' is not a verb. Did you mean 'goldless score mine.csv'?",
    "crashtest sample --write": "Try 'goldless crashtest --write -h' for help",
    "score {three} --out file/run": "file/run: cannot write",
    **{f"{SCORE} --journal {path}": "cannot be used as a journal" for path in (".", "letter")},
    "agree {judged} --scale 5-level": "nothing to compare with people",
    "agree {judged} --reviewers nobody --scale 5-level": "no judgements of 'nobody'",
    "agree {judged} --metric tvd-mi[labels]": "scores raters, not responses",
    "agree {judged} --scores absent.csv": "no such file",
    f"{HELD} --scale 4-level": "unknown scale '4-level'",
    f"{HELD} --scale 5-level --criterion tone": "no label has the criterion 'tone'",
    f"{HELD} --scale 5-level --vote-lead 0": "--vote-lead must be a finite number above 0, got 0",
    f"{BIASED} --reviewers reve": "Did you mean 'rev'",
    f"{BIASED} --favours ann": "FIRST:SECOND",
    f"{BIASED} --family ann": "--family must be NAME=FAMILY, got 'ann'",
    f"{BIASED} --weights ann=heavy": "a weight is a finite number",
    f"{BIASED} --weights ann": "--weights must be NAME=WEIGHT",
    f"{BIASED} --resamples 5": "resamples must be a whole number of at least 100, got 5",
    f"{REVIEW} --exam consistensy": "Did you mean 'consistency'",
    f"{REVIEW} --exam consistency --threshold high": "--threshold must be a number, mean or none, got 'high'",
    f"{REVIEW} --scale pair": "Did you mean 'pairwise'",
    f"{REVIEW} --easy ann": "--easy must be two different agents",
    f"{REVIEW} --describe honest": "--describe must be NAME=TEXT, got 'honest'",
    f"{REVIEW} --recorded": "has no recorded judgements",
    f"{REVIEW} --licence nowhere.json": "nowhere.json",
    "jury nowhere.json": "nowhere.json",
    "score {three} --metric length --baseline x": "--baseline must be an agent of the study, got 'x'. Agents: ann, bob",
    "score {three} --metric length --baseline ann --compare leader": "--baseline and --compare leader exclude each",
    "score {three} --metric length --compare-groups good bad": "group",
    "score {three} --metric length --level 95": "--level must be a number between 0 and 1, got 95.0. Try 0.95",
    "score {three} --metric tvd-mi[shufles=2]": "tvd-mi has no option 'shufles'. Did you mean 'shuffles'?",
    "score {three} --metric tvd-mi[shuffles=x]": "must be a whole number, got 'x'",
    "score {three} --metric tvd-mi[shuffles=1],tvd-mi[about,shuffles=2]": "must be the same for all metrics of a run",
    "explain {three} --task t1 --agent anne --peer bob": "no agent 'anne' in the study. Did you mean 'ann'?",
    "explain {three} --task t1 --agent ann": "--peer is missing",
    **{f"plan {{three}} --detect={one}": "must be a finite number above 0" for one in (0, -1, "nan", "inf")},
    f"{REVIEW} --exam none --batch": "has no batch API. --batch works with openai:",
    "view nowhere": "no such folder",
    "view . --port 70000": "--port must be between 0 and 65535, got 70000",
    "compare --rankings": "RUN RUN… is missing",
    "compare --rankings {three} judged": "Write one with goldless score STUDY --out FOLDER",
    "compare --rankings {run}": "two or more different run folders are needed",
    "compare --rankings {run} {run}": "two or more different run folders are needed",
    "compare --rankings {run} {run} --scorer embedded": "unknown option '--scorer'",
    "plan --cost": "RUN… is missing",
    "plan --cost {three}": "Write one with goldless score STUDY --out FOLDER",
    "plan --cost nowhere": "nowhere is not a run folder",
    "plan --cost {run} --tasks 0": "at least 1",
    "plan --cost {run} --metric length": "unknown option '--metric'",
    "crashtest {three} --metric python:mine.py:informativ": "Did you mean 'informative'",
    f"{COPIED} --perturbation rephrase,deletion": "rephrase: needs a chat model. Name one with --writer",
    f"{COPIED} --perturbation synopsis-only --writer scripted:absent.jsonl": "absent.jsonl",
    f"{COPIED} --strategy breif": "Did you mean 'brief'?",
    f"{COPIED} --agents anne": "no agent 'anne' in the study. Did you mean 'ann'?",
    "study import {three} --out out --columns task": "--columns must be NAME=COLUMN, got 'task'",
    "study import {three} --out out --from tabel": "'tabel'. Did you mean 'table'? Formats: study, table",
    "study import {three} --out out --repeats last": "last",
    "study import {three} --out judged": "is not empty",
    "export ee {run}": "'ee'. Did you mean 'eee'?",
    "export latex {run}": "unknown export format 'latex'. Formats: jsonl, csv",
    "export eee {run}": "eee writes a folder. Name it with --out",
    "export eee {three} --out out": "eee needs a run with scores",
    "export eee {run} --out judged": "is not empty",
    "export eee {run} --out out --relationship friend": "--relationship must be one of first_party",
    "export markdown {run} --out mine.csv": "already exists",
    "export markdown {run} --metric gem-rwa": "Did you mean 'gem-raw'?",
    "export markdown {crashed}": "has no scores of agents (found: crash_test.json)",
    "export markdown {run} --margin 1": "--margin does not apply to markdown. It applies to: dpo-pairs",
    "export markdown nothing": "no such file or folder",
    "export csv {reviewed}": "no scores of single responses",
    "export dpo-pairs {run}": "needs --decided, or --margin, the smallest difference in nats",
    "export dpo-pairs {run} --margin 0": "greater than 0, got 0",
    "export dpo-pairs {run} --margin 1e9": "--margin 1e+09 leaves no pair",
    "journal clear --yes": "Give journal, models or all, or --model, --older-than or --batch",
    "journal clear all --model x": "select replies of the journal, got all. Leave out all",
    "journal clear journal --batch x": "--batch forgets one batch",
    "journal clear --batch x": "no pending batch 'x'",
    "journal merge none.sqlite": "none.sqlite: no such file",
    "gre collect": "name a folder",
    "gre collect e --venue V --from-folder f": "set either from_folder or venue",
    "gre review nowhere --models embedded": "not an edition",
    "gre score nowhere": "gre collect nowhere --venue VENUE, or --from-folder FOLDER",
    f"{TUNED} embedded --raw": "only weights on this machine can be trained",
    f"{TUNED} hf:x --raw --held-out 1.5": "--held-out must be a number between 0 and 1, got 1.5",
    f"{TUNED} hf:x --raw --seed 4294967296": "--seed must be from 0 to 4294967295",
    f"{TUNED} hf:x --raw --epochs 0": "--epochs must be a whole number of at least 1, got 0",
    f"{TUNED} hf:x": "has no recorded rewrites",
    f"{TUNED} hf:x --raw --agents ann,bob,zoe": "'zoe'",
    f"{TUNED} hf:x --raw --synopsis assw": "no task has a synopsis 'assw'",
    f"{TUNED} hf:x?weights=3bit --raw": "got 'weights=3bit'",
}


@pytest.mark.parametrize(("line", "said"), REFUSED.items())
def test_every_verb_says_what_it_cannot_do(refuses, words, line, said):
    assert said in " ".join(refuses(*line.format(**words).split()).split())
    assert not Path("out").exists()


def test_hostile_names_in_messages_do_not_steer_the_terminal_or_the_markup(scored, study_file):
    message = scored(study_file({"t": {"[bold]x[/]\x1b[31m": "x"}}))
    assert "\x1b" not in message
    assert "[bold]x[/]" in message
