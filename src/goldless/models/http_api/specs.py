"""Models from specifications: ``openai:MODEL`` and other providers by name, and ``http://host:port/v1#MODEL``.

After a model's name, ``?effort=LEVEL`` sets how much it thinks before it writes, and ``?thinking=TOKENS`` how many
tokens of that are allowed beyond those of the reply; joined by ``&``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Unpack
from urllib.parse import parse_qsl

from goldless.errors import ModelSpecError, PrerequisiteError
from goldless.models.http_api.addresses import HTTP_KEY_VARIABLE, checked_url, key_in
from goldless.models.http_api.batching import BatchingHttpModel
from goldless.models.http_api.client import ApiKey
from goldless.models.http_api.formats import OpenAiFormat
from goldless.models.http_api.model import HttpModel, HttpOptions
from goldless.models.http_api.services import SERVICES
from goldless.models.interface import ModelIdentity

HTTP = "http"
MOST_THINKING = 1_000_000


def service_model(service: str, spec: str, **options: Unpack[HttpOptions]) -> HttpModel:
    """The model of a provider that has a name.

    Raises CapabilityError for scoring where the provider has none, then PrerequisiteError if its key is not set.
    """
    if options.get("use") == "scoring":
        refuse_scoring(service, spec)
    found = SERVICES[service]
    name, thinking = split_options(spec)
    key, url = found.key(name), found.address(name)
    options["dialects"] = found.scoring_dialects()
    kind = HttpModel if found.batches is None else partial(BatchingHttpModel, found.batches)
    return kind(
        provider=service,
        base_url=url,
        name=name,
        key=key,
        key_variable=" or ".join(found.key_variables),
        settings=found.settings(url),
        chat_format=found.format,
        wording=replace(found.format.wording, **thinking),
        **options,
    )


def refuse_scoring(service: str, spec: str) -> None:
    """Raise CapabilityError if a provider's model cannot be a scorer; needs no key."""
    SERVICES[service].refuse_scoring(split_options(spec)[0])


def service_identity(service: str, spec: str) -> ModelIdentity:
    """The identity of a provider's model, as far as its name gives it; needs no key."""
    found = SERVICES[service]
    name, thinking = split_options(spec)
    try:
        settings = found.settings(found.address(name))
    except PrerequisiteError:
        settings = {}  # it is not yet known where the model is
    return ModelIdentity(service, name, settings=settings | {option: str(value) for option, value in thinking.items()})


def http_model(url_spec: str, **options: Unpack[HttpOptions]) -> HttpModel:
    """The model at ``http://host:port/v1#MODEL`` (or https); without ``#MODEL``, the server's only one.

    The key, if the server requires one, is GOLDLESS_HTTP_API_KEY: a key for OpenAI is never sent to another host.
    """
    address, _, rest = url_spec.partition("#")
    name, thinking = split_options(rest)
    url = checked_url(address, said="the model")
    chat_format = OpenAiFormat()
    return HttpModel(
        provider=HTTP,
        base_url=url,
        name=name,
        key=ApiKey(key_in(HTTP_KEY_VARIABLE)),
        key_variable=HTTP_KEY_VARIABLE,
        settings={"server": url},
        chat_format=chat_format,
        wording=replace(chat_format.wording, **thinking),
        **options,
    )


def http_identity(url_spec: str) -> ModelIdentity:
    """The identity of the model at an address, as far as the address gives it; nothing is sent."""
    address, _, rest = url_spec.partition("#")
    name, thinking = split_options(rest)
    server = checked_url(address, said="the model")
    settings = {"server": server, **{option: str(value) for option, value in thinking.items()}}
    return ModelIdentity(HTTP, name or address.partition(":")[2], settings=settings)


def split_options(spec: str) -> tuple[str, dict[str, Any]]:
    """A model's name, and how it is to think. Raises ModelSpecError."""
    name, mark, rest = spec.partition("?")
    given = dict(parse_qsl(rest, keep_blank_values=True))
    if mark and (not given or not set(given) <= {"effort", "thinking"}):
        raise ModelSpecError(
            f"the options of {name} must be effort=LEVEL or thinking=TOKENS, joined by &, got {rest!r}"
        )
    found: dict[str, Any] = {}
    if "effort" in given:
        if not given["effort"].isalpha():
            raise ModelSpecError(f"effort must be a level such as low, medium or high, got {given['effort']!r}")
        found["effort"] = given["effort"].lower()
    if "thinking" in given:
        if not given["thinking"].isdecimal() or int(given["thinking"]) > MOST_THINKING:
            raise ModelSpecError(f"thinking must be a number of tokens such as 4096, got {given['thinking']!r}")
        found["thinking"] = int(given["thinking"])
    return name, found
