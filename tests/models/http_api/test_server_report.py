"""What a server says of its own work is read from its pages, and shown only where it is there."""

from __future__ import annotations

import pytest

from goldless.models.http_api.client import ApiKey, AttemptError, Client, Timeouts
from goldless.models.http_api.server_report import read_cache_counts, recommend
from goldless.models.interface import CacheCounts

pytestmark = pytest.mark.anyio

VLLM_PAGE = """\
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="smol"} 17000.0
vllm:prompt_tokens_total{engine="1",model_name="smol"} 238.0
vllm:prompt_tokens_created{engine="0",model_name="smol"} 1.76e+09
vllm:prefix_cache_hits_total{engine="0",model_name="smol"} 11776.0
"""
"""As vLLM 0.32 writes it, with two engines."""


class Pages(Client):
    """A server of fixed pages."""

    def __init__(self, **pages: object) -> None:
        super().__init__("http://127.0.0.1:1/v1", ApiKey(), timeouts=Timeouts())
        self._pages = pages

    async def transfer(self, method, route, *_):
        if route.strip("/") not in self._pages:
            raise AttemptError("rejected", "Not Found", status=404)
        return str(self._pages[route.strip("/")]).encode(), {}, self.address(route)

    async def send(self, method, route, *_):
        if route.strip("/") not in self._pages:
            raise AttemptError("rejected", "Not Found", status=404)
        return self._pages[route.strip("/")], None


async def test_prefix_hits_are_summed_over_the_engines_of_a_vllm():
    counts = await read_cache_counts(Pages(metrics=VLLM_PAGE))
    assert counts == CacheCounts(17238, 11776)
    assert counts.sentence == "11,776 of 17,238 prompt tokens (68%) were in the prefix cache"


@pytest.mark.parametrize("page", ["", "<html>", "vllm:prompt_tokens_total{} many", "vllm:other 3"])
async def test_a_page_without_counts_says_nothing(page):
    assert await read_cache_counts(Pages(metrics=page)) is None


async def test_no_page_says_nothing():
    assert await read_cache_counts(Pages()) is None


async def test_sglang_is_recommended_a_policy_that_shares_and_determinism_where_sums_vary():
    settings = {"schedule_policy": "fcfs", "enable_deterministic_inference": False, "disable_radix_cache": False}
    policy, deterministic = await recommend(Pages(server_info=settings), "sglang", 0.2)
    assert "--schedule-policy lpm" in policy
    assert "--enable-deterministic-inference" in deterministic
    good = {"schedule_policy": "lpm", "enable_deterministic_inference": True}
    assert await recommend(Pages(get_server_info=good), "sglang", 0.2) == ()
    assert await recommend(Pages(), "sglang", 0.0) == ()


async def test_vllm_is_recommended_batch_invariance_only_where_sums_vary():
    assert "VLLM_BATCH_INVARIANT=1" not in " ".join(await recommend(Pages(), "vllm", 1e-5))
    assert "VLLM_BATCH_INVARIANT=1" in " ".join(await recommend(Pages(), "vllm", 0.2))
    assert await recommend(Pages(), "completions-echo", 0.2) == ()
