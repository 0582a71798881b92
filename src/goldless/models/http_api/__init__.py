"""Models behind HTTP servers: providers by name, and any server with OpenAI's API (vLLM, SGLang, llama.cpp, …).

specs.py        HttpModel from ``openai:MODEL``, ``anthropic:MODEL``, … and ``http://host:port/v1#MODEL``
services.py     providers by name: addresses, key variables, wire formats
addresses.py    addresses and keys as users give them
fleet.py        one model on several servers
replicas.py     … which of them are up and get what
fleet_addresses.py  … their addresses
model.py        HttpModel: both Protocols of ``interface`` over one server
probed_model.py … how it is called, and what it was found to be able to do
formats.py      wire formats of chat calls; OpenAI's
anthropic.py    … Anthropic's
gemini.py       … Google's
converse.py     … Bedrock's, with the signature of its requests
batching.py     a model whose provider takes batches of calls
batches.py      batch APIs: OpenAI's, Anthropic's, Google's, Mistral's
chat.py         what a model wrote, and which of the given answers it chose
probing.py      the models a server lists, and its scoring dialect
dialects.py     the scoring dialects: SGLang's, vLLM's, completions with echo
server_report.py  prefix hits and recommended settings
sending.py      the order of scoring requests
tokenizing.py   the server's own tokenizer, or one on this machine
tokenizer_files.py  … from a file, a folder or the hub
reading.py      what is believed of a reply
calls.py        attempts, retries, and patience with a server that is down
pacing.py       the number of calls in flight
turns.py        time limits that count from when the server could serve a call
limits.py       the waits that a server requests
client.py       one HTTP session, and its errors as one type
"""

from __future__ import annotations

from goldless.models.http_api.calls import RetryPolicy
from goldless.models.http_api.client import Timeouts
from goldless.models.http_api.fleet import FleetModel, identity_at, model_at
from goldless.models.http_api.model import HttpModel
from goldless.models.http_api.probing import Finding
from goldless.models.http_api.specs import (
    http_identity,
    http_model,
    refuse_scoring,
    service_identity,
    service_model,
)

__all__ = [
    "Finding",
    "FleetModel",
    "HttpModel",
    "RetryPolicy",
    "Timeouts",
    "http_identity",
    "http_model",
    "identity_at",
    "model_at",
    "refuse_scoring",
    "service_identity",
    "service_model",
]
