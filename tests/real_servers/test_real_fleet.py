"""Two real vLLM servers of one model, of which one is killed in the middle of a run."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from contextlib import closing

import polars as pl
import pytest
from running import MODEL

from goldless.models.http_api import model_at


def test_a_server_killed_in_the_middle_costs_no_score_and_nothing_is_scored_twice(
    vllm, new_vllm, goldless, small_study, tmp_path
):
    journal = tmp_path / "journal.sqlite"
    with new_vllm() as other:
        done = threading.Event()

        def kill() -> None:
            before = other.metric("vllm:request_success_total")
            while not done.is_set() and other.metric("vllm:request_success_total") < before + 20:
                time.sleep(0.1)
            other.end(signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        shared = ("--journal", journal, "--out", tmp_path / "run")
        ended = goldless(
            "score", small_study, "--metric", "gem-raw", "--scorer", f"{vllm.url},{other.url}#{MODEL}", *shared
        )
        done.set()
        killer.join()
    assert ended.code == 0, ended.err
    found = pl.read_parquet(tmp_path / "run" / "logprobs")
    assert found["sum_logprob_nats"].null_count() == 0
    with closing(sqlite3.connect(journal)) as kept:
        scored = kept.execute("select count(*) from calls where kind = 'score'").fetchone()[0]
    assert scored == len(found)
    alone = goldless("score", small_study, "--metric", "gem-raw", "--scorer", f"{vllm.url}#{MODEL}", *shared)
    assert alone.code == 0, alone.err
    with closing(sqlite3.connect(journal)) as kept:
        assert kept.execute("select count(*) from calls where kind = 'score'").fetchone()[0] == scored


@pytest.mark.anyio
async def test_servers_with_another_precision_are_refused(vllm, new_vllm):
    with new_vllm("bfloat16") as other:
        model = model_at(f"{vllm.url},{other.url}#{MODEL}", use="scoring")
        with pytest.raises(Exception, match=r"serve different models|different log-probabilities") as error:
            await model.prepare()
        assert vllm.url in str(error.value)
        assert other.url in str(error.value)
