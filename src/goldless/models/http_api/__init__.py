"""Models behind HTTP servers: OpenAI, and other servers with its API (vLLM, SGLang, Ollama, OpenRouter, …).

specs.py        HttpModel from ``openai:MODEL`` and ``http://host:port/v1#MODEL``
model.py        HttpModel: both Protocols of ``interface`` over one server
chat.py         chat completions: requests, replies, and which of the given answers was chosen
probing.py      the models a server lists, and its scoring dialect
dialects.py     the scoring dialects: SGLang's, vLLM's, completions with echo
tokenizing.py   the server's own tokenizer
calls.py        the number of calls in flight, retries and waits
client.py       one HTTP session, and its errors as one type
"""

from __future__ import annotations

from goldless.models.http_api.calls import RetryPolicy
from goldless.models.http_api.client import Timeouts
from goldless.models.http_api.model import HttpModel
from goldless.models.http_api.probing import Finding
from goldless.models.http_api.specs import http_identity, http_model, openai_identity, openai_model

__all__ = [
    "Finding",
    "HttpModel",
    "RetryPolicy",
    "Timeouts",
    "http_identity",
    "http_model",
    "openai_identity",
    "openai_model",
]
