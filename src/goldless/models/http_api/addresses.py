"""Addresses and keys as users give them, checked before anything is sent."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from yarl import URL

from goldless.errors import ModelSpecError, PrerequisiteError
from goldless.models.services import SERVICES

HTTP_KEY_VARIABLE = "GOLDLESS_HTTP_API_KEY"
_SECRET = re.compile(r"key|token|secret|passw|auth|sig|code|credential", re.IGNORECASE)
"""Query parameters that would hold a secret: a specification is shown and stored."""


def checked_url(address: str, *, said: str, path: str = "/v1") -> str:
    """The address without a trailing slash, with ``path`` if it has none, and its query. Raises ModelSpecError."""
    if "," in address or address.startswith(("http:@", "https:@")):
        raise ModelSpecError(
            f"{said}: one address must be given, got {address!r}. If one model is on several servers, put a router "
            "before them (nginx, LiteLLM's proxy, vLLM's or SGLang's router) and give the router's address"
        )
    try:
        url = URL(address)
        host, _ = url.host, url.port
    except ValueError:
        host = None
    if not host or url.scheme not in {"http", "https"}:
        shown = address.rsplit("@", maxsplit=1)[-1]
        raise ModelSpecError(f"{said}: not an http address: {shown!r}. Write http://host:port/v1#MODEL")
    if url.user is not None or url.password is not None:
        # An address is shown in tables and stored.
        raise ModelSpecError(
            f"{said}: the address must not contain a user or password. Set the key in {HTTP_KEY_VARIABLE}"
        )
    refuse_secrets(url.query, said=said)
    query = f"?{url.raw_query_string}" if url.raw_query_string else ""
    return f"{url.origin()}{url.raw_path.rstrip('/') or path}{query}"


def refuse_secrets(names: Iterable[str], *, said: str) -> None:
    """Raise ModelSpecError for query parameters that look like secrets."""
    found = [name for name in names if _SECRET.search(name)]
    if found:
        raise ModelSpecError(
            f"{said}: the query must not contain a secret, got {', '.join(found)}. Set the key in "
            f"{HTTP_KEY_VARIABLE}, or in another variable and add ?key=VARIABLE after the model"
        )


# --- keys --------------------------------------------------------------------------------------------------------

_OTHER_OWNERS = (
    (("AWS_",), "AWS", ""),
    (("AZURE_",), "Azure", ""),
    (("GITHUB_", "GH_"), "GitHub", "https://models.github.ai"),
    (("GITLAB_", "CI_"), "GitLab", ""),
    (("GOOGLE_", "GCP_", "GCLOUD_"), "Google", ""),
    (("HF_", "HUGGING"), "Hugging Face", "https://router.huggingface.co"),
    (("COHERE_", "CO_API"), "Cohere", "https://api.cohere.ai"),
    (("XAI_",), "xAI", "https://api.x.ai"),
    (("DOCKER",), "Docker", ""),
    (("KAGGLE_",), "Kaggle", ""),
    (("NPM_",), "npm", ""),
    (("PYPI_", "TWINE_"), "PyPI", ""),
    (("SLACK_",), "Slack", ""),
    (("WANDB_",), "Weights & Biases", ""),
)
"""Beginnings of variables that hold somebody's secret, whose it is, and where it is the key of models, if anywhere."""


def key_in(variable: str) -> str:
    """The key in the environment, or an empty text. Raises PrerequisiteError for one that is not valid in a header."""
    value = os.environ.get(variable, "").strip()
    if value and not (value.isascii() and value.isprintable()):
        raise PrerequisiteError(
            f"{variable} has characters that a key cannot contain, such as a line break. Set it again"
        )
    return value


def key_for(variable: str, address: str, *, own: tuple[str, ...] = ()) -> str:
    """The key in the variable that ``key=`` names, for the server at this address, whose variables are ``own``.

    Raises ModelSpecError if the variable belongs to somebody else, PrerequisiteError if it is not set.
    """
    # on Windows, names of variables have no case
    owners = {} if variable in own else dict(_owners(variable.upper()))
    if owners and _origin(address) not in owners:
        whose = " or ".join(f"{owner} ({home})" if home else owner for home, owner in owners.items())
        raise ModelSpecError(
            f"key={variable}: {variable} belongs to {whose} and is not sent to {_origin(address)}. Put this server's "
            f"key into {HTTP_KEY_VARIABLE}, or into another variable such as MY_API_KEY and write key=MY_API_KEY"
        )
    if not (value := key_in(variable)):
        raise PrerequisiteError(f"key={variable}: the variable {variable} is not set.\nSet it: export {variable}=…")
    return value


def _owners(variable: str) -> Iterator[tuple[str, str]]:
    """Where a variable may be sent, and who is there; the place is empty where it belongs to nobody with models."""
    for service in SERVICES.values():
        if variable in service.keys or (not service.own and variable.startswith(f"{service.name.upper()}_")):
            yield _origin(service.url.format(region=os.environ.get("AWS_REGION") or "REGION")), service.owner
            if service.given_url:
                yield _origin(service.given_url), service.owner
    for beginnings, owner, home in _OTHER_OWNERS:
        if variable.startswith(beginnings):
            yield home, owner


def _origin(address: str) -> str:
    """Scheme, host and port."""
    return "/".join(address.lower().split("/")[:3])
