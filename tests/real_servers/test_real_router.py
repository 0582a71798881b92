"""Two real vLLM servers of one model behind a router, of which one is killed in the middle of a run."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from contextlib import closing

import polars as pl
from running import LITELLM_KEY, MODEL


def test_through_a_router_over_two_servers_nothing_is_lost_or_scored_twice_when_one_is_killed(  # noqa: PLR0917 - fixtures
    vllm, new_vllm, new_litellm, weights, goldless, small_study, tmp_path
):
    journal = tmp_path / "journal.sqlite"
    shared = ("--journal", journal, "--out", tmp_path / "run")
    with new_vllm() as other, new_litellm(vllm, other) as router:
        done = threading.Event()
        before = {server: server.metric("vllm:request_success_total") for server in (vllm, other)}

        def kill() -> None:
            while not done.is_set() and other.metric("vllm:request_success_total") < before[other] + 5:
                time.sleep(0.1)
            other.end(signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        model = f"{router.url}#{MODEL}?tokenizer={weights}&key={LITELLM_KEY}"
        try:
            ended = goldless("score", small_study, "--metric", "gem-raw", "--scorer", model, *shared)
        finally:
            done.set()
            killer.join()
    assert ended.code == 0, ended.err
    assert vllm.metric("vllm:request_success_total") > before[vllm]
    found = pl.read_parquet(tmp_path / "run" / "logprobs")
    assert found["sum_logprob_nats"].null_count() == 0
    with closing(sqlite3.connect(journal)) as kept:
        assert kept.execute("select count(*) from calls where kind = 'score'").fetchone()[0] == len(found)
