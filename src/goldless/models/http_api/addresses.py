"""Addresses and keys as users give them, checked before anything is sent."""

from __future__ import annotations

import os

from yarl import URL

from goldless.errors import ModelSpecError, PrerequisiteError

HTTP_KEY_VARIABLE = "GOLDLESS_HTTP_API_KEY"


def key_in(variable: str) -> str:
    """The key in the environment, or an empty text. Raises PrerequisiteError for one that is not valid in a header."""
    value = os.environ.get(variable, "").strip()
    if value and not (value.isascii() and value.isprintable()):
        raise PrerequisiteError(
            f"{variable} has characters that a key cannot contain, such as a line break. Set it again"
        )
    return value


def checked_url(address: str, *, said: str, path: str = "/v1") -> str:
    """The address without a trailing slash, with ``path`` if it has none. Raises ModelSpecError."""
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
    return str(url).rstrip("/") if url.path.strip("/") else f"{url.origin()}{path}"
