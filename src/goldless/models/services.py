"""Providers of models reached over HTTP by name: one row for each, with everything that is known about it.

``http_api`` makes the calls. This module is light: naming a provider loads no HTTP client.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any, Literal

from goldless.errors import CapabilityError
from goldless.models.provider import Form, Provider

DIALECTS = ("sglang", "vllm", "completions-echo")
"""Ways in which servers return log-probabilities of a given text, in the order they are tried."""
HUB_NAME = r"[\w.-]+/[\w.-]+(:\w+)?$"  # ``owner/model``, as the hub and the providers that serve its models write it
HTTP_KEY_VARIABLE = "GOLDLESS_HTTP_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Provider):
    """A provider reached over HTTP."""

    name: str
    """Its prefix in model specifications."""
    owner: str
    """Its name in messages."""
    url: str = ""
    """Its address, ``{region}`` to be filled in; empty: every user has another, in ``url_variable``."""
    url_variable: str
    """The variable with another address; empty: users write the address instead of the prefix."""
    dated_path: str = ""
    """The path where OPENAI_API_VERSION is set, ``{model}`` to be filled in; empty: it makes no difference."""
    keys: tuple[str, ...]
    """The variables that may hold the key; the first that is set is used."""
    key_header: str = "Authorization: Bearer "
    own: bool = False
    """Whether it is a server of the user's: it may need no key, and its address is part of a model's identity."""
    format: Literal["openai", "anthropic", "gemini"] = "openai"
    """The wire format of chat calls."""
    listed: bool = True
    """Whether ``/v1/models`` lists what can be called."""
    seed: str = "seed"
    effort: str = "reasoning_effort"
    """Names of two parameters in OpenAI's format, with a dot for a nested one."""
    dialects: tuple[str, ...] = ()
    """Ways in which it may return log-probabilities of a given text; none: it cannot score."""
    scores_publicly: bool = True
    """Whether the dialects also apply at ``url``."""

    @property
    def given_url(self) -> str:
        """The address in the environment; empty if there is none."""
        return os.environ.get(self.url_variable, "").strip()

    @property
    def url_path(self) -> str:
        """Added to an address from the variable that has no path."""
        return f"/{self.url.split('/', 3)[3]}" if self.url else "/openai/v1"

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


# a table, laid out by hand
# fmt: off
_ALL = (
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
# fmt: on
SERVICES = {service.name: service for service in _ALL}  # all providers by prefix
AT_ADDRESSES = {
    scheme: _service(
        "http",
        "this server",
        "",
        own=True,
        scheme=f"{scheme}:",
        form="//HOST:PORT/v1#MODEL",
        purpose="any server with OpenAI's API: vLLM, SGLang, llama.cpp, …",
        url_variable="",
        keys=(HTTP_KEY_VARIABLE,),
        dialects=DIALECTS,
    )
    for scheme in ("http", "https")
}
"""Servers that are named by their address."""
ANY_SERVER = AT_ADDRESSES["http"]  # a server at any address, which includes its scheme
