"""What a server says of its own work: how much its prefix cache saved, and which of its settings should change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from goldless.models.http_api.client import AttemptError, Client
from goldless.models.http_api.dialects import SglangDialect, VllmDialect
from goldless.models.interface import CacheCounts

_COUNTERS = (
    ("vllm:prompt_tokens_total", "vllm:prefix_cache_hits_total"),
    ("sglang:prompt_tokens_total", "sglang:cached_tokens_total"),
)
"""Tokens sent and tokens found in the prefix cache, since the server started; SGLang needs --enable-metrics. vLLM's own
count of queries leaves out scoring, for which it does not look into the cache."""
_NOTICEABLE_NATS = 1e-3


async def read_cache_counts(client: Client) -> CacheCounts | None:
    """The counts on the server's metrics page; None if it has none."""
    try:
        content, _, _ = await client.transfer("GET", "/metrics")
    except AttemptError:
        return None
    lines = content.decode(errors="replace").splitlines()
    for asked, cached in _COUNTERS:
        found = [_sum(lines, name) for name in (asked, cached)]
        if found[0] is not None:
            return CacheCounts(int(found[0]), int(found[1] or 0))
    return None


def _sum(lines: list[str], name: str) -> float | None:
    """The sum of a counter over its labels; None if the page does not have it."""
    values = [line.rsplit(" ", 1)[-1] for line in lines if line.startswith((f"{name}{{", f"{name} "))]
    try:
        return sum(map(float, values)) if values else None
    except ValueError:
        return None


async def recommend(client: Client, dialect: str, noise_nats: float) -> tuple[str, ...]:
    """How the server should be started for scoring; empty if it is fine or does not say."""
    if dialect == VllmDialect.name:
        return tuple(_for_vllm(noise_nats))
    if dialect == SglangDialect.name:
        return tuple(_for_sglang(await _sglang_settings(client), noise_nats))
    return ()


def _for_vllm(noise_nats: float) -> Iterator[str]:
    yield (
        "vLLM computes the whole context again for every score, because it does not use its prefix cache for them. "
        "SGLang shares contexts"
    )
    if noise_nats > _NOTICEABLE_NATS:
        yield "VLLM_BATCH_INVARIANT=1 makes sums independent of batches, on GPUs of compute capability 8.0 or newer"


def _for_sglang(settings: Mapping[str, Any], noise_nats: float) -> Iterator[str]:
    if settings.get("disable_radix_cache"):
        yield "start SGLang without --disable-radix-cache: now every score computes its whole context"
    elif settings.get("schedule_policy") == "fcfs":
        yield "start SGLang with --schedule-policy lpm: with fcfs, calls that wait together all compute their context"
    if noise_nats > _NOTICEABLE_NATS and not settings.get("enable_deterministic_inference"):
        yield "--enable-deterministic-inference makes SGLang's sums independent of batches (attention fa3 or triton)"


async def _sglang_settings(client: Client) -> Mapping[str, Any]:
    """The arguments that the server was started with; empty if it does not say."""
    for route in ("/server_info", "/get_server_info"):
        try:
            data, _ = await client.send("GET", route)
        except AttemptError:
            continue
        if isinstance(data, dict):
            return data
    return {}
