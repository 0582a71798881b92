"""From what a user writes to a model: ``embedded``, ``gguf:PATH``, ``hf:NAME``, ``openai:MODEL``, an address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from goldless.errors import ModelSpecError, nearest
from goldless.models.embedded import Say, embedded_model
from goldless.models.gguf.model import GgufModel
from goldless.models.interface import ChatModel, Scorer
from goldless.models.local_weights import HfModel
from goldless.models.scripted import ScriptedModel

Use = Literal["both", "chat", "scoring"]


class Model(Scorer, ChatModel, Protocol):
    """A backend that is both a scorer and a chat model, as far as its capabilities go."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to name a model."""

    form: str
    """How it is written."""
    purpose: str
    """What it is, in one line."""


KINDS = (
    Kind("embedded", "SmolLM2-135M-Instruct on this machine; needs no key, GPU or hub. Scores; too small to judge"),
    Kind("gguf:PATH", "a GGUF file of yours on this machine (architectures llama, qwen2, gemma3)"),
    Kind("hf:NAME_OR_PATH", "any Hugging Face causal language model (pip install 'goldless[transformers]')"),
    Kind("hf:BASE+ADAPTER", "the same with an adapter of yours on it (goldless finetune makes one)"),
    Kind("hf:NAME?weights=4bit", "the same, with or without adapter, its weights kept in 4 or 8 bits"),
    Kind("hf:NAME?device=cpu", "the same on the processor; options joined by &: also dtype=bfloat16, sharing=cached"),
    Kind("openai:MODEL", "OpenAI or OPENAI_BASE_URL, with OPENAI_API_KEY; chat only at OpenAI itself"),
    Kind("http://HOST:PORT/v1#MODEL", "an OpenAI-compatible server: vLLM, SGLang, Ollama, …"),
    Kind("scripted:FILE", "answers and log-probabilities from a JSON-lines file"),
)


def open_model(spec: str, *, use: Use = "both", say: Say = lambda _: None) -> Model:
    """The model a specification names. Nothing is loaded or sent before its ``prepare``."""
    if is_server(spec):
        return _server_model(spec, use)
    prefix, colon, rest = spec.partition(":")
    if spec == "embedded":
        return embedded_model(say)
    makers: dict[str, Callable[[], Model]] = {
        "gguf": lambda: GgufModel(Path(rest).expanduser()),
        "hf": lambda: HfModel.from_specification(rest),
        "scripted": lambda: ScriptedModel.from_file(rest),
    }
    if not colon or not rest or prefix not in makers:
        forms = "\n".join(f"  {kind.form:28} {kind.purpose}" for kind in KINDS)
        missing = f": a name or path is missing behind {prefix}:" if prefix in makers else ""
        hint = missing or nearest(prefix, ["embedded", "openai", *makers])
        raise ModelSpecError(f"unknown model {spec!r}{hint}\nA model is one of:\n{forms}")
    return makers[prefix]()


def is_server(spec: str) -> bool:
    """Whether a specification names a model that others run, or that runs in a process of its own."""
    return spec.startswith(("http://", "https://", "openai:"))


def _server_model(spec: str, use: Use) -> Model:
    # a run on this machine alone needs no HTTP client in memory
    from goldless.models.http_api import http_model, openai_model  # noqa: PLC0415

    return (
        openai_model(spec.removeprefix("openai:"), use=use) if spec.startswith("openai:") else http_model(spec, use=use)
    )
