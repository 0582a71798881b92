"""From model specifications to models: ``embedded``, ``gguf:PATH``, ``hf:NAME``, ``anthropic:MODEL``, an address.

This is the only list of providers. Their modules are imported when a model is opened: a local run loads no HTTP
client, and a run with servers loads no engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from goldless.errors import ModelSpecError, nearest
from goldless.models.interface import Model, ModelIdentity
from goldless.models.provider import Form, Provider, Say, Use
from goldless.models.scripted import ScriptedModel
from goldless.plugins import Catalogue

DIALECTS = ("sglang", "vllm", "completions-echo")
THINKING = ("effort", "thinking")
"""Options of models on servers that are in their identity."""
HUB_NAME = r"[\w.-]+/[\w.-]+(:\w+)?$"
"""``owner/model``, as the hub and the providers that serve its models write it."""


def _late(place: str) -> Callable[..., Any]:
    """The function at ``module:name`` in this package; its module is imported when it is called."""
    module, _, name = place.partition(":")

    def call(*given: Any, **options: Any) -> Any:
        return getattr(import_module(f"goldless.models.{module}"), name)(*given, **options)

    return call


def _address(*forms: Form, scheme: str) -> Provider:
    """Models on servers that are named by their address, in any of the dialects; an address includes its scheme."""
    opened, named = _late("http_api:model_at"), _late("http_api:identity_at")
    return Provider(
        forms=forms,
        make=lambda rest, use, say: opened(f"{scheme}{rest}", use=use, say=say, dialects=DIALECTS),
        local=False,
        dialects=DIALECTS,
        unopened=lambda rest: named(f"{scheme}{rest}"),
    )


def _service(
    prefix: str, purpose: str, *, model: str = "MODEL", names: str = "", dialects: tuple[str, ...] = (), **facts: Any
) -> Provider:
    """A provider of ``http_api.services``."""
    opened, named = _late("http_api:service_model"), _late("http_api:service_identity")
    refuse = _late("http_api:refuse_scoring")
    return Provider(
        forms=(Form(f"{prefix}:{model}", purpose),),
        make=lambda rest, use, _: opened(prefix, rest, use=use),
        local=False,
        dialects=dialects,
        unopened=lambda rest: named(prefix, rest),
        check_scorer=lambda rest: refuse(prefix, rest),
        names=names,
        reopened_by_name=True,
        **facts,
    )


OURS = {
    "embedded": Provider(
        forms=(
            Form(
                "embedded",
                "SmolLM2-135M-Instruct on this machine; needs no key, GPU or hub. Scores, but is too small to judge",
            ),
        ),
        make=lambda _rest, _use, say: _late("embedded:embedded_model")(say),
        local=True,
        bare=True,
        small=True,
        reopened_by_name=True,
    ),
    "gguf": Provider(
        forms=(Form("gguf:PATH", "a GGUF file on this machine (architectures llama, qwen2, gemma3)"),),
        make=lambda rest, _use, _say: _late("gguf.model:GgufModel")(Path(rest).expanduser()),
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
        make=lambda rest, _use, _say: _late("local_weights:open_hf")(rest),
        local=True,
        names=HUB_NAME,
        reopened_by_name=True,
    ),
    "openai": _service(
        "openai",
        "OpenAI or OPENAI_BASE_URL, with OPENAI_API_KEY; chat only at OpenAI itself",
        names=r"gpt-|chatgpt-|o[1-9]\b|text-davinci",
        dialects=DIALECTS,
        price_id="openai",
        batch_share=0.5,
    ),
    "anthropic": _service(
        "anthropic",
        "Anthropic, with ANTHROPIC_API_KEY; chat only",
        names="claude-",
        choice=False,
        price_id="anthropic",
        batch_share=0.5,
    ),
    "google": _service(
        "google",
        "Gemini API, with GEMINI_API_KEY or GOOGLE_API_KEY; chat only",
        names="gemini-|gemma-|models/gem",
        price_id="google",
        batch_share=0.5,
    ),
    "azure": _service(
        "azure",
        "Azure OpenAI at AZURE_OPENAI_ENDPOINT, with AZURE_OPENAI_API_KEY; chat only",
        model="DEPLOYMENT",
        price_id="azure",
    ),
    "bedrock": _service(
        "bedrock",
        "Bedrock in AWS_REGION, with AWS_BEARER_TOKEN_BEDROCK or AWS_ACCESS_KEY_ID; chat only",
        names=r"((us|eu|apac|global)\.)?(anthropic|amazon|meta|mistral|cohere|deepseek|qwen|openai)\.[\w.:-]+$",
        choice=False,
        price_id="aws",
    ),
    "mistral": _service(
        "mistral",
        "Mistral, with MISTRAL_API_KEY; chat only",
        names="(mistral|ministral|magistral|codestral|pixtral|open-mi[sx]tral)-",
        choice=False,
        price_id="mistral",
        batch_share=0.5,
    ),
    "together": _service(
        "together",
        "Together, with TOGETHER_API_KEY",
        names=HUB_NAME,
        dialects=("completions-echo",),
        price_id="together",
    ),
    "openrouter": _service(
        "openrouter", "OpenRouter, with OPENROUTER_API_KEY; chat only", names=HUB_NAME, price_id="openrouter"
    ),
    "ollama": _service("ollama", "Ollama on this machine or at OLLAMA_BASE_URL; chat only"),
    "lmstudio": _service("lmstudio", "LM Studio on this machine or at LMSTUDIO_BASE_URL; chat only"),
    "vllm": _service("vllm", "vLLM on this machine or at VLLM_BASE_URL", dialects=DIALECTS),
    "sglang": _service("sglang", "SGLang on this machine or at SGLANG_BASE_URL", dialects=DIALECTS),
    "http": _address(
        Form("http://HOST:PORT/v1#MODEL", "any server with OpenAI's API: vLLM, SGLang, llama.cpp, …"),
        Form(
            "http://A/v1,http://B/v1#MODEL", "one model on several servers; http:@FILE#MODEL: their addresses in a file"
        ),
        scheme="http:",
    ),
    "https": _address(scheme="https:"),
    "command": Provider(
        forms=(Form("command:WORDS", "a program that reads the request as JSON and writes the reply; chat only"),),
        make=lambda rest, _use, _say: _late("command:CommandModel")(rest),
        local=False,
        unopened=lambda rest: _late("command:CommandModel")(rest).identity,
        check_scorer=lambda _: _late("command:refuse_scoring")(),
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
    if provider is None or (bool(colon) if provider.bare else not rest):
        return None
    return provider


def open_model(spec: str, *, use: Use = "both", say: Say = lambda _: None) -> Model:
    """The model of a specification. Nothing is loaded or sent before its ``prepare``."""
    provider = find_provider(spec)
    if provider is None:
        raise _unknown(spec)
    return provider.make(spec.partition(":")[2], use, say)


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
    provider = find_provider(spec)
    if provider is None:
        raise _unknown(spec)
    return None if provider.unopened is None else provider.unopened(spec.partition(":")[2])


def _unknown(spec: str) -> ModelSpecError:
    prefix = spec.partition(":")[0]
    PROVIDERS.refuse_broken(prefix)
    known = PROVIDERS.all()
    lacking = prefix in known and not known[prefix].bare
    hint = f": a name or path is missing after {prefix}:" if lacking else _meant(spec) or nearest(prefix, known)
    listed = "\n".join(f"  {form.form:28} {form.purpose}" for form in forms())
    return ModelSpecError(f"unknown model {spec!r}{hint}\nA model must be one of:\n{listed}")


def _meant(spec: str) -> str:
    """A hint for a model whose prefix was left out."""
    if not spec.strip():
        return ""
    local = ["gguf"] * spec.endswith(".gguf") or ["hf"] * Path(spec, "config.json").is_file()
    providers = PROVIDERS.all().items()
    found = local or [prefix for prefix, one in providers if one.names and re.match(one.names, spec)]
    if not found:
        return ""
    *others, last = (repr(f"{prefix}:{spec}") for prefix in found)
    return f". Did you mean {', '.join(others)}{' or ' * bool(others)}{last}?"


# --- by what models say of themselves ----------------------------------------------------------------------------


def is_local(identity: ModelIdentity) -> bool:
    """Whether a model runs on this machine; False for an unknown provider."""
    provider = PROVIDERS.get(identity.provider)
    return provider is not None and provider.local


def is_small(identity: ModelIdentity) -> bool:
    """Whether a model is too small to judge."""
    provider = PROVIDERS.get(identity.provider)
    return provider is not None and provider.small


def specification_of(identity: ModelIdentity) -> str | None:
    """The specification for an identity from a file; None if the file cannot be trusted with it or does not say."""
    provider = PROVIDERS.get(identity.provider)
    if provider is None or not provider.reopened_by_name:
        return None
    if provider.bare:
        return identity.provider
    options = "&".join(f"{name}={identity.settings[name]}" for name in THINKING if name in identity.settings)
    return f"{identity.provider}:{identity.name}{'?' * bool(options)}{options}"
