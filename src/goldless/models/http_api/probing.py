"""What a server has and can do: the models it lists, and its scoring dialect.

A dialect is found by scoring a few words. A server that silently ignores ``echo`` or ``prompt_logprobs``, as
llama.cpp's does, is detected here: a dialect counts as supported only if a real reply passes the same checks
as every later one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from goldless.errors import BudgetError, ModelSpecError, PrerequisiteError
from goldless.models.http_api.client import AttemptError, bad_reply, part_of, reading
from goldless.models.http_api.dialects import WORDINGS, SglangDialect
from goldless.models.http_api.tokenizing import ASKED, REPLIED
from goldless.models.usage import most_score_usage

if TYPE_CHECKING:
    from goldless.models.http_api.calls import Calls
    from goldless.models.http_api.dialects import Dialect
    from goldless.models.http_api.formats import ChatFormat
    from goldless.models.http_api.tokenizing import LocalTokenizer

_LENGTH_FIELDS = ("max_model_len", "context_length", "context_window")
"""vLLM and SGLang; OpenRouter and Together; Groq."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one probe."""

    ability: str
    """What was probed, such as ``scoring as vllm``."""
    works: bool
    answer: str
    """The server's reply, described."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The models that a server lists."""

    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Entries by name; empty if the server has no list."""
    failure: AttemptError | None = None
    """Why a server that should list its models did not."""

    def only_model(self, url: str) -> str:
        """The server's only model. Raises ModelSpecError if there are none or several."""
        if len(self.entries) == 1:
            return next(iter(self.entries))
        if not self.entries:
            raise ModelSpecError(f"{url} does not list its models. Name one: {url}#MODEL")
        raise ModelSpecError(
            f"{url} has {len(self.entries)} models. Name one: {url}#MODEL\nIt has: {', '.join([*self.entries][:20])}"
        )

    def context_tokens(self, name: str) -> int | None:
        """Maximum tokens of the model, if the server reports it."""
        entry = self.entries.get(name, {})
        lengths = (entry.get(length) for length in _LENGTH_FIELDS)
        return next((length for length in lengths if isinstance(length, int) and length > 0), None)

    def has_tokenizer(self, name: str) -> bool:
        """Whether the entry looks like that of a server with a tokenizer route: vLLM or SGLang."""
        return _LENGTH_FIELDS[0] in self.entries.get(name, {})


async def list_models(
    calls: Calls, chat_format: ChatFormat, *, url: str, key_variable: str, named: bool = False
) -> Listing:
    """The list; empty if the server has none, or cannot give it now although the model is ``named``.

    Raises PrerequisiteError if no server responds or the key is rejected.
    """
    if chat_format.listing is None:
        return Listing()
    try:
        data = (await calls.get(chat_format.listing)).data
        with reading():
            return Listing(chat_format.entries(data))
    except AttemptError as failure:
        if failure.kind in {"connection", "timeout"}:
            raise PrerequisiteError(
                f"no server responds at {url} ({failure.message}).\nStart it, or check the host and the port"
            ) from None
        if failure.bad_key:
            raise PrerequisiteError(
                f"{failure.message}\nSet {key_variable} to a key that this server accepts"
            ) from None
        if failure.kind in {"rate_limited", "server_error"} and not named:
            raise not_ready(failure) from None
        return Listing(failure=None if failure.is_answer else failure)


def not_ready(failure: AttemptError) -> PrerequisiteError:
    """The error for a server that responds, but with failures only."""
    return PrerequisiteError(f"{failure.message}\nThe server is there but not ready. Try again later")


async def find_weights(calls: Calls, listing: Listing, name: str) -> str | None:
    """The weights behind a served name, as the server calls them; None if it does not say."""
    entry = listing.entries.get(name, {})
    if entry.get("owned_by") == "sglang":  # whose root is only the served name again
        try:
            return await sglang_weights(calls)
        except AttemptError:
            return None
    root = entry.get("root")
    return root if isinstance(root, str) and root else None


async def sglang_weights(calls: Calls) -> str:
    """The weights behind an SGLang's served name, and their version if one is set.

    Raises AttemptError if the server is not an SGLang.
    """
    try:
        data = (await calls.get("/get_model_info")).data
    except AttemptError:
        data = (await calls.get("/model_info")).data
    path = part_of(data, "model_path")
    if not isinstance(path, str):
        raise bad_reply("/model_info responds, but not as in SGLang")
    version = str(data.get("weight_version") or "default")
    return path if version == "default" else f"{path}@{version}"


async def find_dialect(
    calls: Calls, model: str, names: Sequence[str], tokenizer: LocalTokenizer | None = None
) -> tuple[Dialect | None, str | None, tuple[Finding, ...]]:
    """The first of the named dialects that works, the weights if it is an SGLang, and the findings of all probes."""
    findings: list[Finding] = []
    weights: str | None = None
    if SglangDialect.name in names:
        try:
            weights = await sglang_weights(calls)
        except AttemptError as failure:
            findings.append(Finding(f"scoring as {SglangDialect.name}", works=False, answer=failure.message))
    for name in names:
        if name == SglangDialect.name and weights is None:
            continue
        for wording in WORDINGS[name]:
            dialect = wording(model, tokenizer)
            finding, same_for_all = await _try(calls, dialect)
            findings.append(finding)
            if finding.works:
                return dialect, weights, tuple(findings)
            if same_for_all:
                break  # another wording would fail for the same reason
    return None, weights, tuple(findings)


async def _try(calls: Calls, dialect: Dialect) -> tuple[Finding, bool]:
    """The finding, and whether it also applies to other variants of the dialect."""
    ability, encoded = f"scoring as {dialect.name}", False
    try:
        with reading():
            request = await dialect.tokenizer.encode(calls, ASKED, REPLIED)
            encoded = True
            score = partial(dialect.score, calls, request)
            reply = await calls.paid(most_score_usage(request), score, lambda found: found.usage)
    except AttemptError as failure:
        require_affordable(failure)
        no_such_route = failure.status in {404, 405, 501}
        return Finding(ability, works=False, answer=failure.message), not encoded or no_such_route
    return Finding(ability, works=True, answer=f"{len(reply.logprobs)} values, {dialect.tokenizer.layout} layout"), True


def require_affordable(failure: AttemptError) -> None:
    """Raise BudgetError if a first call was not sent because the budget does not allow it."""
    if failure.kind == "budget":
        raise BudgetError("the budget does not allow the short calls that test what the model can do. Raise --budget")
