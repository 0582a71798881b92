"""Bad input ends in one clear message on standard error and exit code 2: no traceback, nothing on standard output."""

from __future__ import annotations

import json
import shlex

import pytest

from goldless.models.scripted import ScriptedModel


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


def write(path, rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


# --- the study ---------------------------------------------------------------------------------------------------


def test_a_study_that_is_not_there(refuses, tmp_path, script):
    assert "nowhere.jsonl" in refuses("score", tmp_path / "nowhere.jsonl", "--metric", "gem-raw", "--scorer", script)


@pytest.mark.parametrize(("name", "content"), [("e.jsonl", ""), ("e.csv", ""), ("e.csv", "task,agent,text\n")])
def test_an_empty_study(refuses, tmp_path, script, name, content):
    (tmp_path / name).write_text(content)
    assert name in refuses("score", tmp_path / name, "--metric", "gem-raw", "--scorer", script)


def test_an_empty_folder(refuses, tmp_path, script):
    (tmp_path / "bare").mkdir()
    assert "bare" in refuses("score", tmp_path / "bare", "--metric", "gem-raw", "--scorer", script)


def test_one_agent_only(refuses, study_file, script):
    message = refuses(
        "score", study_file({"t": {"ann": "x"}, "u": {"ann": "y"}}), "--metric", "gem-raw", "--scorer", script
    )
    assert "only one agent (ann)" in message
    assert "second agent" in message
    assert "With one agent, length works" in message


def test_one_agent_alone_has_a_length(goldless, study_file):
    ended = goldless("score", study_file({"t": {"ann": "x y"}, "u": {"ann": "y"}}), "--metric", "length")
    assert (ended.code, "1.5" in ended.out) == (0, True)


def test_no_task_with_two_answers(refuses, study_file, script):
    message = refuses(
        "score", study_file({"t": {"ann": "x"}, "u": {"bob": "y"}}), "--metric", "gem-raw", "--scorer", script
    )
    assert "no task has responses of two agents" in message


def test_a_file_that_is_not_utf_8(refuses, tmp_path, script):
    path = tmp_path / "latin.jsonl"
    path.write_bytes('{"task": "t", "agent": "a", "text": "grün"}\n'.encode("latin-1"))
    message = refuses("score", path, "--metric", "gem-raw", "--scorer", script)
    assert "latin.jsonl:1" in message
    assert "UTF-8" in message


def test_a_wrong_column_name(refuses, tmp_path, script):
    path = tmp_path / "wrong.csv"
    path.write_text("task,agnet,text\nt,a,x\nt,b,y\n")
    message = refuses("score", path, "--metric", "gem-raw", "--scorer", script)
    assert "'agent'" in message
    assert message.strip().endswith("Try --columns agent=agnet")


def test_every_problem_of_a_study_is_told(refuses, tmp_path, script):
    path = tmp_path / "many.jsonl"
    write(path, [{"task": "t", "agent": "a", "text": ""}, {"task": "t", "agent": "b", "text": 4}, {"task": "t"}])
    message = refuses("score", path, "--metric", "gem-raw", "--scorer", script)
    assert all(f"many.jsonl:{line}" in message for line in (1, 2, 3))


def test_showing_a_study_that_is_not_there(refuses, tmp_path):
    assert "nowhere" in refuses("study", "show", tmp_path / "nowhere")


# --- models ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["score", "doctor"])
def test_an_unknown_model_lists_the_known_ones(refuses, study_file, verb):
    arguments = (study_file(), "--scorer", "embeded") if verb == "score" else ("embeded",)
    message = refuses(verb, *arguments)
    assert "unknown model 'embeded'. Did you mean 'embedded'" in message
    for form in (
        "embedded",
        "gguf:PATH",
        "hf:NAME_OR_PATH",
        "openai:MODEL",
        "http://HOST:PORT/v1#MODEL",
        "scripted:FILE",
    ):
        assert form in message


@pytest.mark.parametrize("verb", ["score", "doctor"])
def test_a_server_that_is_not_there(refuses, study_file, verb):
    spec = "http://127.0.0.1:9/v1#m"
    message = refuses(verb, *((study_file(), "--scorer", spec) if verb == "score" else (spec,)))
    assert "127.0.0.1:9" in message


@pytest.mark.parametrize("verb", ["score", "compare"])
def test_openai_as_a_scorer_is_refused_before_a_key_is_needed(refuses, study_file, script, verb):
    more = ("--rankings", "--scorer", script) if verb == "compare" else ()
    message = refuses(verb, study_file(), "--scorer", "openai:gpt-4o", *more)
    assert "openai:gpt-4o cannot be a scorer: OpenAI gives no log-probabilities" in message
    assert "KEY" not in message


def test_a_key_that_is_missing(refuses, study_file, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    message = refuses("score", study_file(), "--metric", "gem-raw", "--scorer", "openai:gpt-4o")
    assert "OPENAI_API_KEY is not set" in message


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("gpt-4o", "openai:gpt-4o"),
        ("o3-mini", "openai:o3-mini"),
        ("meta-llama/Llama-3.1-8B", "hf:meta-llama/Llama-3.1-8B"),
        ("models/tiny.gguf", "gguf:models/tiny.gguf"),
        ("opnai:gpt-4o", "openai"),
    ],
)
def test_a_model_without_its_prefix_gets_the_right_hint(refuses, study_file, given, meant):
    message = refuses("score", study_file(), "--metric", "gem-raw", "--scorer", given)
    assert f"unknown model {given!r}. Did you mean {meant!r}" in message


@pytest.mark.parametrize(
    ("columns", "hints"),
    [
        ("doc_id,doc,target,resps,filter,metrics", {"task": "doc_id", "agent": None, "text": None}),
        ("question_id,model_a,model_b,winner,judge", {"task": "question_id", "agent": None, "text": None}),
    ],
)
def test_columns_of_other_tools_get_the_right_hint_or_none(refuses, tmp_path, columns, hints):
    path = tmp_path / "other.csv"
    path.write_text(f"{columns}\n{','.join('x' for _ in columns.split(','))}\n")
    lines = refuses("score", path, "--metric", "gem-raw").splitlines()
    for column, meant in hints.items():
        (line,) = [line for line in lines if f"no column {column!r}" in line]
        assert line.endswith(f"Did you mean {meant!r}?") if meant else "Did you mean" not in line


@pytest.mark.parametrize(
    ("columns", "command"),
    [
        ("id,modle,output,prompt", "Try --columns task=id,agent=modle,text=output"),
        ("Question ID,Modle,Response", "Try --columns 'task=Question ID,agent=Modle,text=Response'"),
        ("task,model,answer,output", "Try --columns agent=model,text=output"),
        ("prompt,gpt4,llama", "If each agent has a column, try --wide"),
        ("uid,question,gpt4,llama", "If each agent has a column, try --wide --columns task=uid,prompt=question"),
        ("prompt,category,gpt4,llama", "If each agent has a column, try --wide --columns agent=gpt4,agent=llama"),
    ],
)
def test_a_table_with_other_columns_is_given_the_options_that_read_it(refuses, goldless, tmp_path, columns, command):
    path = tmp_path / "other.csv"
    path.write_text(f"{columns}\n{','.join('x' for _ in columns.split(','))}\n")
    assert refuses("score", path, "--metric", "gem-raw").strip().endswith(command)
    assert goldless("study", "check", path, *shlex.split(command.partition("ry ")[2])).code == 0


def test_columns_of_which_some_are_known_are_asked_for_with_the_option_to_complete(refuses, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("question_id,answer_id,model_id,choices\nx,x,x,x\n")
    message = refuses("score", path, "--metric", "gem-raw")
    assert message.strip().endswith("COLUMN: --columns task=question_id,agent=model_id,text=COLUMN")


def test_several_samples_per_task_get_a_hint(refuses, tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text("task,agent,text\nt,a,x\nt,a,y\nt,b,z\n")
    assert "a second response of agent 'a' to task 't'; the first is on line 2. Number the samples" in refuses(
        "score", path, "--metric", "gem-raw"
    )


def test_a_wrong_command_line_is_one_message_with_the_nearest_word(refuses, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text("")
    assert "unknown verb 'scoer'. Did you mean 'score'?" in refuses("scoer")
    assert "unknown verb 'chek'. Did you mean 'check'?" in refuses("study", "chek")
    assert "unknown option '--scoror'. Did you mean '--scorer'?" in refuses(
        "score", "x", "--metric", "gem-raw", "--scoror", "y"
    )
    assert "'mine.csv' is not a verb. Did you mean 'goldless score mine.csv'?" in refuses("mine.csv")
    assert "--level must be a number, got 'high'" in refuses("score", "x", "--metric", "gem-raw", "--level", "high")
    assert "STUDY is missing" in refuses("score")


def test_peers_are_named_or_drawn(refuses, study_file, script):
    message = refuses(
        "score", study_file(), "--metric", "gem-raw", "--scorer", script, "--peer-sample", "1", "--peers", "bob"
    )
    assert "--peers and --peer-sample exclude each other" in message


def test_a_rewriters_key_that_is_missing_is_found_before_the_scorer_is_loaded(refuses, study_file, script):
    message = refuses("score", study_file(), "--metric", "gem", "--scorer", script, "--rewriter", "openai:gpt-4o")
    assert "OPENAI_API_KEY is not set" in message


def test_a_gguf_file_that_is_not_there(refuses, study_file):
    assert "/nowhere.gguf" in refuses("score", study_file(), "--metric", "gem-raw", "--scorer", "gguf:/nowhere.gguf")


def test_a_script_with_bad_lines(refuses, study_file, tmp_path):
    (tmp_path / "bad.jsonl").write_text("{}\n[]\n")
    message = refuses("score", study_file(), "--metric", "gem-raw", "--scorer", f"scripted:{tmp_path / 'bad.jsonl'}")
    assert "bad.jsonl:1" in message
    assert "bad.jsonl:2" in message


def test_a_model_that_gives_no_log_probabilities(refuses, study_file, script_file):
    chatty = script_file([{"prompt": "a", "answer": "b"}], "chatty.jsonl")
    message = refuses("score", study_file(), "--metric", "gem-raw", "--scorer", f"scripted:{chatty}")
    assert "does not return log-probabilities" in message


# --- money: nothing may be sent, so there is nothing to reach -------------------------------------------------------


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")


@pytest.mark.parametrize("budget", ["0", "0USD", "$0", "0.00"])
def test_a_budget_of_zero(refuses, study_file, key, budget):
    arguments = ("--metric", "tvd-mi", "--critic", "openai:gpt-4o", "--budget", budget)
    message = refuses(
        "score",
        study_file({f"t{i}": {"ann": f"x{i}", "bob": f"y{i}"} for i in range(6)}),
        "--metric",
        "gem-raw",
        *arguments,
    )
    assert "a budget of 0 USD allows no call to openai:gpt-4o" in message


def test_a_budget_of_zero_for_the_rewriter(refuses, study_file, key, script):
    arguments = ("--metric", "gem", "--scorer", script, "--rewriter", "openai:gpt-4o", "--budget", "0")
    assert "a budget of 0 USD allows no call to openai:gpt-4o" in refuses(
        "score", study_file(), "--metric", "gem-raw", *arguments
    )


@pytest.mark.parametrize("critic", ["openai:gpt-of-tomorrow", "http://127.0.0.1:9/v1#gpt-4o"])
def test_a_budget_for_a_model_whose_price_is_unknown(refuses, study_file, key, critic):
    study = study_file({f"t{i}": {"ann": f"x{i}", "bob": f"y{i}"} for i in range(6)})
    message = refuses("score", study, "--metric", "tvd-mi", "--critic", critic, "--budget", "2USD")
    assert "is unknown, so --budget cannot be enforced" in message
    assert "--price IN,OUT" in message


@pytest.mark.parametrize("budget", ["two", "-1", "2EUR", ""])
def test_a_budget_that_is_none(refuses, study_file, script, budget):
    assert "such as 2USD" in refuses(
        "score", study_file(), "--metric", "gem-raw", "--scorer", script, f"--budget={budget}"
    )


@pytest.mark.parametrize("price", ["1", "a,b", "-1,2", "nan,1"])
def test_a_price_that_is_none(refuses, study_file, script, price):
    assert "--price" in refuses("score", study_file(), "--metric", "gem-raw", "--scorer", script, f"--price={price}")


# --- options -----------------------------------------------------------------------------------------------------


def test_an_unknown_metric(refuses, study_file, script):
    message = refuses("score", study_file(), "--scorer", script, "--metric", "gem-row")
    assert "unknown metric 'gem-row'. Did you mean 'gem-raw'" in message
    assert "gem " in message


def test_gem_without_a_rewriter(refuses, study_file, script):
    assert "--rewriter" in refuses("score", study_file(), "--scorer", script, "--metric", "gem")


def test_an_unknown_template(refuses, study_file, script):
    message = refuses("score", study_file(), "--metric", "gem-raw", "--scorer", script, "--template", "peer-revue")
    assert "unknown template 'peer-revue'. Did you mean 'peer-review'? Known: general, plain, peer-review" in message


@pytest.mark.parametrize("level", ["0", "1", "95", "-0.5", "nan"])
def test_a_bad_level(refuses, study_file, script, level):
    assert "between 0 and 1" in refuses(
        "score", study_file(), "--metric", "gem-raw", "--scorer", script, f"--level={level}"
    )


@pytest.mark.parametrize(
    "option",
    ["--level=high", "--format=xml", "--on-too-long=cut", "--seed=x", "--seed=-1", "--resamples=5", "--nonsense"],
)
def test_other_values_that_are_not_allowed(refuses, study_file, script, option):
    assert option.split("=")[0].removeprefix("--") in refuses(
        "score", study_file(), "--metric", "gem-raw", "--scorer", script, option
    )


def test_no_study_at_all(refuses):
    assert "STUDY" in refuses("score")


def test_an_unknown_verb(refuses):
    assert "scoer" in refuses("scoer")


def test_a_results_folder_that_cannot_be_written_to_is_found_before_anything_runs(
    refuses, study_file, tmp_path, script
):
    (tmp_path / "file").write_text("")
    message = refuses(
        "score", study_file(), "--metric", "gem-raw", "--scorer", script, "--out", tmp_path / "file" / "run"
    )
    assert "cannot write" in message
    assert "--out" in message


@pytest.mark.parametrize("content", [None, "no journal, but a letter that is long enough to be looked at " * 20])
def test_a_journal_that_cannot_be_used(refuses, study_file, tmp_path, script, content):
    path = tmp_path / "folder-or-file"
    path.mkdir() if content is None else path.write_text(content)
    message = refuses("score", study_file(), "--metric", "gem-raw", "--scorer", script, "--journal", path)
    assert "cannot be used as a journal" in message
    assert "--journal" in message


def test_hostile_names_in_messages_do_not_steer_the_terminal_or_the_markup(refuses, study_file, script):
    name = "[bold]x[/]\x1b[31m"
    message = refuses("score", study_file({"t": {name: "x"}}), "--metric", "gem-raw", "--scorer", script)
    assert "\x1b" not in message
    assert "[bold]x[/]" in message
