"""Values that nobody writes on purpose, found by mutating files: a message or a missing value, never a traceback."""

from __future__ import annotations

import json


def test_a_number_of_tokens_that_cannot_be_is_not_known(tmp_path, goldless):
    texts = [{"task": "t", "agent": agent, "text": f"said {agent}"} for agent in ("ann", "bob")]
    asked = [("ann", None), ("bob", None), ("ann", "bob"), ("bob", "ann")]
    rows = [
        {"scorer": "toy", "template": "general", "task": "t", "target": target, "given": given, "tokens": 1.2e21}
        | {"sum_logprob_nats": -3.0 - (given is None)}
        for target, given in asked
    ]
    for name, table in (("responses", texts), ("logprobs", rows)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    ended = goldless("score", tmp_path, "--recorded", "--metric", "gem-raw")
    assert ended.code == 0, ended.err
    assert "1.00" in ended.out
