"""Providers reached by name: where each is, which variables hold its address and key, and its wire format."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import quote

from goldless.errors import CapabilityError, PrerequisiteError
from goldless.models.http_api.addresses import checked_url, key_in
from goldless.models.http_api.anthropic import AnthropicFormat
from goldless.models.http_api.batches import (
    AnthropicBatches,
    BatchFormat,
    GeminiBatches,
    MistralBatches,
    OpenAiBatches,
)
from goldless.models.http_api.client import ApiKey
from goldless.models.http_api.converse import AwsKey, ConverseFormat
from goldless.models.http_api.dialects import WORDINGS
from goldless.models.http_api.formats import ChatFormat, OpenAiFormat
from goldless.models.http_api.gemini import GeminiFormat

OTHER_SCORERS = "Try embedded, hf:NAME, vllm:MODEL, or another vLLM or SGLang server as http://HOST:PORT/v1#MODEL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One provider."""

    name: str
    """Its prefix in model specs."""
    owner: str
    """Its name in messages."""
    url: str = ""
    """Its public address."""
    url_variable: str
    """The variable with another address."""
    url_path: str = "/v1"
    """Added to an address from the variable that has no path."""
    key_variables: tuple[str, ...] = ()
    """The variables that may hold the key; the first that is set is used."""
    key_header: str = "Authorization: Bearer "
    needs_key: bool = True
    public: bool = True
    """Whether a name means the same model for everyone at its public address."""
    format: ChatFormat = field(default_factory=OpenAiFormat)
    batches: BatchFormat | None = None
    """Its batch API; None: it has none."""
    dialects: tuple[str, ...] = ()
    """Ways in which it may return log-probabilities of a given text; none: it cannot score."""
    scores_publicly: bool = True
    """Whether the dialects also apply at its public address."""

    def address(self, model: str) -> str:  # noqa: ARG002 - for services with an address per model
        """The base address of calls. Raises PrerequisiteError if it is not known."""
        given = self._given_url()
        return checked_url(given, said=self.url_variable, path=self.url_path) if given else self.url

    def settings(self, address: str) -> dict[str, str]:
        """What the address says about the model, for its identity."""
        return {} if self.public and address == self.url else {"server": address}

    def key(self, model: str) -> ApiKey:
        """The key. Raises PrerequisiteError if it must be set and is not."""
        for variable in self.key_variables:
            if value := key_in(variable):
                return ApiKey(value, self.key_header)
        if self.needs_key:
            first, *others = self.key_variables
            also = f" (or {' or '.join(others)})" if others else ""
            raise PrerequisiteError(
                f"{self.name}:{model} needs a key, and {first}{also} is not set.\nSet it: export {first}=…"
                + f"  (a server without keys: http://host:port/v1#{model})" * (self.name == "openai")
            )
        return ApiKey()

    def scoring_dialects(self) -> tuple[str, ...]:
        """The dialects to try at the present address."""
        return self.dialects if self.scores_publicly or self._given_url() not in {"", self.url} else ()

    def refuse_scoring(self, model: str) -> None:
        """Raise if it cannot be a scorer; needs no key."""
        if not self.scoring_dialects():
            raise CapabilityError(
                f"{self.name}:{model} cannot be a scorer: {self.owner} gives no log-probabilities of a given text. "
                f"{OTHER_SCORERS}; {self.name}: models can be critics, reviewers and rewriters"
            )

    def _given_url(self) -> str:
        return os.environ.get(self.url_variable, "").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureService(Service):
    """Deployments of a resource: its v1 API, or the dated one if ``OPENAI_API_VERSION`` is set."""

    def address(self, model: str) -> str:
        """The base address of calls. Raises PrerequisiteError if the endpoint is not set."""
        given = self._given_url().rstrip("/")
        if not given:
            raise PrerequisiteError(
                f"azure:{model} needs the address of a resource, and {self.url_variable} is not set.\n"
                f"Set it: export {self.url_variable}=https://RESOURCE.openai.azure.com"
            )
        version = os.environ.get("OPENAI_API_VERSION", "").strip()
        path = f"/openai/deployments/{quote(model, safe='')}" if version else self.url_path
        url = checked_url(given, said=self.url_variable, path=path)
        joint = "&" if "?" in url else "?"
        return f"{url}{joint}api-version={quote(version)}" if version else url

    def settings(self, address: str) -> dict[str, str]:
        """The resource: another one may use the same name for another model."""
        return {"resource": address.partition("//")[2].partition("/")[0]}


@dataclass(frozen=True, slots=True, kw_only=True)
class BedrockService(Service):
    """Models of one AWS region, with a bearer token or with access keys that sign."""

    def address(self, model: str) -> str:
        """The base address of calls. Raises PrerequisiteError if the region is not set."""
        given = self._given_url()
        if given:
            return checked_url(given, said=self.url_variable, path="")
        return self.url.format(region=self._region(model))

    def settings(self, address: str) -> dict[str, str]:
        """None at AWS, where a name means the same model in all regions."""
        return {"server": address} if self._given_url() else {}

    def key(self, model: str) -> ApiKey:
        """The key. Raises PrerequisiteError if there is none."""
        if token := key_in(self.key_variables[0]):
            return ApiKey(token)
        access, secret = key_in("AWS_ACCESS_KEY_ID"), key_in("AWS_SECRET_ACCESS_KEY")
        if access and secret:
            return AwsKey(access, secret, self._region(model), key_in("AWS_SESSION_TOKEN"))
        raise PrerequisiteError(
            f"bedrock:{model} needs a key: set {self.key_variables[0]}, or AWS_ACCESS_KEY_ID and "
            'AWS_SECRET_ACCESS_KEY.\nFrom a profile: eval "$(aws configure export-credentials --format env)"'
        )

    def _region(self, model: str) -> str:
        region = os.environ.get("AWS_REGION", "").strip() or os.environ.get("AWS_DEFAULT_REGION", "").strip()
        if not region.replace("-", "").isalnum():
            raise PrerequisiteError(f"bedrock:{model} needs a region.\nSet it: export AWS_REGION=us-east-1")
        return region


_ALL = tuple(WORDINGS)

SERVICES = {
    service.name: service
    for service in (
        Service(
            name="openai",
            owner="OpenAI",
            url="https://api.openai.com/v1",
            url_variable="OPENAI_BASE_URL",
            key_variables=("OPENAI_API_KEY",),
            batches=OpenAiBatches(),
            dialects=_ALL,
            scores_publicly=False,
        ),
        Service(
            name="anthropic",
            owner="Anthropic",
            url="https://api.anthropic.com/v1",
            url_variable="ANTHROPIC_BASE_URL",
            key_variables=("ANTHROPIC_API_KEY",),
            key_header="x-api-key: ",
            format=AnthropicFormat(),
            batches=AnthropicBatches(),
        ),
        Service(
            name="google",
            owner="the Gemini API",
            url="https://generativelanguage.googleapis.com/v1beta",
            url_variable="GOOGLE_GEMINI_BASE_URL",
            url_path="/v1beta",
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            key_header="x-goog-api-key: ",
            format=GeminiFormat(),
            batches=GeminiBatches(),
        ),
        AzureService(
            name="azure",
            owner="Azure OpenAI",
            url_variable="AZURE_OPENAI_ENDPOINT",
            url_path="/openai/v1",
            key_variables=("AZURE_OPENAI_API_KEY",),
            key_header="api-key: ",
            format=OpenAiFormat(listed=False),
        ),
        BedrockService(
            name="bedrock",
            owner="Bedrock",
            url="https://bedrock-runtime.{region}.amazonaws.com",
            url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
            key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
            format=ConverseFormat(),
        ),
        Service(
            name="mistral",
            owner="Mistral",
            url="https://api.mistral.ai/v1",
            url_variable="MISTRAL_BASE_URL",
            key_variables=("MISTRAL_API_KEY",),
            format=OpenAiFormat(seed="random_seed", logprobs=False),
            batches=MistralBatches(),
        ),
        Service(
            name="together",
            owner="Together",
            url="https://api.together.xyz/v1",
            url_variable="TOGETHER_BASE_URL",
            key_variables=("TOGETHER_API_KEY",),
            dialects=("completions-echo",),
        ),
        Service(
            name="openrouter",
            owner="OpenRouter",
            url="https://openrouter.ai/api/v1",
            url_variable="OPENROUTER_BASE_URL",
            key_variables=("OPENROUTER_API_KEY",),
            format=OpenAiFormat(effort="reasoning.effort"),
        ),
        Service(
            name="ollama",
            owner="Ollama",
            url="http://127.0.0.1:11434/v1",
            url_variable="OLLAMA_BASE_URL",
            key_variables=("OLLAMA_API_KEY",),
            needs_key=False,
            public=False,
        ),
        Service(
            name="lmstudio",
            owner="LM Studio",
            url="http://127.0.0.1:1234/v1",
            url_variable="LMSTUDIO_BASE_URL",
            key_variables=("LMSTUDIO_API_KEY",),
            needs_key=False,
            public=False,
        ),
        Service(
            name="vllm",
            owner="vLLM",
            url="http://127.0.0.1:8000/v1",
            url_variable="VLLM_BASE_URL",
            key_variables=("VLLM_API_KEY",),
            needs_key=False,
            public=False,
            dialects=_ALL,
        ),
        Service(
            name="sglang",
            owner="SGLang",
            url="http://127.0.0.1:30000/v1",
            url_variable="SGLANG_BASE_URL",
            key_variables=("SGLANG_API_KEY",),
            needs_key=False,
            public=False,
            dialects=_ALL,
        ),
    )
}
