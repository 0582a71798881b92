"""What is promised of a fleet, on a cluster of several nodes on this machine.

``make test-fleet`` runs the same with more tasks and more losses, and with the embedded model.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

import goldless
from goldless.apps.fleet import crew
from goldless.apps.fleet.cluster import LOOPBACK, QUIET
from tests.apps.fleet.booked_model import BY_CANARIES, Book, booked_model
from tests.support.paths import ROOT

os.environ.update(QUIET | LOOPBACK)  # before ray is imported
pytest.importorskip("ray", reason="needs the ray extra: pip install 'goldless[ray]'")

import ray
from ray.cluster_utils import Cluster

LARGE = "GOLDLESS_TEST_FLEET" in os.environ
TASKS = 60 if LARGE else 6
AGENTS = 3
QUESTIONS = AGENTS * AGENTS
"""Of a task: all ordered pairs, and the marginals."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200 if LARGE else 300),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves files open
]


def study(*, tasks: int = TASKS, word: str = "") -> list[dict[str, str]]:
    """Texts of a few words each, no task like another; ``word`` is in one of them."""
    words = ["zarn", "bluk", "mipo", "tolu", "vond", "rask", "lirp", "hoft", "quex", "ebbo"]
    return [
        {
            "task": f"t{task}",
            "agent": f"a{agent}",
            "text": " ".join(words[(task + step * (agent + 1)) % 10] for step in range(3 + agent))
            + f" n{task // 10}"
            + f" {word}" * (bool(word) and (task, agent) == (1, 1)),
        }
        for task, agent in itertools.product(range(tasks), range(AGENTS))
    ]


def started(tries: int = 3) -> Cluster:
    """The cluster; on a busy machine a node may take longer than the half minute that Ray waits for it."""
    nodes = Cluster()
    try:
        nodes.add_node(num_cpus=4, include_dashboard=False)
    except Exception:
        nodes.shutdown()
        if tries == 1:
            raise
        return started(tries - 1)
    return nodes


@pytest.fixture(scope="module")
def cluster():
    """One node with room for four workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        nodes = started()
        yield nodes
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture(autouse=True)
def _address(cluster, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)


@pytest.fixture
def book(tmp_path) -> Book:
    return Book(tmp_path / "book")


def evaluate(book: Book, on: str | None, journal: str = "journal.sqlite", **options):
    model = booked_model(book.folder)
    given = {"metrics": "gem-raw,tvd-mi", "scorer": model, "critic": model, "resamples": 100, **options}
    return goldless.evaluate(study(), on=on, journal=book.folder.parent / journal, **given)


def tables(evaluation) -> dict[str, bytes]:
    """Evidence and scores as they are written."""
    evidence = evaluation.evidence
    found = {"logprobs": evidence.logprobs, "verdicts": evidence.verdicts}
    return {name: table.write_ipc(None).getvalue() for name, table in found.items()} | {
        name: repr(outcome.rows).encode() for name, outcome in evaluation.outcomes.items()
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, bytes]:
    """The tables without Ray."""
    return tables(evaluate(Book(tmp_path_factory.mktemp("alone") / "book"), None))


@pytest.mark.parametrize("workers", [2, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 4))])
def test_tables_are_byte_for_byte_those_of_one_process_for_any_number_of_workers(book, expected, workers, capsys):
    found = evaluate(book, f"ray?workers={workers}&cpus=1")
    assert tables(found) == expected
    processes = {process for _, process in book.rows()}
    assert len(processes) == workers
    assert os.getpid() not in processes
    assert book.computed_again() == 0
    assert capsys.readouterr().out == ""


@pytest.mark.nightly
def test_a_killed_worker_costs_its_item_and_changes_nothing(book, expected, capsys):
    losses = 10 if LARGE else 1
    for number in range(losses):
        book.order(f"fall-{number}", f"kill {BY_CANARIES + 5 + 20 * number}")
    said: list[str] = []
    found = evaluate(book, "ray?workers=2&cpus=1", say=said.append)
    assert tables(found) == expected
    replaced = [one for one in said if "takes its place" in one]
    assert len(replaced) == losses, replaced
    assert book.computed_again() <= losses * (QUESTIONS - 1)
    assert capsys.readouterr().out == ""


@pytest.mark.nightly
def test_a_frozen_worker_is_replaced_after_the_timeout(book, expected):
    book.order("fall-0", f"freeze {BY_CANARIES + 5}")
    said: list[str] = []
    seconds = 60 if LARGE else 5
    found = evaluate(book, f"ray?workers=2&cpus=1&timeout={seconds}", say=said.append)
    assert tables(found) == expected
    assert f"did not finish within {seconds} seconds" in " ".join(said)


@pytest.mark.nightly
def test_nodes_may_join_and_leave(cluster, book, expected):
    book.order("pause", "1")
    ray.init(address=cluster.address, ignore_reinit_error=True, log_to_driver=False, logging_level="error")
    found, said = [], []
    # nodes are started from the main thread only
    run = threading.Thread(target=lambda: found.append(tables(evaluate(book, "ray?workers=6&cpus=1", say=said.append))))
    run.start()
    try:
        wait_for(lambda: len(book.rows()) > BY_CANARIES)
        node = cluster.add_node(num_cpus=2, wait=False)
        wait_for(lambda: any("is ready, 6 now" in line for line in said))
        cluster.remove_node(node, allow_graceful=False)
    finally:
        book.order("pause", "0")
        run.join()
    assert found == [expected]
    assert book.computed_again() <= 2 * (QUESTIONS - 1)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


DRIVER = """
import sys
from pathlib import Path
from tests.apps.fleet.test_on_ray import Book, evaluate
evaluate(Book(Path(sys.argv[1])), "ray?workers=2&cpus=1")
"""


@pytest.mark.nightly
def test_a_killed_driver_costs_what_its_workers_had_in_hand(cluster, book, expected):
    book.order("pause", "0.1")
    script = book.folder.parent / "driver.py"
    script.write_text(DRIVER)
    driver = subprocess.Popen([sys.executable, script, book.folder])
    wait_for(lambda: len(book.rows()) > BY_CANARIES + 2 * QUESTIONS or driver.poll() is not None)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    wait_for(lambda: not any(map(is_running, {process for _, process in book.rows()})))
    book.order("pause", "0")
    found = evaluate(book, "ray?workers=2&cpus=1")
    assert tables(found) == expected
    assert found.spending[0].reused > 0
    assert book.computed_again() <= 2 * (QUESTIONS - 1)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.nightly  # test_fleet_workers.py has a bad row without a cluster
@pytest.mark.parametrize("word", ["broken", "deadly"])
def test_one_bad_row_never_stops_a_run(book, word):
    given = {"metrics": "gem-raw", "scorer": booked_model(book.folder), "journal": book.folder / "journal.sqlite"}
    found = goldless.evaluate(
        study(word=word), on=f"ray?workers={4 if LARGE else 1}&cpus=1", resamples=100, **given
    ).evidence.logprobs
    failed = found.filter(found["failure"].is_not_null())
    # a row on which the model raises fails alone, one that kills its worker with the others of its task
    rows = {"broken": (found["task"] == "t1") & (found["target"] == "a1"), "deadly": found["task"] == "t1"}
    assert failed.equals(found.filter(rows[word]))
    assert set(failed["failure"]) == {"server_error"}
    assert failed["failure_message"].str.contains("broken|was lost").all()
    assert len(found) == TASKS * QUESTIONS


def test_there_is_no_worker_where_there_is_no_room(book, monkeypatch):
    monkeypatch.setattr(crew, "GROW_SECONDS", 0.2)
    monkeypatch.setattr(crew, "PATIENCE_SECONDS", 0.5)
    with pytest.raises(goldless.PrerequisiteError, match=r"no machine of the Ray cluster has room .* 100 CPUs"):
        evaluate(book, "ray?workers=1&cpus=100")


@pytest.mark.skipif(not LARGE, reason="make test-fleet runs it")
@pytest.mark.embedded
def test_the_embedded_model_gives_the_same_tables_on_a_fleet(embedded_file, tmp_path):
    rows = study(tasks=8)
    given = {"metrics": "gem-raw", "scorer": "embedded", "resamples": 100}
    alone = goldless.evaluate(rows, journal=tmp_path / "alone.sqlite", **given)
    fleet = goldless.evaluate(rows, journal=tmp_path / "fleet.sqlite", on="ray?workers=2&cpus=1", **given)
    assert tables(fleet) == tables(alone)
