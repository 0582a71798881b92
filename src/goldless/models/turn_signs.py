r"""The signs by which chat templates mark turns, and how a text is kept from writing one.

A model on this machine reads texts with its tokenizer's special tokens switched off, so no text can end its turn
(``tokens``). Most servers tokenise the whole conversation as one text and honour special tokens in it, and what
their tokenizer knows is not visible. So every message has its signs escaped when it is made, whatever stage makes it:
``<|im_end|>`` becomes ``<\|im_end|>``, which no tokenizer takes for a token of its own. A text without a sign stays as
it is.
"""

from __future__ import annotations

import re

_NAMES = (
    # Llama 2, Mistral, Gemma, BERT-like vocabularies, MiniMax Text, GLM, SmolVLM, Ling
    r"s|bos|eos|pad|unk|sep|cls|mask|sop|eop|eod|role|start_of_turn|end_of_turn|turn|beginning_of_sentence"
    r"|end_of_sentence|start_of_sentence|end_of_utterance"
    # Command, Baichuan, Nemotron, Apertus, Gemma's unused ones, InternLM, TeleChat
    r"|(?:bos|eos|eop|pad|mask|unk|cls|sep)_token|reserved_\d{1,6}|extra_id_\d{1,6}|special_\d{1,6}|unused\d{1,6}"
    r"|eoa|eoh|_user|_bot|_end|_system"
    # thoughts and tools of many families, Seed-OSS, LongCat, MiniMax, GLM, Gemma's functions
    r"|think|thinking|thought|reasoning|tool_call|tool_calls|tool_response|tool_sep|arg_key|arg_value|(?:seed|minimax):[a-z_]{1,40}"
    r"|longcat_[a-z_]{1,40}|(?:start|end)_function_[a-z_]{1,40}"
)
_BRACKETED = (
    r"inst|system_prompt|available_tools|tool_calls|tool_results|tool_content|call_id|args|think|model_settings"
    r"|control_\d{1,6}|gmask|bos|eos|unk|pad|cls|sep|mask"
)
SIGNS = re.compile(
    r"<(?=[|\uff5c][^<>\n]{1,64}[|\uff5c]>)"  # ChatML, Llama 3, Phi, Command, Granite, GLM, Kimi, DeepSeek, gpt-oss
    r"|<(?=\|[a-z_]{1,40}>|[a-z_]{1,40}\|>)"  # Gemma 4, which opens with <|turn> and closes with <turn|>
    rf"|<(?=/?(?:{_NAMES})>|/?<?SYS>>)"
    r"|\[(?=\|[^\[\]\n]{1,64}\|\])"  # EXAONE
    rf"|\[(?=/?(?:{_BRACKETED})\])"  # Llama 2, Mistral
    r"|\[(?=e~\[)|\](?=[~!][a-z!~]{1,3}[\[\]])"  # MiniMax
    r"|\u25c1(?=/?think\u25b7)|(?-i:assistant(?=final))",  # Kimi, gpt-oss without its special tokens
    re.IGNORECASE,
)
_HINTS = ("<", "[", "]", "\u25c1", "assistantfinal")  # without one of them there is no sign
_TAG = re.compile(r"</?[a-z]+[1-6]?>")


def without_turn_signs(text: str) -> str:
    r"""The text with a backslash in every sign of a turn: ``<|im_end|>`` is ``<\|im_end|>``."""
    if not any(hint in text for hint in _HINTS):
        return text
    return SIGNS.sub(lambda sign: sign[0] + "\\", text)


def is_control(token: str, template: str, *, special: bool) -> bool:
    """True if only a chat template may write this added token of a tokenizer, never a text of people or models.

    Besides special tokens these are the ones in the template (Gemma's turns, Qwen's ``<think>``), and whatever else has
    the form of a sign: a known one, or any word in brackets (``[USER]``, ``<tool_sep>``). White space and HTML tags are
    words of the vocabulary, which people write too.
    """
    if special or (token in template and not token.isspace()):
        return True
    bracketed = re.fullmatch(r"<[^\s<>]+>|\[[^\s\[\]]+\]", token) is not None
    return SIGNS.match(token) is not None or (bracketed and _TAG.fullmatch(token) is None)
