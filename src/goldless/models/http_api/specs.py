"""Models from specifications: ``openai:MODEL`` and other providers by name, and ``http://host:port/v1#MODEL``.

Options follow a model's name after ``?``, joined by ``&``:

effort=LEVEL        how much it thinks before it writes
thinking=TOKENS     tokens of thinking allowed beyond those of the reply
concurrency=CALLS   calls at once, instead of adapting to the server
timeout=SECONDS     the longest that one call may take once the server could serve it
retries=TIMES       how often a failed call is sent again
patience=SECONDS    how long to wait for a server that is down, such as one that restarts
tokenizer=NAME      a tokenizer on this machine, for a server or gateway that shows none: embedded, a path, a hub name
key=VARIABLE        the environment variable with the key, so that each server can have its own

Other parameters after the name of a model at an address, such as Azure's api-version, are passed on to the server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack
from urllib.parse import parse_qsl, urlencode

from goldless.errors import ModelSpecError, PrerequisiteError, nearest
from goldless.models.http_api.addresses import (
    HTTP_KEY_VARIABLE,
    check_variable,
    checked_url,
    key_in,
    named_key,
    refuse_secrets,
)
from goldless.models.http_api.batching import BatchingHttpModel
from goldless.models.http_api.calls import RetryPolicy
from goldless.models.http_api.client import ApiKey, Timeouts
from goldless.models.http_api.formats import OpenAiFormat
from goldless.models.http_api.model import HttpModel
from goldless.models.http_api.probed_model import HttpOptions
from goldless.models.http_api.services import SERVICES
from goldless.models.interface import ModelIdentity

HTTP = "http"
MOST_THINKING = 1_000_000
MOST_CALLS = 10_000
LONGEST_SECONDS = 86_400
MOST_RETRIES = 1000
OPTIONS = ("effort", "thinking", "concurrency", "timeout", "retries", "patience", "tokenizer", "key")


def service_model(service: str, spec: str, **options: Unpack[HttpOptions]) -> HttpModel:
    """The model of a provider that has a name.

    Raises CapabilityError for scoring where the provider has none, then PrerequisiteError if its key is not set.
    """
    if options.get("use") == "scoring":
        refuse_scoring(service, spec)
    found, said = SERVICES[service], Specification.read(spec)
    own = said.key_variable
    key = ApiKey(named_key(own), found.key_header) if own else found.key(said.name)
    url = found.address(said.name)
    options["dialects"] = found.scoring_dialects()
    kind = HttpModel if found.batches is None else partial(BatchingHttpModel, found.batches)
    return kind(
        provider=service,
        base_url=url,
        name=said.name,
        key=key,
        key_variable=own or " or ".join(found.key_variables),
        settings=found.settings(url),
        chat_format=found.format,
        wording=replace(found.format.wording, **said.thinking),
        **said.calling(options),
    )


def refuse_scoring(service: str, spec: str) -> None:
    """Raise CapabilityError if a provider's model cannot be a scorer; needs no key."""
    SERVICES[service].refuse_scoring(Specification.read(spec).name)


def service_identity(service: str, spec: str) -> ModelIdentity:
    """The identity of a provider's model, as far as its name gives it; needs no key."""
    found, said = SERVICES[service], Specification.read(spec)
    try:
        settings = found.settings(found.address(said.name))
    except PrerequisiteError:
        settings = {}  # it is not yet known where the model is
    return ModelIdentity(service, said.name, settings=settings | said.thinking_settings)


def http_model(url_spec: str, **options: Unpack[HttpOptions]) -> HttpModel:
    """The model at ``http://host:port/v1#MODEL`` (or https); without ``#MODEL``, the server's only one.

    The key, if the server requires one, is GOLDLESS_HTTP_API_KEY: a key for OpenAI is never sent to another host.
    """
    url, said = _at_address(url_spec)
    own, chat_format = said.key_variable, OpenAiFormat()
    return HttpModel(
        provider=HTTP,
        base_url=url,
        name=said.name,
        key=ApiKey(named_key(own) if own else key_in(HTTP_KEY_VARIABLE)),
        key_variable=own or HTTP_KEY_VARIABLE,
        settings={"server": url},
        chat_format=chat_format,
        wording=replace(chat_format.wording, **said.thinking),
        **said.calling(options),
    )


def http_identity(url_spec: str) -> ModelIdentity:
    """The identity of the model at an address, as far as the address gives it; nothing is sent."""
    url, said = _at_address(url_spec)
    name = said.name or url_spec.partition("#")[0].partition(":")[2]
    return ModelIdentity(HTTP, name, settings={"server": url} | said.thinking_settings)


def _at_address(url_spec: str) -> tuple[str, Specification]:
    """The address with everything to pass on, and the model there. Raises ModelSpecError."""
    address, _, rest = url_spec.partition("#")
    url, said = checked_url(address, said="the model"), Specification.read(rest, passes_on=True)
    joint = "&" if "?" in url else "?"
    return (f"{url}{joint}{urlencode(said.passed_on)}" if said.passed_on else url), said


@dataclass(frozen=True, slots=True)
class Specification:
    """A model's name and its options."""

    name: str
    thinking: Mapping[str, Any] = field(default_factory=dict)
    """How it is to think, as fields of a wording."""
    concurrency: int | None = None
    timeout_seconds: float | None = None
    retries: int | None = None
    patience_seconds: float | None = None
    tokenizer: str = ""
    key_variable: str = ""
    passed_on: Mapping[str, str] = field(default_factory=dict)
    """Parameters for the server."""

    @classmethod
    def read(cls, spec: str, *, passes_on: bool = False) -> Specification:
        """The parts of ``MODEL?option=value&…``. Raises ModelSpecError."""
        name, mark, rest = spec.partition("?")
        given = dict(parse_qsl(rest, keep_blank_values=True))
        other = {option: value for option, value in given.items() if option not in OPTIONS}
        hint = next((found for option in other if (found := nearest(option, OPTIONS))), "")
        if mark and (not given or (other and (hint or not passes_on))):
            raise ModelSpecError(
                f"the options of {name or 'a model'} must be {', '.join(OPTIONS)}, as in ?timeout=60&retries=2, "
                f"got {', '.join(other) or repr(rest)}{hint}"
            )
        refuse_secrets(other, said=name)
        thinking: dict[str, Any] = {}
        if "effort" in given:
            if not given["effort"].isalpha():
                raise ModelSpecError(f"effort must be a level such as low, medium or high, got {given['effort']!r}")
            thinking["effort"] = given["effort"].lower()
        tokens = _number(given, "thinking", "a number of tokens such as 4096", 0, MOST_THINKING)
        if tokens is not None:
            thinking["thinking"] = int(tokens)
        calls = _number(given, "concurrency", "a number of calls such as 8", 1, MOST_CALLS)
        seconds = _number(given, "timeout", "a number of seconds such as 600", 0.1, LONGEST_SECONDS, whole=False)
        retries = _number(given, "retries", "a number of times such as 5", 0, MOST_RETRIES)
        return cls(
            name,
            thinking,
            None if calls is None else int(calls),
            seconds,
            None if retries is None else int(retries),
            _number(given, "patience", "a number of seconds such as 120", 0, LONGEST_SECONDS, whole=False),
            given.get("tokenizer", ""),
            _variable(given),
            other,
        )

    @property
    def thinking_settings(self) -> dict[str, str]:
        """How it thinks, for the identity."""
        return {option: str(value) for option, value in self.thinking.items()}

    def calling(self, options: HttpOptions) -> HttpOptions:
        """How to call the server: as the specification says, otherwise as given."""
        found = options.copy()
        if self.concurrency is not None:
            found["concurrency"] = self.concurrency
        if self.timeout_seconds is not None:
            found["timeouts"] = replace(options.get("timeouts") or Timeouts(), total_seconds=self.timeout_seconds)
        policy = options.get("retry") or RetryPolicy()
        if self.retries is not None:
            policy = replace(policy, attempts=self.retries + 1)
            found["own_retries"] = True
        if self.patience_seconds is not None:
            policy = replace(policy, patience_seconds=self.patience_seconds)
        found["retry"] = policy
        found["tokenizer"] = self.tokenizer or options.get("tokenizer", "")
        return found


def _number(
    given: Mapping[str, str], option: str, what: str, least: float, most: float, *, whole: bool = True
) -> float | None:
    """The option's value; None if it is not given. Raises ModelSpecError."""
    if option not in given:
        return None
    text = given[option]
    try:
        value = float(int(text) if whole else float(text))
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise ModelSpecError(f"{option} must be {what}, got {text!r}")
    return value


def _variable(given: Mapping[str, str]) -> str:
    """The variable that holds the key. Raises ModelSpecError for one that cannot be a variable."""
    variable = given.get("key", "")
    if "key" in given:
        check_variable(variable)
    return variable
