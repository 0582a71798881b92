"""Models on servers as users name them: ``openai:MODEL?effort=low``, ``http://host:port/v1#MODEL?key=MY_API_KEY``.

docs/models.md has the options. Other parameters after the name of a model at an address, such as Azure's api-version,
are passed on to the server.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from yarl import URL

from goldless.errors import ModelSpecError, PrerequisiteError, nearest
from goldless.models.catalogue import HTTP_KEY_VARIABLE, SERVICES, Service
from goldless.models.http_api.client import ApiKey
from goldless.models.interface import ModelIdentity
from goldless.models.usage import parse_price

_NUMBERS: Mapping[str, tuple[str, str, type[int | float], float, float]] = {
    "thinking": ("thinking", "a number of tokens such as 4096", int, 0, 1_000_000),
    "concurrency": ("concurrency", "a number of calls such as 8", int, 1, 10_000),
    "timeout": ("timeout_seconds", "a number of seconds such as 600", float, 0.1, 86_400),
    "retries": ("retries", "a number of times such as 5", int, 0, 1000),
    "patience": ("patience_seconds", "a number of seconds such as 120", float, 0, 86_400),
}
"""Options with a number: the field it sets, what it must be, its type, least and greatest value."""
_SECRET = re.compile(r"key|token|secret|passw|auth|sig|code|credential", re.IGNORECASE)
"""Query parameters that would hold a secret: a specification is shown and stored."""


def take_limits(options: dict[str, str]) -> dict[str, Any]:
    """Take the limits of calls out of the options of a specification; their values by field. A price is checked."""
    if "price" in options:
        parse_price(options.pop("price"))  # usage.price_of reads it
    numbers: dict[str, Any] = {}
    for option, (sets, what, kind, least, most) in _NUMBERS.items():
        if (text := options.pop(option, None)) is not None:
            with suppress(ValueError):
                numbers[sets] = kind(text)
            if not least <= numbers.get(sets, -1) <= most:
                raise ModelSpecError(f"{option} must be {what}, got {text!r}")
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """A model on a server and how it is to be called, as a user writes it."""

    service: Service
    name: str  # empty: the only model of the server at ``address``
    address: str = ""  # the server's address with everything to pass on, where the user gives it; empty: the provider's
    thinking: Mapping[str, Any] = field(default_factory=dict)  # how it is to think, as fields of a wording
    calling: Mapping[str, Any] = field(default_factory=dict)  # how its server is to be called, as fields of Calling
    tokenizer: str = ""
    key: str = ""  # the variable with the key; empty: the provider's
    region: str = ""

    @classmethod
    def read(cls, service: Service, text: str) -> Specification:
        """The parts of ``MODEL?option=value&…`` at a provider, or of ``ADDRESS#MODEL?…``. Raises ModelSpecError."""
        address = ""
        if not service.url_variable:
            address, _, text = text.partition("#")
            address = checked_url(address, said="the model")
        name, mark, rest = text.partition("?")
        given = dict(parse_qsl(rest, keep_blank_values=True))
        known = ("effort", *_NUMBERS, "price", "tokenizer", "key", *(["region"] if "{region}" in service.url else ()))
        other = {option: given.pop(option) for option in [*given] if option not in known}
        hint = next((found for option in other if (found := nearest(option, known))), "")
        if (mark and not given and not other) or (other and (hint or not address)):
            raise ModelSpecError(
                f"the options of {name or 'a model'} must be {', '.join(known)}, as in ?timeout=60&retries=2, "
                f"got {', '.join(other) or repr(rest)}{hint}"
            )
        _refuse_secrets(other, said=name)
        if other:
            address = _with_query(address, urlencode(other))
        if not given.get("effort", "low").isalpha():
            raise ModelSpecError(f"effort must be a level such as low, medium or high, got {given['effort']!r}")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", given.get("key", "_")):
            # most likely the key itself, so it is not repeated
            raise ModelSpecError(
                "key= must be the name of an environment variable such as MY_API_KEY, not the key itself"
            )
        calling = take_limits(given)
        thinking: dict[str, Any] = {"effort": given.pop("effort").lower()} if "effort" in given else {}
        if "thinking" in calling:
            thinking["thinking"] = calling.pop("thinking")
        return cls(service=service, name=name, address=address, thinking=thinking, calling=calling, **given)

    @property
    def identity(self) -> ModelIdentity:
        """The model's identity as far as the specification gives it; needs no key."""
        settings: dict[str, str] = {}
        with suppress(PrerequisiteError):  # it is not yet known where the model is
            _, settings = self.place()
        settings |= {option: str(value) for option, value in self.thinking.items()}
        return ModelIdentity(self.service.name, self.name or self.address.partition(":")[2], settings=settings)

    def place(self) -> tuple[str, dict[str, str]]:
        """The base address of calls, and what it says about the model's identity. Raises PrerequisiteError."""
        service, address = self.service, self.address or self.service.url
        if self.address:
            return address, {"server": address}
        if service.given_url:
            version = os.environ.get("OPENAI_API_VERSION", "").strip() if service.dated_path else ""
            path = f"/{service.url.split('/', 3)[3]}" if service.url else "/openai/v1"  # where the address has none
            path = service.dated_path.format(model=quote(self.name, safe="")) if version else path
            address = checked_url(service.given_url.rstrip("/"), said=service.url_variable, path=path)
            if version:
                address = _with_query(address, f"api-version={quote(version)}")
            if not service.url:  # another resource may use the same name for another model
                return address, {"resource": str(URL(address).host)}
            return address, {} if address == service.url and not service.own else {"server": address}
        if not address:
            raise PrerequisiteError(
                f"{service.name}:{self.name} needs the address of a resource, and {service.url_variable} is not set.\n"
                f"Set it: export {service.url_variable}=https://RESOURCE.openai.azure.com"
            )
        if "{region}" in address:
            region = self.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
            if not re.fullmatch(r"[A-Za-z0-9-]+", region.strip()):
                raise PrerequisiteError(
                    f"{service.name}:{self.name} needs a region.\nSet it: export AWS_REGION=us-east-1, or add "
                    "?region=us-east-1 after the model"
                )
            address = address.format(region=region.strip())
        return address, {"server": address} if service.own else {}

    @property
    def key_variable(self) -> str:
        """The variables that may hold the key, for messages."""
        return self.key or " or ".join(self.service.keys)

    def api_key(self, address: str) -> ApiKey:
        """The key for the server at this address. Raises if it must be set and is not, or is somebody else's."""
        service, key = self.service, self.key
        if key and key not in service.keys:
            _refuse_elsewhere(key, address)
        for variable in (key,) if key else service.keys:
            value = os.environ.get(variable, "").strip()
            if not (value.isascii() and value.isprintable()):
                raise PrerequisiteError(
                    f"{variable} has characters that a key cannot contain, such as a line break. Set it again"
                )
            if value:
                return ApiKey(value, service.key_header)
        if key:
            raise PrerequisiteError(f"key={key}: the variable {key} is not set.\nSet it: export {key}=…")
        if not service.own:
            first, *others = service.keys
            also = f" (or {' or '.join(others)})" if others else ""
            raise PrerequisiteError(
                f"{service.name}:{self.name} needs a key, and {first}{also} is not set.\nSet it: export {first}=…"
                + f"  (a server without keys: http://host:port/v1#{self.name})" * (service.name == "openai")
            )
        return ApiKey()


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
    _refuse_secrets(url.query, said=said)
    return _with_query(f"{url.origin()}{url.raw_path.rstrip('/') or path}", url.raw_query_string)


def _with_query(address: str, query: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}{query}" if query else address


def _refuse_secrets(names: Iterable[str], *, said: str) -> None:
    found = [name for name in names if _SECRET.search(name)]
    if found:
        raise ModelSpecError(
            f"{said}: the query must not contain a secret, got {', '.join(found)}. Set the key in "
            f"{HTTP_KEY_VARIABLE}, or in another variable and add ?key=VARIABLE after the model"
        )


_OTHER_OWNERS = (
    ("AWS", "", "AWS_"),
    ("Azure", "", "AZURE_"),
    ("GitHub", "https://models.github.ai", "GITHUB_|GH_"),
    ("Google", "", "GOOGLE_|GCP_|GCLOUD_"),
    ("Hugging Face", "https://router.huggingface.co", "HF_|HUGGING"),
    ("Cohere", "https://api.cohere.ai", "COHERE_|CO_API"),
    ("xAI", "https://api.x.ai", "XAI_"),
    ("another service", "", "GITLAB_|CI_|DOCKER|KAGGLE_|NPM_|PYPI_|TWINE_|SLACK_|WANDB_"),
)
"""Whose a secret is, where it is the key of models, and how the variables that hold it begin."""


def _refuse_elsewhere(variable: str, address: str) -> None:
    owners: dict[str, str] = {}
    upper = variable.upper()  # on Windows, names of variables have no case
    for service in SERVICES.values():
        if upper in service.keys or (not service.own and upper.startswith(f"{service.name.upper()}_")):
            homes = (service.url.format(region=os.environ.get("AWS_REGION") or "REGION"), service.given_url)
            owners |= {_origin(home): service.owner for home in homes if home or not service.url}
    owners |= {home: owner for owner, home, begin in _OTHER_OWNERS if re.match(begin, upper)}
    if owners and _origin(address) not in owners:
        whose = " or ".join(f"{owner} ({home})" if home else owner for home, owner in owners.items())
        raise ModelSpecError(
            f"key={variable}: {variable} belongs to {whose} and is not sent to {_origin(address)}. Put this server's "
            f"key into {HTTP_KEY_VARIABLE}, or into another variable such as MY_API_KEY and write key=MY_API_KEY"
        )


def _origin(address: str) -> str:
    return "/".join(address.lower().split("/")[:3])
