"""Models behind HTTP servers: providers by name, and any server with OpenAI's API (vLLM, SGLang, llama.cpp, …).

specs.py        Specification: addresses, keys and options as users give them
model.py        HttpModel: chat and scoring over one server; batches.py adds the batch APIs of OpenAI and Anthropic
scoring.py      the scoring dialects, tokenizers, and which of them a server has; tokenizer_files.py: ``tokenizer=``
formats.py      wire formats of chat calls; chat.py: which of the given answers a model chose
calls.py        concurrent calls, their time limits and retries; limits.py: the waits that a server requests
client.py       one HTTP session, its errors as one type, and checks of replies
"""

from __future__ import annotations

from goldless.models.http_api.batches import BatchingHttpModel
from goldless.models.http_api.calls import Calling
from goldless.models.http_api.model import HttpModel
from goldless.models.http_api.scoring import Finding
from goldless.models.http_api.specs import Specification
from goldless.models.provider import Use
from goldless.models.services import Service

__all__ = ["Calling", "Finding", "HttpModel", "Specification", "service_model"]


def service_model(service: Service, text: str, *, use: Use = "both", calling: Calling | None = None) -> HttpModel:
    """The model that a user names at a provider, or at an address.

    Raises CapabilityError for scoring where the provider has none, PrerequisiteError if its address or key is not set.
    """
    said = Specification.read(service, text)
    if use == "scoring":
        service.refuse_scoring(said.name)
    kind = HttpModel if service.batch_share is None else BatchingHttpModel
    return kind(said, use=use, calling=calling)
