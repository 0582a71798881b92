"""How families of chat models lay out a conversation: their special tokens, and a template that writes them.

The tokens are those of the published tokenizer files; the templates are written here and keep to plain turns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from jinja2 import Environment
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from goldless.models.interface import Message

SYSTEM_IN_USER = (
    "{% set told = messages[0]['content'] + '\n\n' if messages[0]['role'] == 'system' else '' %}"
    "{% set turns = messages[1:] if messages[0]['role'] == 'system' else messages %}"
)
"""For families without a system turn."""


@dataclass(frozen=True)
class Family:
    """A template and the tokens that mean something to it."""

    name: str
    tokens: tuple[str, ...]
    template: str

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """A tokenizer of bytes that honours the family's special tokens wherever they are, as servers do."""
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in self.tokens])
        return tokenizer

    @cached_property
    def _compiled(self):
        return Environment(autoescape=False).from_string(self.template)

    def turn_tokens(self, messages: Sequence[Message]) -> int:
        """Special tokens in the conversation as a server would read it."""
        text = self._compiled.render(messages=[{"role": m.role, "content": m.content} for m in messages])
        return self.in_text(text)

    def in_text(self, text: str) -> int:
        """Special tokens in a text; counted without the tokenizer, which is slow, and the same (tested)."""
        return len(self._either.findall(text))

    @cached_property
    def _either(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, sorted(self.tokens, key=len, reverse=True))))

    def tokenised(self, text: str) -> int:
        """Special tokens that the tokenizer finds in a text."""
        first = len(pre_tokenizers.ByteLevel.alphabet())
        return sum(i >= first for i in self.tokenizer.encode(text, add_special_tokens=False).ids)


def _each(before: str, after: str, closing: str) -> str:
    return "{% for message in messages %}" + before + "{{ message['content'] }}" + after + "{% endfor %}" + closing


ROLE = "{{ message['role'] }}"
FAMILIES = (
    Family(
        "ChatML (Qwen, SmolLM, Yi)",
        ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>"),
        _each(f"<|im_start|>{ROLE}\n", "<|im_end|>\n", "<|im_start|>assistant\n"),
    ),
    Family(
        "Llama 3",
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"),
        "<|begin_of_text|>"
        + _each(f"<|start_header_id|>{ROLE}<|end_header_id|>\n\n", "<|eot_id|>", "<|start_header_id|>assistant"),
    ),
    Family(
        "Mistral",
        ("<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[THINK]", "[/THINK]"),
        "<s>{% for message in messages %}{% if message['role'] == 'system' %}[SYSTEM_PROMPT]{{ message['content'] }}"
        "[/SYSTEM_PROMPT]{% elif message['role'] == 'user' %}[INST]{{ message['content'] }}[/INST]{% else %}"
        "{{ message['content'] }}</s>{% endif %}{% endfor %}",
    ),
    Family(
        "Llama 2",
        ("<s>", "</s>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"),
        SYSTEM_IN_USER + "{% for message in turns %}{% if message['role'] == 'user' %}<s>[INST] "
        "{{ told if loop.first }}{{ message['content'] }} [/INST]{% else %}{{ message['content'] }}</s>{% endif %}"
        "{% endfor %}",
    ),
    Family(
        "Gemma",
        ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<unused0>"),
        SYSTEM_IN_USER + "<bos>{% for message in turns %}<start_of_turn>{{ message['role'] }}\n"
        "{{ told if loop.first }}{{ message['content'] | trim }}<end_of_turn>\n{% endfor %}<start_of_turn>model\n",
    ),
    Family(
        "Gemma 4",
        ("<bos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|think|>"),
        "<bos>" + _each(f"<|turn>{ROLE}\n", "<turn|>\n", "<|turn>model\n"),
    ),
    Family(
        "Phi",
        ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|endoftext|>"),
        _each(f"<|{ROLE}|>\n", "<|end|>\n", "<|assistant|>\n"),
    ),
    Family(
        "DeepSeek",
        (
            "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
            "<\uff5cend\u2581of\u2581sentence\uff5c>",
            "<\uff5cUser\uff5c>",
            "<\uff5cAssistant\uff5c>",
            "<think>",
            "</think>",
        ),
        SYSTEM_IN_USER + "<\uff5cbegin\u2581of\u2581sentence\uff5c>{{ told }}{% for message in turns %}"
        "{% if message['role'] == 'user' %}<\uff5cUser\uff5c>{{ message['content'] }}{% else %}<\uff5cAssistant\uff5c>"
        "{{ message['content'] }}<\uff5cend\u2581of\u2581sentence\uff5c>{% endif %}{% endfor %}<\uff5cAssistant\uff5c>",
    ),
    Family(
        "Command",
        ("<BOS_TOKEN>", "<EOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"),
        "<BOS_TOKEN>"
        + _each("<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>"),
    ),
    Family(
        "EXAONE",
        ("[|system|]", "[|user|]", "[|assistant|]", "[|endofturn|]"),
        _each(f"[|{ROLE}|]", "[|endofturn|]\n", "[|assistant|]"),
    ),
    Family(
        "Granite",
        ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"),
        _each(f"<|start_of_role|>{ROLE}<|end_of_role|>", "<|end_of_text|>\n", "<|start_of_role|>assistant"),
    ),
    Family(
        "Nemotron",
        ("<s>", "</s>", "<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<extra_id_0>", "<extra_id_1>"),
        _each(f"<SPECIAL_10>{ROLE}\n", "\n<SPECIAL_12>\n", "<SPECIAL_11>Assistant\n"),
    ),
    Family(
        "Seed-OSS",
        ("<seed:bos>", "<seed:eos>", "<seed:think>", "</seed:think>"),
        _each(f"<seed:bos>{ROLE}\n", "<seed:eos>", "<seed:bos>assistant\n"),
    ),
    Family(
        "MiniMax",
        (
            "]~!b[",
            "]~b]",
            "[e~[",
            "]!d~[",
            "]!p~[",
            "<think>",
            "</think>",
            "<minimax:tool_call>",
            "</minimax:tool_call>",
        ),
        "]~!b[" + _each(f"]~b]{ROLE}\n", "[e~[\n", "]~b]ai\n"),
    ),
    Family(
        "SmolVLM",
        ("<|im_start|>", "<end_of_utterance>"),
        _each(f"<|im_start|>{ROLE}: ", "<end_of_utterance>\n", "Assistant:"),
    ),
    Family("Baichuan", ("<reserved_106>", "<reserved_107>"), _each("<reserved_106>", "", "<reserved_107>")),
    Family(
        "LongCat",
        ("<longcat_system>", "<longcat_user>", "<longcat_assistant>", "<longcat_s>", "</longcat_s>"),
        _each(f"<longcat_{ROLE}>", "</longcat_s>", "<longcat_assistant>"),
    ),
    Family(
        "GLM",
        ("[gMASK]", "<sop>", "<eop>", "<|user|>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
        "[gMASK]<sop>" + _each("<|user|>\n", "", "<|user|>\n"),
    ),
    Family("InternLM", ("<s>", "<eoh>", "<eoa>"), "<s>" + _each("", "<eoh>\n", "<eoa>\n")),
    Family("TeleChat", ("<_user>", "<_bot>", "<_end>"), _each("<_user>", "<_end>", "<_bot>")),
    Family("Hunyuan's tools", ("<tool_calls>", "<tool_sep>"), _each("<tool_calls>", "<tool_sep>", "")),
    Family(
        "Gemma's functions",
        ("<start_function_call>", "<end_function_call>", "<start_function_response>"),
        _each("<start_function_call>", "<end_function_call>", ""),
    ),
)
