"""A tokenizer on this machine for a gateway that hides the server's, the end of a turn, and the texts of tokens."""

from __future__ import annotations

import json

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from goldless.errors import CallError, ModelSpecError, PrerequisiteError
from goldless.models.interface import Message, TokenLogprobs
from tests.support.servers.toy_language import CORPUS, tokens_of

pytestmark = pytest.mark.anyio

MARKS = ("<s>", "<user>", "<system>", "<assistant>", "<end>")
TEMPLATE = (
    "<s>{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
MESSAGES = (Message("user", "Which words follow?"),)
TARGET = "One two three four."


def make_tokenizer(folder, *, template=TEMPLATE, shift=0):
    """The toy language's tokenizer as files; returns its tokens by id."""
    words = [*MARKS, *dict.fromkeys([*tokens_of(CORPUS), *"?.<> "])]
    vocabulary = {word: i + shift for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel({**vocabulary, "unknown": len(words) + shift}, unk_token="unknown"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+|\s+|[^\w\s]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(list(MARKS))
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": {"content": "<end>"}, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return {i: word for word, i in vocabulary.items()}


async def scored(model, target=TARGET):
    await model.prepare()
    request = await model.encode(MESSAGES, target)
    replies = {}
    await model.score([request], replies.update)
    return request, replies[0]


async def test_scores_through_a_gateway_equal_those_of_the_server(serve, connect, tmp_path):
    vocabulary = make_tokenizer(tmp_path / "toy")
    own = connect(serve(speaks={"vllm"}), use="scoring")
    gateway = serve(speaks={"echo"}, vocabulary=vocabulary)
    through = connect(gateway, f"toy?tokenizer={tmp_path / 'toy'}", use="scoring")
    (_, expected), (_, found) = await scored(own), await scored(through)
    assert isinstance(found, TokenLogprobs)
    assert found.logprobs == pytest.approx(expected.logprobs)
    assert through.positions == own.positions == "target+end"
    assert through.identity.settings["layout"] == "chat"
    assert through.identity.tokenizer
    assert await through.pieces(await through.encode(MESSAGES, TARGET)) == (*tokens_of(TARGET), "")


async def test_the_tokenizer_of_another_model_is_noticed(serve, connect, tmp_path):
    make_tokenizer(tmp_path / "other", shift=3)
    vocabulary = make_tokenizer(tmp_path / "toy")
    gateway = serve(speaks={"echo"}, vocabulary=vocabulary | dict.fromkeys(range(len(vocabulary), 400), "odd"))
    model = connect(gateway, f"toy?tokenizer={tmp_path / 'other'}", use="scoring")
    await model.prepare()
    assert not model.capabilities.scoring
    assert "is not the model's" in model.findings[-1].answer


async def test_a_file_alone_has_no_template_and_the_plain_layout(serve, connect, tmp_path):
    vocabulary = make_tokenizer(tmp_path / "toy", template=None)
    gateway = serve(speaks={"echo"}, vocabulary=vocabulary | {max(vocabulary) + 1: "unknown"})
    model = connect(gateway, f"toy?tokenizer={tmp_path / 'toy' / 'tokenizer.json'}", use="scoring")
    await model.prepare()
    assert model.identity.settings["layout"] == "plain"


async def test_what_is_no_tokenizer_is_refused_with_what_is_allowed(serve, connect, tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    model = connect(serve(speaks={"echo"}), f"toy?tokenizer={tmp_path}", use="scoring")
    with pytest.raises(ModelSpecError, match=r"tokenizer must be a tokenizer\.json, a folder with one"):
        await model.prepare()


async def test_a_name_that_is_nowhere_says_what_to_give(serve, connect, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = connect(serve(speaks={"echo"}), "toy?tokenizer=no/such-model", use="scoring")
    with pytest.raises(PrerequisiteError, match="tokenizer=no/such-model"):
        await model.prepare()


# --- a server that turns ids into text ------------------------------------------------------------------------------

UNICODE = "The second review is small. Ünïcode, too."


@pytest.mark.parametrize(("speaks", "field"), [("vllm", "prompt"), ("sglang", "text")])
async def test_the_pieces_are_the_servers_tokens(serve, connect, speaks, field):
    model = connect(serve(speaks={speaks}, detokenizes=field))
    assert await model.pieces(await model.encode(MESSAGES, UNICODE)) == (*tokens_of(UNICODE), "")


@pytest.mark.parametrize("speaks", ["vllm", "sglang", "echo"])
async def test_a_server_that_does_not_turn_ids_into_text_cannot_tell(serve, connect, speaks):
    model = connect(serve(speaks={speaks}))
    assert await model.pieces(await model.encode(MESSAGES, UNICODE)) is None


async def test_a_server_that_is_down_is_a_failed_call(serve, connect):
    server = serve(speaks={"vllm"}, detokenizes="prompt")
    model = connect(server)
    request = await model.encode(MESSAGES, UNICODE)
    server.behaviour.faults = [(503, {}, "busy")] * 8
    with pytest.raises(CallError, match="busy"):
        await model.pieces(request)
