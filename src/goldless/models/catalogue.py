"""From model specifications to models: ``embedded``, ``gguf:PATH``, ``hf:NAME``, ``anthropic:MODEL``, an address.

Providers reached over HTTP by name are rows of ``services``. Modules are imported when a model is opened: a local run
loads no HTTP client, and a run with servers loads no engine.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from goldless.errors import ModelSpecError, nearest
from goldless.models.interface import Model, ModelIdentity
from goldless.models.provider import Form, Provider, Say, Use
from goldless.models.scripted import ScriptedModel
from goldless.models.services import AT_ADDRESSES, HUB_NAME, SERVICES, late
from goldless.plugins import Catalogue

OURS: dict[str, Provider] = {
    "embedded": Provider(
        forms=(
            Form(
                "embedded",
                "SmolLM2-135M-Instruct on this machine; needs no key, GPU or hub. Scores, but is too small to judge",
            ),
        ),
        make=lambda _rest, _use, say: late("embedded:embedded_model")(say),
        local=True,
        bare=True,
        small=True,
        reopened_by_name=True,
    ),
    "gguf": Provider(
        forms=(Form("gguf:PATH", "a GGUF file on this machine (architectures llama and qwen2)"),),
        make=lambda rest, _use, _say: late("gguf.model:GgufModel")(Path(rest).expanduser()),
        local=True,
    ),
    "hf": Provider(
        forms=(
            Form("hf:NAME_OR_PATH", "any Hugging Face causal language model (pip install 'goldless[transformers]')"),
            Form("hf:BASE+ADAPTER", "the same with an adapter (see goldless finetune)"),
            Form("hf:NAME?weights=4bit", "the same, with or without adapter, with weights in 4 or 8 bits"),
            Form(
                "hf:NAME?device=cpu",
                "the same on the CPU; join options with &, such as dtype=bfloat16 or sharing=cached",
            ),
        ),
        make=lambda rest, _use, _say: late("local_weights:open_hf")(rest),
        local=True,
        names=HUB_NAME,
        reopened_by_name=True,
    ),
    **SERVICES,
    **AT_ADDRESSES,
    "command": Provider(
        forms=(Form("command:WORDS", "a program that reads the request as JSON and writes the reply; chat only"),),
        make=lambda rest, _use, _say: late("command:CommandModel")(rest),
        local=False,
        unopened=lambda rest: late("command:CommandModel")(rest).identity,
        check_scorer=lambda _: late("command:refuse_scoring")(),
        choice=False,
    ),
    "scripted": Provider(
        forms=(Form("scripted:FILE", "replies and log-probabilities from a JSON-lines file"),),
        make=lambda rest, _use, _say: ScriptedModel.from_file(rest),
        local=True,
    ),
}


def _wrong(value: Any) -> str | None:
    if isinstance(value, Provider):
        return None
    return f"a model provider must be a goldless.models.provider.Provider, got {type(value).__name__}"


PROVIDERS: Catalogue[Provider] = Catalogue("goldless.models", OURS, _wrong)
"""Providers by prefix, built-in and from installed packages."""


# --- by what users write -----------------------------------------------------------------------------------------


def forms() -> tuple[Form, ...]:
    """The ways to name a model, those of installed packages last."""
    return tuple(form for provider in PROVIDERS.all().values() for form in provider.forms)


def find_provider(spec: str) -> Provider | None:
    """The provider of a specification; None if the prefix is unknown or nothing follows it."""
    prefix, colon, rest = spec.partition(":")
    provider = PROVIDERS.get(prefix)
    return None if provider is None or (bool(colon) if provider.bare else not rest) else provider


def _known_provider(spec: str) -> Provider:
    provider = find_provider(spec)
    if provider is not None:
        return provider
    prefix = spec.partition(":")[0]
    PROVIDERS.refuse_broken(prefix)
    known = PROVIDERS.all()
    local = ["gguf"] * spec.endswith(".gguf") or ["hf"] * Path(spec, "config.json").is_file()
    meant = local or [one for one, other in known.items() if other.names and re.match(other.names, spec)]
    if prefix in known and not known[prefix].bare:
        hint = f": a name or path is missing after {prefix}:"
    elif meant and spec.strip():
        *others, last = (repr(f"{one}:{spec}") for one in meant)
        hint = f". Did you mean {', '.join(others)}{' or ' * bool(others)}{last}?"
    else:
        hint = nearest(prefix, known)
    listed = "\n".join(f"  {form.form:28} {form.purpose}" for form in forms())
    raise ModelSpecError(f"unknown model {spec!r}{hint}\nA model must be one of:\n{listed}")


def open_model(spec: str, *, use: Use = "both", say: Say = lambda _: None) -> Model:
    """The model of a specification. Nothing is loaded or sent before its ``prepare``."""
    return _known_provider(spec).make(spec.partition(":")[2], use, say)


def check_scorer(given: Any) -> None:
    """Raise CapabilityError for a specification of a model that cannot score; needs no key and sends nothing."""
    provider = find_provider(given) if isinstance(given, str) else None
    if provider is not None and provider.check_scorer is not None:
        provider.check_scorer(given.partition(":")[2])


def is_server(spec: str) -> bool:
    """Whether a specification names a model that runs elsewhere or in a separate process."""
    provider = find_provider(spec)
    return provider is not None and not provider.local


def unopened_identity(spec: str) -> ModelIdentity | None:
    """The identity for a specification without opening the model and without a key; None if that is not possible."""
    unopened = _known_provider(spec).unopened
    return None if unopened is None else unopened(spec.partition(":")[2])


# --- by what models say of themselves ----------------------------------------------------------------------------


def is_local(identity: ModelIdentity) -> bool:
    """Whether a model runs on this machine; False for an unknown provider."""
    return getattr(PROVIDERS.get(identity.provider), "local", False)


def is_small(identity: ModelIdentity) -> bool:
    """Whether a model is too small to judge."""
    return getattr(PROVIDERS.get(identity.provider), "small", False)


def specification_of(identity: ModelIdentity) -> str | None:
    """The specification for an identity from a file; None if the file cannot be trusted with it or does not say."""
    provider = PROVIDERS.get(identity.provider)
    if provider is None or not provider.reopened_by_name:
        return None
    if provider.bare:
        return identity.provider
    options = [f"{name}={identity.settings[name]}" for name in ("effort", "thinking") if name in identity.settings]
    return f"{identity.provider}:{identity.name}{'?' * bool(options)}{'&'.join(options)}"
