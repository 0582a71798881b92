"""Addresses and keys as users give them, checked before anything is sent."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from yarl import URL

from goldless.errors import ModelSpecError, PrerequisiteError

HTTP_KEY_VARIABLE = "GOLDLESS_HTTP_API_KEY"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"key|token|secret|passw|auth|sig|code|credential", re.IGNORECASE)
"""Query parameters that would hold a secret: a specification is shown and stored."""


def key_in(variable: str) -> str:
    """The key in the environment, or an empty text. Raises PrerequisiteError for one that is not valid in a header."""
    value = os.environ.get(variable, "").strip()
    if value and not (value.isascii() and value.isprintable()):
        raise PrerequisiteError(
            f"{variable} has characters that a key cannot contain, such as a line break. Set it again"
        )
    return value


def named_key(variable: str) -> str:
    """The key in the variable that ``key=`` names. Raises PrerequisiteError if it is not set."""
    if not (value := key_in(variable)):
        raise PrerequisiteError(f"key={variable}: the variable {variable} is not set.\nSet it: export {variable}=…")
    return value


def check_variable(name: str) -> None:
    """Raise ModelSpecError if ``key=`` has something that cannot be the name of a variable."""
    if not _VARIABLE.fullmatch(name):
        # most likely the key itself, so it is not repeated
        raise ModelSpecError("key= must be the name of an environment variable such as MY_API_KEY, not the key itself")


def refuse_secrets(names: Iterable[str], *, said: str) -> None:
    """Raise ModelSpecError for query parameters that look like secrets."""
    found = [name for name in names if _SECRET.search(name)]
    if found:
        raise ModelSpecError(
            f"{said}: the query must not contain a secret, got {', '.join(found)}. Set the key in "
            f"{HTTP_KEY_VARIABLE}, or in another variable and add ?key=VARIABLE after the model"
        )


def checked_url(address: str, *, said: str, path: str = "/v1") -> str:
    """The address without a trailing slash, with ``path`` if it has none, and its query. Raises ModelSpecError."""
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
    if url.user is not None or url.password is not None:
        # An address is shown in tables and stored.
        raise ModelSpecError(
            f"{said}: the address must not contain a user or password. Set the key in {HTTP_KEY_VARIABLE}"
        )
    refuse_secrets(url.query, said=said)
    query = f"?{url.raw_query_string}" if url.raw_query_string else ""
    return f"{url.origin()}{url.raw_path.rstrip('/') or path}{query}"
