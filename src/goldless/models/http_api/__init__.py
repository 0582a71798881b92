"""Models behind HTTP servers: providers by name, and any server with OpenAI's API (vLLM, SGLang, llama.cpp, …).

specs.py        HttpModel from ``openai:MODEL``, ``anthropic:MODEL``, … and ``http://host:port/v1#MODEL``
addresses.py    addresses and keys as users give them; the providers are rows of ``goldless.models.services``
model.py        HttpModel: both Protocols of ``interface`` over one server
batches.py      the same with a batch API: OpenAI's or Anthropic's
probing.py      the models a server lists, and its scoring dialect
dialects.py     the scoring dialects: SGLang's, vLLM's, completions with echo
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

from goldless.models.http_api.calls import Calling
from goldless.models.http_api.model import HttpModel
from goldless.models.http_api.probing import Finding
from goldless.models.http_api.specs import http_identity, http_model, service_identity, service_model

__all__ = [
    "Calling",
    "Finding",
    "HttpModel",
    "http_identity",
    "http_model",
    "service_identity",
    "service_model",
]
