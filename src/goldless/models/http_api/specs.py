"""Models from specifications: ``openai:MODEL`` and other providers by name, and ``http://host:port/v1#MODEL``.

Options follow a model's name after ``?``, joined by ``&``:

effort=LEVEL        how much it thinks before it writes
thinking=TOKENS     tokens of thinking allowed beyond those of the reply
concurrency=CALLS   concurrent calls, instead of adapting to the server
timeout=SECONDS     timeout of one call, without the time in the server's queue
retries=TIMES       how often a failed call is sent again
patience=SECONDS    how long to wait for a server that is down, such as one that restarts
tokenizer=NAME      a tokenizer on this machine, for a server or gateway that shows none: embedded, a path, a hub name
region=REGION       the region of bedrock: models, instead of AWS_REGION
key=VARIABLE        the environment variable with the key, so that each server can have its own

Other parameters after the name of a model at an address, such as Azure's api-version, are passed on to the server.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from yarl import URL

from goldless.errors import ModelSpecError, PrerequisiteError, nearest
from goldless.models.http_api.addresses import HTTP_KEY_VARIABLE, checked_url, key_for, key_in, refuse_secrets
from goldless.models.http_api.batches import BATCH_FORMATS, BatchingHttpModel
from goldless.models.http_api.calls import Calling
from goldless.models.http_api.client import ApiKey
from goldless.models.http_api.formats import format_of
from goldless.models.http_api.model import HttpModel
from goldless.models.interface import ModelIdentity
from goldless.models.provider import Use
from goldless.models.services import DIALECTS, Service

_ANY_SERVER = Service(
    name="http",
    owner="this server",
    purpose="any server with OpenAI's API",
    url_variable="",
    keys=(HTTP_KEY_VARIABLE,),
    own=True,
    dialects=DIALECTS,
)
_NUMBERS: Mapping[str, tuple[str, str, type[int | float], float, float]] = {
    "thinking": ("thinking", "a number of tokens such as 4096", int, 0, 1_000_000),
    "concurrency": ("concurrency", "a number of calls such as 8", int, 1, 10_000),
    "timeout": ("timeout_seconds", "a number of seconds such as 600", float, 0.1, 86_400),
    "retries": ("retries", "a number of times such as 5", int, 0, 1000),
    "patience": ("patience_seconds", "a number of seconds such as 120", float, 0, 86_400),
}
"""Options with a number: the field it sets, what it must be, its type, least and greatest value."""
OPTIONS = ("effort", *_NUMBERS, "tokenizer", "key")


@dataclass(frozen=True, slots=True)
class Specification:
    """A model's name and its options."""

    name: str
    thinking: Mapping[str, Any] = field(default_factory=dict)
    """How it is to think, as fields of a wording."""
    calling: Mapping[str, Any] = field(default_factory=dict)
    """How its server is to be called, as fields of Calling."""
    tokenizer: str = ""
    key: str = ""
    """The variable with the key."""
    region: str = ""
    passed_on: Mapping[str, str] = field(default_factory=dict)
    """Parameters for the server."""

    @classmethod
    def read(cls, spec: str, service: Service | None = None) -> Specification:
        """The parts of ``MODEL?option=value&…`` at a provider, or at an address. Raises ModelSpecError."""
        name, mark, rest = spec.partition("?")
        given = dict(parse_qsl(rest, keep_blank_values=True))
        known = (*OPTIONS, "region") if service is not None and "{region}" in service.url else OPTIONS
        other = {option: value for option, value in given.items() if option not in known}
        hint = next((found for option in other if (found := nearest(option, known))), "")
        if mark and (not given or (other and (hint or service is not None))):
            raise ModelSpecError(
                f"the options of {name or 'a model'} must be {', '.join(known)}, as in ?timeout=60&retries=2, "
                f"got {', '.join(other) or repr(rest)}{hint}"
            )
        refuse_secrets(other, said=name)
        if "effort" in given and not given["effort"].isalpha():
            raise ModelSpecError(f"effort must be a level such as low, medium or high, got {given['effort']!r}")
        if "key" in given and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", given["key"]):
            # most likely the key itself, so it is not repeated
            raise ModelSpecError(
                "key= must be the name of an environment variable such as MY_API_KEY, not the key itself"
            )
        numbers = {_NUMBERS[option][0]: _number(option, given[option]) for option in _NUMBERS if option in given}
        thinking: dict[str, Any] = {"effort": given["effort"].lower()} if "effort" in given else {}
        if "thinking" in numbers:
            thinking["thinking"] = numbers.pop("thinking")
        texts = {option: given.get(option, "") for option in ("tokenizer", "key", "region") if option in known}
        return cls(name, thinking, numbers, **texts, passed_on=other)

    @property
    def thinking_settings(self) -> dict[str, str]:
        """How it thinks, for the identity."""
        return {option: str(value) for option, value in self.thinking.items()}


def _number(option: str, text: str) -> float:
    _, what, kind, least, most = _NUMBERS[option]
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise ModelSpecError(f"{option} must be {what}, got {text!r}")
    return value


def service_model(service: Service, spec: str, *, use: Use = "both", calling: Calling | None = None) -> HttpModel:
    """The model of a provider that has a name.

    Raises CapabilityError for scoring where the provider has none, PrerequisiteError if its address or key is not set.
    """
    said = Specification.read(spec, service)
    if use == "scoring":
        service.refuse_scoring(said.name)
    address, settings = _service_address(service, said)
    return _model(service, said, address, settings, use=use, calling=calling)


def http_model(spec: str, *, use: Use = "both", calling: Calling | None = None) -> HttpModel:
    """The model at ``http://host:port/v1#MODEL`` (or https); without ``#MODEL``, the server's only one.

    The key, if the server requires one, is GOLDLESS_HTTP_API_KEY, or in the variable that ``key=`` names.
    """
    address, said = _at_address(spec)
    return _model(_ANY_SERVER, said, address, {"server": address}, use=use, calling=calling)


def _model(
    service: Service,
    said: Specification,
    address: str,
    settings: Mapping[str, str],
    *,
    use: Use,
    calling: Calling | None,
) -> HttpModel:
    key = key_for(said.key, address, own=service.keys) if said.key else _service_key(service, said.name)
    takes_batches = service.batch_share is not None
    kind = partial(BatchingHttpModel, BATCH_FORMATS[service.format]) if takes_batches else HttpModel
    chat_format = format_of(service)
    return kind(
        provider=service.name,
        base_url=address,
        name=said.name,
        key=ApiKey(key, service.key_header),
        key_variable=said.key or " or ".join(service.keys),
        settings=settings,
        chat_format=chat_format,
        wording=replace(chat_format.wording, **said.thinking),
        use=use,
        dialects=service.scoring_dialects(),
        tokenizer=said.tokenizer,
        calling=calling,
        fixed=said.calling,
    )


def service_identity(service: Service, spec: str) -> ModelIdentity:
    """The identity of a provider's model, as far as its name gives it; needs no key."""
    said = Specification.read(spec, service)
    try:
        _, settings = _service_address(service, said)
    except PrerequisiteError:
        settings = {}  # it is not yet known where the model is
    return ModelIdentity(service.name, said.name, settings=settings | said.thinking_settings)


def http_identity(spec: str) -> ModelIdentity:
    """The identity of the model at an address, as far as the address gives it; nothing is sent."""
    address, said = _at_address(spec)
    name = said.name or spec.partition("#")[0].partition(":")[2]
    return ModelIdentity(_ANY_SERVER.name, name, settings={"server": address} | said.thinking_settings)


def _service_key(service: Service, model: str) -> str:
    """The key; empty for a server of the user's without one. Raises PrerequisiteError if it must be set and is not."""
    for variable in service.keys:
        if value := key_in(variable):
            return value
    if service.own:
        return ""
    first, *others = service.keys
    also = f" (or {' or '.join(others)})" if others else ""
    raise PrerequisiteError(
        f"{service.name}:{model} needs a key, and {first}{also} is not set.\nSet it: export {first}=…"
        + f"  (a server without keys: http://host:port/v1#{model})" * (service.name == "openai")
    )


def _service_address(service: Service, said: Specification) -> tuple[str, dict[str, str]]:
    """The base address of calls to a provider, and what it says about the model, for its identity.

    Raises PrerequisiteError if it is not known.
    """
    version = os.environ.get("OPENAI_API_VERSION", "").strip() if service.dated_path else ""
    path = service.dated_path.format(model=quote(said.name, safe="")) if version else service.url_path
    public = service.url
    if given := service.given_url:
        address = checked_url(given.rstrip("/"), said=service.url_variable, path=path)
        if version:
            address += f"{'&' if '?' in address else '?'}api-version={quote(version)}"
    elif not public:
        raise PrerequisiteError(
            f"{service.name}:{said.name} needs the address of a resource, and {service.url_variable} is not set.\n"
            f"Set it: export {service.url_variable}=https://RESOURCE.openai.azure.com"
        )
    else:
        address = public = public.format(region=_region(service, said)) if "{region}" in public else public
    if not public:
        return address, {"resource": str(URL(address).host)}  # another one may use the same name for another model
    return address, {} if address == public and not service.own else {"server": address}


def _region(service: Service, said: Specification) -> str:
    region = said.region or os.environ.get("AWS_REGION", "").strip() or os.environ.get("AWS_DEFAULT_REGION", "").strip()
    if not re.fullmatch(r"[A-Za-z0-9-]+", region):
        raise PrerequisiteError(
            f"{service.name}:{said.name} needs a region.\nSet it: export AWS_REGION=us-east-1, or add "
            "?region=us-east-1 after the model"
        )
    return region


def _at_address(spec: str) -> tuple[str, Specification]:
    """The address with everything to pass on, and the model there. Raises ModelSpecError."""
    address, _, rest = spec.partition("#")
    url, said = checked_url(address, said="the model"), Specification.read(rest)
    joint = "&" if "?" in url else "?"
    return (f"{url}{joint}{urlencode(said.passed_on)}" if said.passed_on else url), said
