"""``goldless study fetch``: the known bytes from the owner or a copy, or one sentence and nothing written."""

from __future__ import annotations

import hashlib
import pickle
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import polars as pl
import pytest

from goldless import evaluate
from goldless.apps.datasets.catalogue import DATASETS
from goldless.apps.datasets.dataset import RAW_FILES, Dataset, SourceFile, SourceSeries
from goldless.apps.datasets.fetching import fetch_study
from goldless.apps.datasets.plain_pickle import read_plain_pickle
from goldless.errors import UserError

ANSWERS = b"u,a,yes it is\nu,b,no\n"
NOTES = (b"first", b"second")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def tables_of(files):
    rows = [line.split(",") for line in files["data/answers of all.csv"].decode().splitlines()]
    responses = [{"task": task, "agent": agent, "text": text} for task, agent, text in rows]
    labels = [{"task": task, "agent": agent, "rater": "r", "score": len(text)} for task, agent, text in rows]
    return {"responses": pl.DataFrame(responses), "labels": pl.DataFrame(labels)}


def small_set(host=RAW_FILES, licence="MIT", convert=tables_of):
    digests = b"".join(hashlib.sha256(note).digest() for note in NOTES)
    return Dataset(
        name="small",
        question="Is it?",
        size="2 agents",
        licence=licence,
        citation="Nobody 2020",
        repository="owner/name",
        commit=COMMIT,
        files=(
            SourceFile("data/answers of all.csv", len(ANSWERS), hashlib.sha256(ANSWERS).hexdigest()),
            SourceSeries("notes/{}.txt", 2, 6, hashlib.sha256(digests).hexdigest()),
        ),
        convert=convert,
        host=host,
    )


FILES = {
    f"/owner/name/{COMMIT}/data/answers%20of%20all.csv": ANSWERS,
    f"/owner/name/{COMMIT}/notes/0.txt": NOTES[0],
    f"/owner/name/{COMMIT}/notes/1.txt": NOTES[1],
}


class Server(ThreadingHTTPServer):
    """Serves files on this machine; ``status`` is what it answers instead, ``asked`` the paths of requests."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = dict(FILES)
        self.status = 200
        self.announced_bytes = None
        self.asked = []

    @property
    def host(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        content = self.server.files.get(self.path)
        status = self.server.status if content is not None else 404
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", f"{self.server.host}/elsewhere")
        self.send_header("Content-Length", str(self.server.announced_bytes or len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def copy(tmp_path):
    folder = tmp_path / "clone"
    for path, content in {"data/answers of all.csv": ANSWERS, "notes/0.txt": NOTES[0], "notes/1.txt": NOTES[1]}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder


def fails(dataset, tmp_path, *, copy=None):
    """The message of a set that cannot be fetched; nothing is left of it."""
    before = set(tmp_path.iterdir())
    with pytest.raises(UserError) as raised:
        fetch_study("small", tmp_path / "study", copy=copy, datasets={"small": dataset})
    assert set(tmp_path.iterdir()) == before
    return str(raised.value)


def test_a_set_is_downloaded_from_its_owners_address_and_becomes_a_study_with_labels(server, tmp_path):
    study = fetch_study("small", tmp_path / "study", datasets={"small": small_set(server.host)})
    assert {(row["agent"], row["text"]) for row in study.rows("responses")} == {("a", "yes it is"), ("b", "no")}
    assert study.n_ratings == 2
    assert sorted(server.asked) == sorted(FILES)
    written = (tmp_path / "study" / "README.md").read_text()
    assert "MIT" in written
    assert f"github.com/owner/name at commit {COMMIT[:12]}" in written


def test_a_copy_is_read_without_any_request(server, copy, tmp_path):
    dataset = small_set(server.host, licence=None)
    study = fetch_study("small", tmp_path / "study", copy=copy, datasets={"small": dataset})
    assert study.n_responses == 2
    assert server.asked == []


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "has moved or is gone (HTTP 404)"),
        (410, "has moved or is gone (HTTP 410)"),
        (302, "has moved or is gone (HTTP 302)"),
        (429, "cannot be read now (HTTP 429)"),
        (503, "cannot be read now (HTTP 503)"),
    ],
)
def test_a_server_that_does_not_give_the_file_ends_with_a_sentence(server, tmp_path, status, message):
    server.status = status
    said = fails(small_set(server.host), tmp_path)
    assert message in said
    assert "--copy with a clone of github.com/owner/name" in said
    assert f"{server.host}/elsewhere" not in server.asked


def test_a_server_that_cannot_be_reached_is_named(server, tmp_path):
    server.shutdown()
    server.socket.close()
    said = fails(small_set(server.host), tmp_path)
    assert said.startswith("127.0.0.1 cannot be reached (")
    assert "\n" not in said


def test_a_download_that_breaks_off_writes_nothing(server, tmp_path):
    server.announced_bytes = len(ANSWERS)
    server.files[next(iter(FILES))] = ANSWERS[:-3]
    said = fails(small_set(server.host), tmp_path)
    assert "cannot be reached" in said or "must have the SHA-256" in said


@pytest.mark.parametrize("content", [ANSWERS.replace(b"yes", b"no "), ANSWERS + b"u,c,more\n", b""])
def test_other_bytes_than_the_known_ones_are_refused(server, tmp_path, content):
    server.files[next(iter(FILES))] = content
    said = fails(small_set(server.host), tmp_path)
    assert said.startswith("data/answers of all.csv must have the SHA-256")
    assert "Nothing was written" in said


def test_one_changed_file_of_a_series_is_refused(copy, tmp_path):
    (copy / "notes" / "1.txt").write_bytes(b"third")
    assert fails(small_set(), tmp_path, copy=copy).startswith("notes/N.txt must have the SHA-256")


def test_a_large_file_is_not_read_beyond_the_known_size(server, tmp_path):
    server.files[next(iter(FILES))] = ANSWERS + b"x" * 50_000_000
    assert "must have the SHA-256" in fails(small_set(server.host), tmp_path)


def test_a_set_without_a_licence_is_not_downloaded(server, tmp_path):
    said = fails(small_set(server.host, licence=None), tmp_path)
    assert "has no licence, so goldless does not download it" in said
    assert "--copy" in said
    assert server.asked == []


def test_a_copy_that_lacks_a_file_or_is_a_single_file_or_is_not_there_is_named(copy, tmp_path):
    (copy / "notes" / "0.txt").unlink()
    assert f"{copy} has no file notes/0.txt" in fails(small_set(), tmp_path, copy=copy)
    assert "is one file, and small has 3" in fails(small_set(), tmp_path, copy=copy / "data" / "answers of all.csv")
    assert "does not exist" in fails(small_set(), tmp_path, copy=tmp_path / "nowhere")


def test_tables_that_are_no_study_leave_nothing_behind(copy, tmp_path):
    wrong = small_set(convert=lambda _: {"responses": pl.DataFrame({"task": ["u"]})})
    assert "agent" in fails(wrong, tmp_path, copy=copy)


def test_a_folder_with_files_is_not_written_to(copy, tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "mine.txt").write_text("mine")
    assert "is not empty" in fails(small_set(), tmp_path, copy=copy)


# --- pickles ---------------------------------------------------------------------------------------------------------


class Planted:
    def __reduce__(self):
        return print, ("code of the file ran",)


@pytest.mark.parametrize("value", [Planted(), np.ones(2), np.float64(1), {"deep": [Planted()]}, Planted])
def test_a_pickle_with_anything_but_plain_values_is_refused_and_runs_nothing(value, capsys):
    with pytest.raises(UserError, match="must hold plain values only"):
        read_plain_pickle(pickle.dumps(value))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_are_read_from_every_version_of_the_format(protocol):
    value = {"text": "à", "numbers": [1, 2.5, None, True], 3: ("tuple",)}
    assert read_plain_pickle(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("content", [b"", b"no pickle", pickle.dumps([1, 2])[:-1]])
def test_what_is_not_a_pickle_ends_with_a_sentence(content):
    with pytest.raises(UserError, match="the file is not a complete pickle"):
        read_plain_pickle(content)


# --- the catalogue ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATASETS)
def test_every_set_has_a_fixed_commit_and_a_hash_for_every_file(name):
    dataset = DATASETS[name]
    assert re.fullmatch(r"[0-9a-f]{40}", dataset.commit)
    for source in dataset.files:
        assert re.fullmatch(r"[0-9a-f]{64}", source.sha256)
        first = next(source.files()) if isinstance(source, SourceSeries) else source
        assert dataset.address(first.path).startswith(f"https://raw.githubusercontent.com/{dataset.repository}/")
        assert 0 < first.n_bytes < 5_000_000
    assert dataset.question.endswith((".", "?"))
    assert dataset.citation


def test_the_command_lists_every_set_with_its_licence_and_citation(goldless):
    printed = " ".join(goldless("study", "fetch").out.split())
    for dataset in DATASETS.values():
        assert dataset.name in printed
        assert dataset.citation.split(",")[0] in printed
        assert (dataset.licence or "none: with --copy").split()[0] in printed


def test_a_name_that_is_not_known_gets_the_nearest():
    with pytest.raises(UserError, match="Did you mean 'summeval'"):
        fetch_study("sumeval", "study")


def test_the_study_is_scored_like_any_other(copy, tmp_path):
    study = fetch_study("small", tmp_path / "study", copy=copy, datasets={"small": small_set()})
    assert evaluate(study, metrics=["length"], resamples=200).boards["length"].rows
