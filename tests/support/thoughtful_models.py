"""Thoughts as each family of models writes them, and models of every backend that write them before a reply."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from goldless.models.catalogue import open_model
from goldless.models.command import CommandModel
from goldless.models.interface import Capabilities, ChatReply, ModelIdentity
from goldless.models.local_model import LoadedModel, LocalModel
from goldless.models.scripted import ScriptedModel
from goldless.models.tokens import ChatLayout, fast_tokenizer
from tests.support.servers.loopback import chat_reply
from tests.support.servers.providers import anthropic_reply, gemini_reply


@dataclass(frozen=True)
class Kind:
    """How a family of models writes its thoughts: what stands before and behind them."""

    before: str
    behind: str
    unfinished: bool = True
    """True if an end of thoughts that is missing can be seen."""

    def reply(self, thoughts: str, text: str) -> str:
        return f"{self.before}{thoughts}{self.behind}{text}"


FINAL = "<|start|>assistant<|channel|>final<|message|>"
KINDS = {
    "DeepSeek, Qwen": Kind("<think>\n", "\n</think>\n\n"),
    "DeepSeek, Qwen, the template opens": Kind("", "\n</think>\n\n", unfinished=False),
    "DeepSeek V3.1, the template opens": Kind("", "</think>", unfinished=False),
    "asked to think": Kind("<thinking>", "</thinking>\n"),
    "EXAONE Deep": Kind("<thought>\n", "\n</thought>\n\n"),
    "gpt-oss at Bedrock": Kind("<reasoning>", "</reasoning>"),
    "gpt-oss at Bedrock, twice": Kind("<reasoning>First, one.</reasoning><reasoning>", "</reasoning>"),
    "Seed": Kind("<seed:think>", "</seed:think>"),
    "LongCat": Kind("<longcat_think>\n", "\n</longcat_think>\n"),
    "Magistral": Kind("[THINK]", "[/THINK]"),
    "Kimi": Kind("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    "Gemma 4": Kind("<|channel>thought\n", "<channel|>"),
    "Command": Kind("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    "OpenThinker": Kind("<|begin_of_thought|>\n", "\n<|end_of_thought|>\n\n"),
    "Apertus": Kind("<|inner_prefix|>", "<|inner_suffix|>"),
    "gpt-oss": Kind("<|channel|>analysis<|message|>", f"<|end|>{FINAL}"),
    "gpt-oss without special tokens": Kind("analysis", "assistantfinal"),
}
THOUGHTS = "We compare. Answer one has 2 errors, so it may be one. Score: 1"

# --- backends ----------------------------------------------------------------------------------------------------


class Plugin:
    """A model of a plugin, which knows nothing of thoughts."""

    identity = ModelIdentity("plugin", "toy")
    capabilities = Capabilities(chat=True)

    def __init__(self, written: str) -> None:
        self._written = written

    async def prepare(self) -> None: ...
    async def aclose(self) -> None: ...

    async def chat(self, _: Any) -> ChatReply:
        return ChatReply(self._written)


TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}<|assistant|>"
"""A chat template that opens the turn of the assistant, and no thoughts."""


class ByteModel(LocalModel):
    """A model on this machine that writes this text, byte by byte; ``special`` are special tokens of its vocabulary."""

    def __init__(self, written: str, *, special: tuple[str, ...] = (), template: str = TEMPLATE) -> None:
        super().__init__()
        self._written, self._special, self._template = written, special, template

    def _load(self) -> LoadedModel:
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        backend = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.decoder = decoders.ByteLevel()
        backend.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in self._special])
        layout = ChatLayout(fast_tokenizer(backend), self._template, "", "", add_begin=False)
        engine: Any = _Engine(backend.encode(self._written, add_special_tokens=False).ids)
        return LoadedModel(ModelIdentity("hf", "bytes"), layout, None, frozenset(), engine)


class _Engine:
    def __init__(self, ids: list[int]) -> None:
        self._ids = ids

    def generate(self, _: Any, **how: Any) -> list[tuple[int, float]]:
        return [(token, -0.25) for token in self._ids[: how["most"]]]


def _said_by(spec: str, answer: Callable[[str], Any]) -> Callable[..., Any]:
    def make(server: Any, written: str) -> Any:
        server.said = server.behaviour.chat = lambda _: answer(written)
        return open_model(spec, use="chat")

    return make


def _program(_: Any, written: str) -> CommandModel:
    code = f"import sys; sys.stdout.buffer.write({written!r}.encode())"
    return CommandModel(shlex.join([sys.executable, "-c", code]))


def _parts(written: str) -> Any:
    return chat_reply([{"type": "text", "text": written}])


BACKENDS: dict[str, Callable[[Any, str], Any]] = {
    "openai": _said_by("openai:toy", chat_reply),
    "bedrock": _said_by("bedrock:toy", chat_reply),
    "mistral": _said_by("mistral:toy", _parts),
    "anthropic": _said_by("anthropic:claude-toy-1", lambda text: anthropic_reply([{"type": "text", "text": text}])),
    "google": _said_by("google:gemini-toy", lambda text: gemini_reply([{"text": text}])),
    "command": _program,
    "local": lambda _, written: ByteModel(written),
    "scripted": lambda _, written: ScriptedModel(answers=lambda _: written),
    "plugin": lambda _, written: Plugin(written),
}
