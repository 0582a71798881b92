"""Models behind HTTP servers: OpenAI, and whatever speaks its wire format (vLLM, SGLang, Ollama, OpenRouter, …).

model.py        HttpModel: both Protocols of ``interface`` over one server
specs.py        HttpModel from ``openai:MODEL`` and ``http://host:port/v1#MODEL``
chat.py         chat completions: what is asked and what the reply means
choosing.py     which of the given answers was chosen, and with what probability
probing.py      which scoring dialect a server speaks
dialects.py     what the scoring dialects have in common
sglang.py, vllm.py, echo.py     the dialects
tokenizing.py   the server's own tokenizer
listing.py      the models a server says it has
retrying.py     attempts and the waits between them
limiter.py      how many calls are in flight
client.py       one HTTP session
failures.py     what can go wrong, typed
"""

from __future__ import annotations

from goldless.models.http_api.client import Timeouts
from goldless.models.http_api.model import HttpModel, Use
from goldless.models.http_api.probing import Finding
from goldless.models.http_api.retrying import RetryPolicy
from goldless.models.http_api.specs import http_model, openai_model

__all__ = ["Finding", "HttpModel", "RetryPolicy", "Timeouts", "Use", "http_model", "openai_model"]
