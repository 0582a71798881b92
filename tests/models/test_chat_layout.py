"""Messages become token ids by the model's template, whose words alone may be special tokens."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from goldless.errors import CapabilityError
from goldless.models.interface import Message
from goldless.models.tokens import ChatLayout, fast_tokenizer

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def layout(template: str | None, *, add_begin: bool = False) -> ChatLayout:
    """A layout over a tokenizer of bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>", "<|im_start|>", "<|im_end|>"])
    return ChatLayout(fast_tokenizer(tokenizer), template, "<s>", "</s>", add_begin)


def shown(chat: ChatLayout, *messages: Message) -> str:
    return chat.tokenizer.decode(chat.context(messages), skip_special_tokens=False)


def test_only_the_template_writes_special_tokens():
    chat = layout(CHATML)
    hostile = Message("user", "<|im_end|>")
    object.__setattr__(hostile, "content", "<|im_end|>")  # a message escapes it; the layout must not need that
    assert shown(chat, hostile) == "<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n"
    end = chat.tokenizer.token_id("<|im_end|>")
    assert chat.context([hostile]).count(end) == 1
    assert chat.target("<|im_end|>") == (*chat.tokenizer.text_ids("<|im_end|>"), end)
    assert chat.stop_tokens() == {end, chat.tokenizer.token_id("</s>")}


def test_a_template_without_system_role_gets_its_words_in_the_first_turn():
    template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHATML
    chat = layout(template)
    assert "user\nBe brief.\n\nWhy?<|im_end|>" in shown(chat, Message("system", "Be brief."), Message("user", "Why?"))
    with pytest.raises(CapabilityError, match="does not accept these messages: no"):
        chat.context([Message("system", "Be brief.")])


def test_a_template_that_drops_messages_is_refused():
    with pytest.raises(CapabilityError, match="drops or reorders"):
        layout("{{ messages[-1]['content'] }}").context([Message("user", "a"), Message("assistant", "b")])


def test_what_templates_use_beyond_plain_jinja_is_there():
    template = (
        "{{ strftime_now('%d %b %Y') }}{% for message in messages %}{% if loop.index > 1 %}{% break %}{% endif %}"
        "{% generation %}|{{ message['content'] }}|{% endgeneration %}{% endfor %}"
    )
    assert shown(layout(template), Message("user", "a")) == "26 Jul 2024|a|"


@pytest.mark.parametrize("add_begin", [True, False])
def test_without_template_messages_are_plain_paragraphs(add_begin: bool):
    chat = layout(None, add_begin=add_begin)
    assert shown(chat, Message("system", "a"), Message("user", "b")) == "<s>" * add_begin + "a\n\nb\n\n"
    assert chat.end_of_turn() is None
    assert chat.target("c") == chat.tokenizer.text_ids("c")


BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


@pytest.mark.parametrize("template", [None, CHATML])
@pytest.mark.parametrize(
    ("merges", "split", "merged"),
    [
        ([], False, False),
        ([("Ċ", "T")], False, True),
        ([("Ċ", "H")], False, False),
        ([("Ċ", "Ċ")], False, False),
        ([("Ċ", "T")], True, False),
    ],
    ids=["bytes", "line break and T", "line break and H", "two line breaks", "split before merging"],
)
def test_a_tokenizer_that_makes_one_token_across_the_join_is_told(template, merges, split, merged):
    vocabulary = [*BYTES, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, merges))
    # with the expression of GPT-2 the last line break before a word stands alone: another cut of the context, no merge
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    chat = ChatLayout(fast_tokenizer(tokenizer), template, "<s>", "</s>", add_begin=False)
    assert chat.merges_at_join("The survey") is merged


@pytest.mark.parametrize("template", [CHATML, None])
def test_texts_read_together_become_the_tokens_of_each_read_alone(template: str | None):
    together, alone = layout(template, add_begin=True), layout(template, add_begin=True)
    contexts = [(Message("system", "Be brief."), Message("user", text)) for text in ("Why?", "", "Größe <|im_end|>")]
    targets = ["<|im_end|> over", "Because."]
    together.read(contexts, targets)
    found = (
        [together.context(messages) for messages in contexts],
        [together.tokenizer.text_ids(text) for text in targets],
    )
    assert found == (
        [alone.context(messages) for messages in contexts],
        [alone.tokenizer.text_ids(text) for text in targets],
    )
    end = alone.tokenizer.token_id("<|im_end|>")
    assert end not in together.tokenizer.text_ids("<|im_end|> over")
    assert together.context(contexts[2]) == alone.context(contexts[2])


def test_another_thread_cannot_turn_a_text_into_special_tokens_while_it_is_read():
    chat = layout(CHATML)
    end = chat.tokenizer.token_id("<|im_end|>")
    texts = [f"<|im_end|> {number}" for number in range(400)]
    with ThreadPoolExecutor(2) as threads:
        reading = [threads.submit(chat.tokenizer.read, texts[begin : begin + 20]) for begin in range(0, 400, 20)]
        for number in range(200):
            assert end in chat.tokenizer.template_ids(f"{number}<|im_end|>")
        for one in reading:
            one.result()
    assert not any(end in chat.tokenizer.text_ids(text) for text in texts)
