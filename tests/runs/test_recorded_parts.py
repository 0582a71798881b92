"""A recorded table read in parts on disk gives what the same table gives in memory, whatever the order of its rows."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import goldless
from goldless.errors import MetricError, StudyError
from goldless.reports import document

AGENTS = [f"a{i}" for i in range(5)]
TASKS = [f"t{i}" for i in range(12)]


@pytest.fixture
def in_parts(monkeypatch):
    """Makes every table one that does not fit memory; its parts have one to three tasks."""

    def start():
        monkeypatch.setattr("goldless.runs.recorded_parts.ROWS_IN_MEMORY", 10)
        monkeypatch.setattr("goldless.runs.recorded_table.ROWS_PER_PART", 60)

    return start


def logprobs(templates=("one", "two")):
    """Log-probabilities under two templates; some are missing, and the second template lacks some tasks."""
    random = np.random.default_rng(1)
    rows = []
    for template in templates:
        for number, task in enumerate(TASKS[: None if template == "one" else 9]):
            for target in AGENTS:
                for given in [None, *(agent for agent in AGENTS if agent != target)]:
                    value = -float(random.integers(1, 1 << 20)) / (1 << 12)
                    failed = number % 4 == 1 and target == "a1" and given == "a2"
                    rows.append(
                        (
                            "s",
                            template,
                            task,
                            target,
                            given,
                            None if failed else value,
                            int(random.integers(1, 40)),
                            "refused" if failed else None,
                        )
                    )
    columns = ["scorer", "template", "task", "target", "given", "sum_logprob_nats", "tokens", "failure"]
    return pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None)


def verdicts():
    """A matched and two shuffled verdicts on every ordered pair; some are missing."""
    random = np.random.default_rng(2)
    rows = []
    for number, task in enumerate(TASKS):
        for first in AGENTS:
            for second in AGENTS:
                for shift in (0, 1, 5) if first != second else ():
                    lost = number == 3 and first == "a2"
                    value = None if lost else float(random.integers(0, 9)) / 8
                    read = "label" if number % 2 else "probabilities"
                    rows.append(("c", "p", task, first, second, TASKS[(number + shift) % 12], value, "Yes", read))
    columns = ["critic", "prompt", "task", "first", "second", "second_task", "value", "label", "read_from"]
    return pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None)


def write(folder, **tables):
    folder.mkdir(parents=True)
    (folder / "tasks.jsonl").write_text("".join(json.dumps({"task": task}) + "\n" for task in TASKS))
    (folder / "agents.jsonl").write_text("".join(json.dumps({"agent": agent}) + "\n" for agent in AGENTS))
    for name, table in tables.items():
        table.write_parquet(folder / f"{name}.parquet")
    return folder


def turned(rows):
    return rows.sample(fraction=1.0, shuffle=True, seed=4)


def documents(folder, **options):
    found = goldless.evaluate(folder, recorded=True, resamples=200, **options)
    return document.write(found) | {"responses": sorted(found.to_polars().iter_rows())}, found


def close(first, second):
    """Whether two documents are the same, numbers up to the last digits: sums over parts have another order."""
    if isinstance(first, float) and isinstance(second, float):
        return first == pytest.approx(second, rel=1e-10, abs=1e-10)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(close(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(close, first, second))
    return first == second


@pytest.mark.parametrize("order", [lambda rows: rows, turned], ids=["by-task", "mixed"])
@pytest.mark.parametrize("metrics", [["gem-raw", "mi"], ["tvd-mi", "tvd-mi[given]"]])
def test_parts_give_what_memory_gives(tmp_path, in_parts, order, metrics):
    folder = write(tmp_path / "study", logprobs=order(logprobs()), verdicts=order(verdicts()))
    expected, whole = documents(folder, metrics=metrics)
    in_parts()
    found, parted = documents(folder, metrics=metrics)
    assert parted.evidence.large
    assert close(found, expected)
    assert [found["metrics"][name]["signature"] for name in metrics] == [
        expected["metrics"][name]["signature"] for name in metrics
    ]
    assert (parted.asked, parted.failures, parted.examples) == (whole.asked, whole.failures, whole.examples)
    key = ["task", "agent", "peer"]
    for name in metrics:
        one, other = (
            result.outcomes[name].pairs.with_columns(pl.col(*key).cast(pl.String)) for result in (parted, whole)
        )
        assert one.sort(key).equals(other.sort(key))


def test_one_scorer_and_template_of_a_table_in_parts(tmp_path, in_parts):
    other = logprobs(["one"]).with_columns(scorer=pl.lit("z"), sum_logprob_nats=pl.col("sum_logprob_nats") * 2)
    folder = write(tmp_path / "study", logprobs=pl.concat([logprobs(), other]))
    expected, _ = documents(folder, metrics="gem-raw", scorer="z")
    in_parts()
    found, parted = documents(folder, metrics="gem-raw", scorer="z")
    assert parted.evidence.large
    assert close(found, expected)
    with pytest.raises(MetricError, match="several scorers"):
        documents(folder, metrics="gem-raw")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("sum_logprob_nats", 3.0, "must not be above 0"),
        ("target", "stranger", "agents that are not in the study: stranger"),
        ("task", None, "task must be a name"),
    ],
)
def test_a_bad_row_of_a_table_in_parts_is_an_error(tmp_path, in_parts, column, value, message):
    rows = logprobs(["one"])
    last = rows.tail(1).with_columns(pl.lit(value, rows.schema[column]).alias(column))
    folder = write(tmp_path / "study", logprobs=pl.concat([rows, last]))
    in_parts()
    with pytest.raises((MetricError, StudyError), match=message):
        documents(folder, metrics="gem-raw")


def test_a_row_twice_in_a_table_in_parts_is_an_error(tmp_path, in_parts):
    rows = logprobs(["one"])
    folder = write(tmp_path / "study", logprobs=pl.concat([rows, rows.head(1)]))
    in_parts()
    with pytest.raises(MetricError, match="more than one row for"):
        documents(folder, metrics="gem-raw")


@pytest.mark.nightly
def test_a_run_folder_of_tables_in_parts_can_be_scored_again(tmp_path, in_parts):
    folder = write(tmp_path / "study", logprobs=logprobs(), verdicts=verdicts())
    in_parts()
    expected, found = documents(folder, metrics=["gem-raw", "tvd-mi"])
    run = goldless.save_run(found, tmp_path / "run")
    again, _ = documents(run, metrics=["gem-raw", "tvd-mi"])
    for name in ("gem-raw", "tvd-mi"):
        assert close(again["metrics"][name]["rows"], expected["metrics"][name]["rows"])
    pairs = pl.read_parquet(run / "pair_scores.parquet")
    assert pairs.filter(pl.col("metric") == "tvd-mi").height == found.outcomes["tvd-mi"].pairs.height


def test_task_control_reads_other_tasks_and_so_the_whole_table(tmp_path, in_parts):
    rows = logprobs(["one"])
    other = rows.filter(pl.col("given").is_not_null()).with_columns(
        target_task=pl.col("task").replace(TASKS, TASKS[1:] + TASKS[:1])
    )
    folder = write(tmp_path / "study", logprobs=rows, control_logprobs=other)
    expected, _ = documents(folder, metrics="gem-raw+control")
    in_parts()
    found, whole = documents(folder, metrics="gem-raw+control")
    assert not whole.evidence.large
    assert close(found, expected)
