"""Models behind HTTP servers: providers by name, and any server with OpenAI's API (vLLM, SGLang, llama.cpp, …)."""

from __future__ import annotations

from goldless.models.catalogue import Service
from goldless.models.http_api.client import CallSettings
from goldless.models.http_api.model import AnthropicModel, BatchingModel, HttpModel, ProbeResult
from goldless.models.http_api.specs import Specification
from goldless.models.interface import Use

__all__ = ["Calling", "HttpModel", "ProbeResult", "Specification", "service_model"]


def service_model(service: Service, text: str, *, use: Use = "both", calling: CallSettings | None = None) -> HttpModel:
    """The model that a user names at a provider, or at an address.

    Raises CapabilityError for scoring where the provider has none, PrerequisiteError if its address or key is not set.
    """
    said = Specification.read(service, text)
    if use == "scoring":
        service.refuse_scoring(said.name)
    batching = {"openai": BatchingModel, "anthropic": AnthropicModel} if service.batch_share is not None else {}
    return batching.get(service.format, HttpModel)(said, use=use, calling=calling)
