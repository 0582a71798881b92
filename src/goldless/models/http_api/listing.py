"""The models a server says it has: ``/v1/models``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goldless.errors import ModelSpecError, PrerequisiteError
from goldless.models.http_api.failures import AttemptError

if TYPE_CHECKING:
    from goldless.models.http_api.retrying import Calls

_LENGTH_FIELDS = ("max_model_len", "context_length", "context_window")
"""vLLM and SGLang; OpenRouter and Together; Groq."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What ``/v1/models`` said."""

    entries: Mapping[str, Mapping[str, Any]]
    """By name; empty where the server keeps no list."""

    @property
    def names(self) -> tuple[str, ...]:
        """The models, in the server's order."""
        return tuple(self.entries)

    def only_model(self, url: str) -> str:
        """The one model there is. Raises ModelSpecError where there are none or several."""
        if len(self.entries) == 1:
            return next(iter(self.entries))
        if not self.entries:
            raise ModelSpecError(f"{url} does not say which models it has; name one: {url}#MODEL")
        raise ModelSpecError(
            f"{url} has {len(self.entries)} models; name one: {url}#MODEL\nIt has: {', '.join(self.names[:20])}"
        )

    def context_tokens(self, name: str) -> int | None:
        """Most tokens the model takes, where the server says."""
        entry = self.entries.get(name, {})
        for field in _LENGTH_FIELDS:
            value = entry.get(field)
            if isinstance(value, int) and value > 0:
                return value
        return None

    def has_tokenizer(self, name: str) -> bool:
        """Whether the entry is worded as by servers that also tokenise: vLLM and SGLang."""
        return _LENGTH_FIELDS[0] in self.entries.get(name, {})

    def revision(self, name: str) -> str:
        """The weights behind a served name, where they are called otherwise (vLLM's and SGLang's ``root``)."""
        root = self.entries.get(name, {}).get("root")
        return root if isinstance(root, str) and root != name else ""


async def list_models(calls: Calls, *, url: str, key_variable: str) -> Listing:
    """The list; empty where the server has no such route.

    Raises PrerequisiteError where no server answers or the key is not taken.
    """
    try:
        data = (await calls.get("/v1/models")).data
    except AttemptError as failure:
        if failure.kind in {"connection", "timeout"}:
            raise PrerequisiteError(
                f"No server answers at {url} ({failure.message}).\nStart it, or check the host and the port."
            ) from None
        if failure.status in {401, 403}:
            raise PrerequisiteError(f"{failure.message}\nSet {key_variable} to a key this server takes.") from None
        if failure.kind in {"rate_limited", "server_error"}:
            raise PrerequisiteError(f"{failure.message}\nThe server is there but not ready; try again later.") from None
        return Listing({})
    rows = data.get("data") if isinstance(data, dict) else None
    entries = {row["id"]: row for row in rows or () if isinstance(row, dict) and isinstance(row.get("id"), str)}
    return Listing(entries)
