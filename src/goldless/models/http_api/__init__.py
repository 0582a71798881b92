"""Models behind HTTP servers: providers by name, and any server with OpenAI's API (vLLM, SGLang, llama.cpp, …).

A row of ``goldless.models.services`` and the words of a user make a *specification*, and that makes a *model*:

specs.py        Specification: addresses, keys and options as users give them
model.py        HttpModel: both Protocols of ``interface`` over one server
batches.py      the same with a batch API: OpenAI's or Anthropic's
dialects.py     the scoring dialects (SGLang's, vLLM's, completions with echo), and which of them a server has
tokenizing.py   the server's own tokenizer, or one on this machine
tokenizer_files.py  … from a file, a folder or the hub
formats.py      wire formats of chat calls: OpenAI's, Anthropic's, Google's
chat.py         what a model wrote, and which of the given answers it chose
calls.py        attempts, retries, and patience with a server that is down
pacing.py       the number of calls in flight, and their time limits
limits.py       the waits that a server requests
client.py       one HTTP session, its errors as one type, and checks of replies
"""

from __future__ import annotations

from goldless.models.http_api.batches import BatchingHttpModel
from goldless.models.http_api.calls import Calling
from goldless.models.http_api.dialects import Finding
from goldless.models.http_api.model import HttpModel
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
