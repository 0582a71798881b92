"""A program as a chat model: real child processes, well-behaved and not."""

from __future__ import annotations

import shlex
import sys

import anyio
import pytest

from goldless.errors import CapabilityError, ModelSpecError
from goldless.models.catalogue import check_scorer, open_model, unopened_identity
from goldless.models.interface import ChatReply, ChatRequest, Message
from goldless.runs.option_forms import split

ASKED = ChatRequest((Message("system", "Review."), Message("user", "The paper, with \N{SNOWMAN}.")), max_tokens=7)


@pytest.fixture
def program(tmp_path):
    """Makes a model of a Python program's text."""

    def make(text, options=""):
        (tmp_path / "agent.py").write_text(text, encoding="utf-8")
        return open_model(f"command:{shlex.join([sys.executable, str(tmp_path / 'agent.py')])} {options}")

    return make


def reply(model):
    return anyio.run(model.chat, ASKED)


def test_a_program_reads_the_request_as_json_and_its_output_is_the_reply(program):
    echo = "import json, sys; r = json.load(sys.stdin); print(r['messages'][1]['content'], r['max_tokens'])"
    assert reply(program(echo)) == ChatReply("The paper, with \N{SNOWMAN}. 7\n")


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "import sys; sys.exit('no tools today')",
            "server_error",
            "exited with status 1; standard error ends with",
        ),
        ("import os; os.abort()", "server_error", "was ended by signal 6; standard error is empty"),
        ("import time; print('half', flush=True); time.sleep(60)", "timeout", "killed at its time limit of 0.5 s"),
        ("import sys; sys.stdout.buffer.write(bytes([65, 255]))", "bad_reply", "byte at offset 1 "),
        ("while True: print('x' * 100000)", "bad_reply", "the limit is 1,048,576"),
    ],
)
def test_a_program_that_does_not_end_well_gives_no_reply_but_a_reason(program, text, kind, said):
    found = reply(program(text, "?timeout=0.5&concurrency=1" if kind == "timeout" else ""))
    assert (found.kind, said in found.message) == (kind, True), found.message


def test_the_options_of_a_command_are_no_part_of_its_identity_and_others_are_refused(program):
    assert program("pass", "?timeout=9&price=0:0").identity == program("pass").identity
    with pytest.raises(ModelSpecError, match="must be timeout, concurrency and price"):
        program("pass", "?retries=2")
    with pytest.raises(ModelSpecError, match="timeout must be a number of seconds"):
        program("pass", "?timeout=soon")


def test_a_changed_program_is_another_model(program):
    first = program("print(1)").identity
    assert program("print(2)").identity.revision != first.revision
    assert first == program("print(1)").identity


def test_what_is_no_program_is_refused_before_anything_runs():
    with pytest.raises(ModelSpecError, match="not found or not executable"):
        open_model("command:./nowhere --fast")
    with pytest.raises(ModelSpecError, match="cannot be split into words"):
        unopened_identity("command:sh 'open")
    with pytest.raises(CapabilityError, match="no log-probabilities"):
        check_scorer("command:cat")


def test_a_command_takes_all_that_follows_it_in_a_list_of_models():
    assert split(["a=embedded,agent=command:./run --tools x,y"]) == ("a=embedded", "agent=command:./run --tools x,y")
