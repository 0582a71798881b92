"""Everything known about models by name: one row for each provider, and from a specification to its model.

Modules are imported when a model is opened: a local run loads no HTTP client, and a run with servers loads no engine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from goldless.errors import CapabilityError, ModelSpecError, nearest
from goldless.models.interface import Model, ModelIdentity, Use
from goldless.models.provider import Form, Provider, Say
from goldless.plugins import Catalogue, must_be

DIALECTS = ("sglang", "vllm", "completions-echo")
"""Ways in which servers return log-probabilities of a given text, in the order they are tried."""
HUB_NAME = r"[\w.-]+/[\w.-]+(:\w+)?$"  # ``owner/model``, as the hub and the providers that serve its models write it
HTTP_KEY_VARIABLE = "GOLDLESS_HTTP_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Provider):
    """A provider reached over HTTP."""

    name: str  # its prefix in model specifications
    owner: str  # its name in messages
    url: str = ""  # its address, ``{region}`` to be filled in; empty: every user has another, in ``url_variable``
    url_variable: str  # the variable with another address; empty: users write the address instead of the prefix
    dated_path: str = ""
    """The path where OPENAI_API_VERSION is set, ``{model}`` to be filled in; empty: it makes no difference."""
    keys: tuple[str, ...]  # the variables that may hold the key; the first that is set is used
    key_header: str = "Authorization: Bearer "
    own: bool = False
    """True if it is a server of the user's: it may need no key, and its address is part of a model's identity."""
    format: Literal["openai", "anthropic", "gemini"] = "openai"  # the wire format of chat calls
    listed: bool = True  # whether ``/v1/models`` lists what can be called
    seed: str = "seed"
    effort: str = "reasoning_effort"  # names of two parameters in OpenAI's format, with a dot for a nested one
    dialects: tuple[str, ...] = ()
    """Ways in which it may return log-probabilities of a given text; none: it cannot score."""
    scores_publicly: bool = True  # whether the dialects also apply at ``url``

    @property
    def given_url(self) -> str:
        """The address in the environment; empty if there is none."""
        return os.environ.get(self.url_variable, "").strip()

    def scoring_dialects(self) -> tuple[str, ...]:
        """The dialects to try at the present address."""
        return self.dialects if self.scores_publicly or self.given_url not in {"", self.url} else ()

    def refuse_scoring(self, model: str) -> None:
        """Raise CapabilityError if it cannot be a scorer; needs no key."""
        if not self.scoring_dialects():
            raise CapabilityError(
                f"{self.name}:{model} cannot be a scorer: {self.owner} gives no log-probabilities of a given text. Try "
                "embedded, hf:NAME, vllm:MODEL, or another vLLM or SGLang server as http://HOST:PORT/v1#MODEL; "
                f"{self.name}: models can be critics, reviewers and rewriters"
            )


def late(place: str) -> Callable[..., Any]:
    """The function at ``module:name`` in this package; its module is imported when it is called."""
    module, _, name = place.partition(":")

    def call(*given: Any, **options: Any) -> Any:
        return attrgetter(name)(import_module(f"goldless.models.{module}"))(*given, **options)

    return call


def _service(
    name: str, owner: str, url: str, *, own: bool = False, scheme: str = "", form: str = "MODEL", **facts: Any
) -> Service:
    """A provider, or a server of the user's, with the usual names of variables where no others are given."""
    facts = {"url_variable": f"{name.upper()}_BASE_URL", "keys": (f"{name.upper()}_API_KEY",), **facts}
    place = f" on this machine or at {facts['url_variable']}" if own else f", with {' or '.join(facts['keys'])}"
    purpose = facts.pop("purpose", "") or f"{owner}{place}{'' if facts.get('dialects') else '; chat only'}"
    service = Service(
        name=name,
        owner=owner,
        url=url,
        own=own,
        forms=() if scheme == "https:" else (Form(f"{name}:{form}", purpose),),
        make=lambda rest, use, _: late("http_api:service_model")(service, f"{scheme}{rest}", use=use),
        local=False,
        unopened=lambda rest: late("http_api:Specification.read")(service, f"{scheme}{rest}").identity,
        check_scorer=lambda rest: service.refuse_scoring(rest.partition("?")[0]),
        reopened_by_name=not scheme,
        **{"price_id": None if own else name, **facts},
    )
    return service


# tables, laid out by hand
# fmt: off
_SERVICES = (
    _service("openai", "OpenAI", "https://api.openai.com/v1", dialects=DIALECTS, scores_publicly=False, batch_share=0.5,
             names=r"gpt-|chatgpt-|o[1-9]\b|text-davinci",
             purpose="OpenAI or OPENAI_BASE_URL, with OPENAI_API_KEY; chat only at OpenAI itself"),
    _service("anthropic", "Anthropic", "https://api.anthropic.com/v1", key_header="x-api-key: ", format="anthropic",
             choice=False, names="claude-", batch_share=0.5),
    _service("google", "the Gemini API", "https://generativelanguage.googleapis.com/v1beta", format="gemini",
             url_variable="GOOGLE_GEMINI_BASE_URL", keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
             key_header="x-goog-api-key: ", names="gemini-|gemma-|models/gem",
             purpose="Gemini API, with GEMINI_API_KEY or GOOGLE_API_KEY; chat only"),
    _service("azure", "Azure OpenAI", "", url_variable="AZURE_OPENAI_ENDPOINT", keys=("AZURE_OPENAI_API_KEY",),
             key_header="api-key: ", dated_path="/openai/deployments/{model}", listed=False, form="DEPLOYMENT",
             purpose="Azure OpenAI at AZURE_OPENAI_ENDPOINT, with AZURE_OPENAI_API_KEY; chat only"),
    _service("bedrock", "Bedrock", "https://bedrock-runtime.{region}.amazonaws.com/openai/v1", listed=False,
             url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME", keys=("AWS_BEARER_TOKEN_BEDROCK",), choice=False,
             names=r"((us|eu|apac|global)\.)?openai\.[\w.:-]+$", price_id="aws",
             purpose="OpenAI's models on Bedrock in AWS_REGION, with AWS_BEARER_TOKEN_BEDROCK; chat only"),
    _service("mistral", "Mistral", "https://api.mistral.ai/v1", seed="random_seed", choice=False,
             names="(mistral|ministral|magistral|codestral|pixtral|open-mi[sx]tral)-"),
    _service("groq", "Groq", "https://api.groq.com/openai/v1", choice=False),
    _service("deepseek", "DeepSeek", "https://api.deepseek.com/v1", names="deepseek-"),
    _service("together", "Together", "https://api.together.xyz/v1", dialects=("completions-echo",), names=HUB_NAME),
    _service("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1", dialects=("completions-echo",),
             names="accounts/fireworks/"),
    _service("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", effort="reasoning.effort", names=HUB_NAME),
    _service("ollama", "Ollama", "http://127.0.0.1:11434/v1", own=True),
    _service("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", own=True),
    _service("vllm", "vLLM", "http://127.0.0.1:8000/v1", own=True, dialects=DIALECTS),
    _service("sglang", "SGLang", "http://127.0.0.1:30000/v1", own=True, dialects=DIALECTS),
)
SERVICES = {service.name: service for service in _SERVICES}
AT_ADDRESSES = {
    scheme: _service("http", "this server", "", own=True, scheme=f"{scheme}:", form="//HOST:PORT/v1#MODEL",
                     url_variable="", keys=(HTTP_KEY_VARIABLE,), dialects=DIALECTS,
                     purpose="any server with OpenAI's API: vLLM, SGLang, llama.cpp, …")
    for scheme in ("http", "https")
}
"""Servers that are named by their address."""
ANY_SERVER = AT_ADDRESSES["http"]  # a server at any address, which includes its scheme
OURS: dict[str, Provider] = {
    "embedded": Provider(
        forms=(Form("embedded", "SmolLM2-135M-Instruct on this machine; needs no key, GPU or hub. Scores, but is too "
                    "small to judge"),),
        make=lambda _rest, _use, say: late("embedded:embedded_model")(say),
        local=True, bare=True, small=True, reopened_by_name=True),
    "gguf": Provider(
        forms=(Form("gguf:PATH", "a GGUF file on this machine (architectures llama and qwen2)"),),
        make=lambda rest, _use, _say: late("gguf:GgufModel")(Path(rest).expanduser()),
        local=True),
    "hf": Provider(
        forms=(Form("hf:NAME_OR_PATH", "any Hugging Face causal language model (pip install 'goldless[transformers]')"),
               Form("hf:BASE+ADAPTER", "the same with an adapter (see goldless finetune)"),
               Form("hf:NAME?weights=4bit", "the same, with or without adapter, with weights in 4 or 8 bits"),
               Form("hf:NAME?device=cpu", "the same on the CPU; join options with &, such as dtype=bfloat16 or "
                    "sharing=cached")),
        make=lambda rest, _use, _say: late("local_weights:open_hf")(rest),
        local=True, names=HUB_NAME, reopened_by_name=True),
    **SERVICES,
    **AT_ADDRESSES,
    "command": Provider(
        forms=(Form("command:WORDS", "a program that reads the request as JSON and writes the reply; chat only"),),
        make=lambda rest, _use, _say: late("command:CommandModel")(rest),
        unopened=lambda rest: late("command:CommandModel")(rest).identity,
        check_scorer=lambda _: late("command:refuse_scoring")(),
        local=False, choice=False),
    "scripted": Provider(
        forms=(Form("scripted:FILE", "replies and log-probabilities from a JSON-lines file"),),
        make=lambda rest, _use, _say: late("scripted:ScriptedModel.from_file")(rest),
        local=True),
}
# fmt: on


PROVIDERS: Catalogue[Provider] = Catalogue("goldless.models", OURS, must_be("a model provider", Provider))
"""Providers by prefix, built-in and from installed packages."""


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


def unopened_identity(spec: str) -> ModelIdentity | None:
    """The identity for a specification without opening the model and without a key; None if that is not possible."""
    unopened = _known_provider(spec).unopened
    return None if unopened is None else unopened(spec.partition(":")[2])


def is_local(model: ModelIdentity | str) -> bool:
    """True if a model, by its identity or specification, runs on this machine; False for an unknown provider."""
    provider = find_provider(model) if isinstance(model, str) else PROVIDERS.get(model.provider)
    return getattr(provider, "local", False)


def is_small(identity: ModelIdentity) -> bool:
    """True if a model is too small to judge."""
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
