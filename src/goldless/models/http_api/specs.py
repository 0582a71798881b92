"""Models from specifications: ``openai:MODEL`` and ``http://host:port/v1#MODEL``."""

from __future__ import annotations

import os
from typing import Unpack

from yarl import URL

from goldless.errors import CapabilityError, ModelSpecError, PrerequisiteError
from goldless.models.http_api.client import ApiKey
from goldless.models.http_api.model import HttpModel, HttpOptions
from goldless.models.interface import ModelIdentity

OPENAI = "openai"
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"
OPENAI_URL_VARIABLE = "OPENAI_BASE_URL"
HTTP = "http"
HTTP_KEY_VARIABLE = "GOLDLESS_HTTP_API_KEY"


def openai_model(name: str, **options: Unpack[HttpOptions]) -> HttpModel:
    """The model of that name at OpenAI, or at OPENAI_BASE_URL.

    Raises PrerequisiteError if OPENAI_API_KEY is not set, and CapabilityError for scoring at OpenAI itself.
    """
    own_address = os.environ.get(OPENAI_URL_VARIABLE, "").strip()
    if options.get("use") == "scoring" and own_address in {"", OPENAI_URL}:
        raise CapabilityError(
            f"openai:{name} cannot be a scorer: OpenAI gives no log-probabilities of a given text. Try embedded, "
            "hf:NAME, or a vLLM server as http://HOST:PORT/v1#MODEL; openai: models can be critics and reviewers"
        )
    key = _key(OPENAI_KEY_VARIABLE)
    if not key:
        raise PrerequisiteError(
            f"openai:{name} needs a key, and {OPENAI_KEY_VARIABLE} is not set.\n"
            f"Set it: export {OPENAI_KEY_VARIABLE}=…  (a server without keys: http://host:port/v1#{name})"
        )
    url = _checked_url(own_address or OPENAI_URL, said=OPENAI_URL_VARIABLE)
    return HttpModel(
        provider=OPENAI,
        base_url=url,
        name=name,
        key=key,
        key_variable=OPENAI_KEY_VARIABLE,
        public_address=url == OPENAI_URL,
        **options,
    )


def openai_identity(name: str) -> ModelIdentity:
    """The identity of the model of that name at OpenAI, as far as the name gives it; needs no key."""
    return ModelIdentity(OPENAI, name)


def http_model(url_spec: str, **options: Unpack[HttpOptions]) -> HttpModel:
    """The model at ``http://host:port/v1#MODEL`` (or https); without ``#MODEL``, the server's only one.

    The key, if the server requires one, is GOLDLESS_HTTP_API_KEY: a key for OpenAI is never sent to another host.
    """
    address, _, name = url_spec.partition("#")
    return HttpModel(
        provider=HTTP,
        base_url=_checked_url(address, said="the model"),
        name=name,
        key=_key(HTTP_KEY_VARIABLE),
        key_variable=HTTP_KEY_VARIABLE,
        **options,
    )


def http_identity(url_spec: str) -> ModelIdentity:
    """The identity of the model at an address, as far as the address gives it; nothing is sent."""
    address, _, name = url_spec.partition("#")
    server = _checked_url(address, said="the model")
    return ModelIdentity(HTTP, name or address.partition(":")[2], settings={"server": server})


def _key(variable: str) -> ApiKey:
    """The key in the environment, or none. Raises PrerequisiteError for one that is not valid in a header."""
    value = os.environ.get(variable, "").strip()
    if value and not (value.isascii() and value.isprintable()):
        raise PrerequisiteError(
            f"{variable} has characters that a key cannot contain, such as a line break. Set it again"
        )
    return ApiKey(value)


def _checked_url(address: str, *, said: str) -> str:
    """The address without a trailing slash, with ``/v1`` if it has no path. Raises ModelSpecError."""
    try:
        url = URL(address)
        host, _ = url.host, url.port
    except ValueError:
        raise ModelSpecError(
            f"{said}: not an address: {address.rsplit('@', maxsplit=1)[-1]!r}. Write http://host:port/v1#MODEL"
        ) from None
    if url.scheme not in {"http", "https"} or not host:
        raise ModelSpecError(
            f"{said}: not an http address: {address.rsplit('@', maxsplit=1)[-1]!r}. Write http://host:port/v1#MODEL"
        )
    if url.user is not None or url.password is not None or url.query_string:
        # An address is shown in tables and stored; what stands here is most often a secret.
        raise ModelSpecError(
            f"{said}: the address must not contain a user, password or query. Set the key in {HTTP_KEY_VARIABLE}"
        )
    return str(url).rstrip("/") if url.path.strip("/") else f"{url.origin()}/v1"
