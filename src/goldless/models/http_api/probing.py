"""Which scoring dialect a server speaks, found by asking it to score a few words.

A server that ignores ``echo`` or ``prompt_logprobs`` without a word, as llama.cpp's does, is found out here: a dialect
counts as spoken only when a real reply passes the same checks as every later one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goldless.models.http_api.echo import EchoDialect
from goldless.models.http_api.failures import AttemptError, bad_reply
from goldless.models.http_api.sglang import SglangDialect
from goldless.models.http_api.vllm import VllmDialect
from goldless.models.interface import Message

if TYPE_CHECKING:
    from goldless.models.http_api.dialects import Dialect
    from goldless.models.http_api.retrying import Calls

_MESSAGES = (Message("user", "Which words follow?"),)
_TARGET = "One two three four."


@dataclass(frozen=True, slots=True)
class Finding:
    """What one probe found."""

    ability: str
    """What was probed, such as ``scoring as vllm``."""
    works: bool
    answer: str
    """What the server answered, in words."""


@dataclass(frozen=True, slots=True)
class SglangInfo:
    """What an SGLang server says of itself."""

    model_path: str
    weight_version: str

    def revision(self, name: str) -> str:
        """The weights behind a served name, and their version where somebody set one."""
        path = "" if self.model_path == name else self.model_path
        return path if self.weight_version in {"", "default"} else f"{path}@{self.weight_version}"


async def find_dialect(calls: Calls, model: str) -> tuple[Dialect | None, SglangInfo | None, tuple[Finding, ...]]:
    """The first dialect that works, what SGLang says of itself, and what each probe found."""
    findings: list[Finding] = []
    info: SglangInfo | None = None
    try:
        info = await _sglang_info(calls)
    except AttemptError as failure:
        findings.append(Finding("scoring as sglang", works=False, answer=failure.message))
    candidates: list[Dialect] = [] if info is None else [SglangDialect(model)]
    candidates += [VllmDialect(model, alternatives=alternatives) for alternatives in (0, 1)]
    candidates += [EchoDialect(model, written_tokens=tokens) for tokens in (0, 1)]
    refused = ""
    for dialect in candidates:
        if dialect.name == refused:
            continue  # the second wording would fail for the same reason
        finding, same_for_all = await _try(calls, dialect)
        findings.append(finding)
        if finding.works:
            return dialect, info, tuple(findings)
        refused = dialect.name if same_for_all else ""
    return None, info, tuple(findings)


async def _try(calls: Calls, dialect: Dialect) -> tuple[Finding, bool]:
    """The finding, and whether it holds for other wordings of the dialect too."""
    ability = f"scoring as {dialect.name}"
    try:
        request = await dialect.encode(calls, _MESSAGES, _TARGET)
    except AttemptError as failure:
        return Finding(ability, works=False, answer=failure.message), True
    try:
        reply = await dialect.score(calls, request)
    except AttemptError as failure:
        no_such_route = failure.status in {404, 405, 501}
        return Finding(ability, works=False, answer=failure.message), no_such_route
    return Finding(ability, works=True, answer=f"{len(reply.logprobs)} values, {dialect.layout} layout"), True


async def _sglang_info(calls: Calls) -> SglangInfo:
    """Raises AttemptError where the server is no SGLang."""
    try:
        data = (await calls.get("/get_model_info")).data
    except AttemptError:
        data = (await calls.get("/model_info")).data
    path = data.get("model_path") if isinstance(data, dict) else None
    if not isinstance(path, str):
        raise bad_reply("/model_info answers, but not as SGLang's does")
    return SglangInfo(path, str(data.get("weight_version") or ""))
