"""Models from what users write: ``openai:MODEL`` and ``http://host:port/v1#MODEL``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from yarl import URL

from goldless.errors import ModelSpecError, PrerequisiteError
from goldless.models.http_api.failures import ApiKey
from goldless.models.http_api.limiter import DEFAULT_MAXIMUM
from goldless.models.http_api.model import HttpModel, Use

if TYPE_CHECKING:
    from goldless.models.http_api.client import Timeouts
    from goldless.models.http_api.retrying import RetryPolicy

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"
OPENAI_URL_VARIABLE = "OPENAI_BASE_URL"
HTTP_KEY_VARIABLE = "GOLDLESS_HTTP_API_KEY"


def openai_model(
    name: str,
    *,
    use: Use = "both",
    concurrency: int | None = None,
    max_concurrency: int = DEFAULT_MAXIMUM,
    retry: RetryPolicy | None = None,
    timeouts: Timeouts | None = None,
) -> HttpModel:
    """The model of that name at OpenAI, or at OPENAI_BASE_URL.

    Raises PrerequisiteError where OPENAI_API_KEY is not set.
    """
    if not name:
        raise ModelSpecError("'openai:' names no model; write openai:MODEL")
    key = _key(OPENAI_KEY_VARIABLE)
    if not key:
        raise PrerequisiteError(
            f"openai:{name} needs a key, and {OPENAI_KEY_VARIABLE} is not set.\n"
            f"Set it: export {OPENAI_KEY_VARIABLE}=…  (a server without keys: http://host:port/v1#{name})"
        )
    url = _checked_url(os.environ.get(OPENAI_URL_VARIABLE, "").strip() or OPENAI_URL, said=OPENAI_URL_VARIABLE)
    return HttpModel(
        provider="openai",
        base_url=url,
        name=name,
        key=key,
        key_variable=OPENAI_KEY_VARIABLE,
        public_address=url == OPENAI_URL,
        use=use,
        concurrency=concurrency,
        max_concurrency=max_concurrency,
        retry=retry,
        timeouts=timeouts,
    )


def http_model(
    url_spec: str,
    *,
    use: Use = "both",
    concurrency: int | None = None,
    max_concurrency: int = DEFAULT_MAXIMUM,
    retry: RetryPolicy | None = None,
    timeouts: Timeouts | None = None,
) -> HttpModel:
    """The model at ``http://host:port/v1#MODEL`` (or https); without ``#MODEL``, the server's only one.

    The key, where the server wants one, is GOLDLESS_HTTP_API_KEY: a key for OpenAI never goes to another host.
    """
    address, _, name = url_spec.partition("#")
    return HttpModel(
        provider="http",
        base_url=_checked_url(address, said="the model"),
        name=name,
        key=_key(HTTP_KEY_VARIABLE),
        key_variable=HTTP_KEY_VARIABLE,
        use=use,
        concurrency=concurrency,
        max_concurrency=max_concurrency,
        retry=retry,
        timeouts=timeouts,
    )


def _key(variable: str) -> ApiKey:
    """The key in the environment, or none. Raises PrerequisiteError for one that cannot stand in a header."""
    value = os.environ.get(variable, "").strip()
    if value and not (value.isascii() and value.isprintable()):
        raise PrerequisiteError(f"{variable} holds characters no key has, such as a line break; set it again")
    return ApiKey(value)


def _checked_url(address: str, *, said: str) -> str:
    """The address without a trailing slash, with ``/v1`` where it has no path. Raises ModelSpecError."""
    try:
        url = URL(address)
        host, _ = url.host, url.port
    except ValueError:
        raise ModelSpecError(
            f"{said}: no address: {address.rsplit('@', maxsplit=1)[-1]!r}; write http://host:port/v1#MODEL"
        ) from None
    if url.scheme not in {"http", "https"} or not host:
        raise ModelSpecError(
            f"{said}: no http address: {address.rsplit('@', maxsplit=1)[-1]!r}; write http://host:port/v1#MODEL"
        )
    if url.user is not None or url.password is not None or url.query_string:
        # An address is shown in tables and stored; what stands here is most often a secret.
        raise ModelSpecError(f"{said}: an address holds no user, password or query; keys come from {HTTP_KEY_VARIABLE}")
    return str(url).rstrip("/") if url.path.strip("/") else f"{url.origin()}/v1"
