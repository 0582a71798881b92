"""Models behind HTTP servers: OpenAI, and whatever speaks its wire format (vLLM, SGLang, Ollama, OpenRouter, …).

specs.py        HttpModel from ``openai:MODEL`` and ``http://host:port/v1#MODEL``
model.py        HttpModel: both Protocols of ``interface`` over one server
chat.py         chat completions: what is asked, what the reply means, which of the given answers was chosen
probing.py      the models a server lists, and which scoring dialect it speaks
dialects.py     the scoring dialects: SGLang's, vLLM's, completions with echo
tokenizing.py   the server's own tokenizer
calls.py        how many calls are in flight, attempts and the waits between them
client.py       one HTTP session, and what can go wrong, typed
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
