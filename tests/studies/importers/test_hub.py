"""Datasets on the Hub, imitated by a server on this machine that answers as the Hub documents it."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from goldless.errors import UserError
from goldless.studies import read_study

constants = pytest.importorskip("huggingface_hub.constants")
COMMIT = "a" * 40
ANSWERS = b"task,agent,text\nt,a,x\nt,b,y\n"


class Hub(BaseHTTPRequestHandler):
    """One dataset, ``lab/answers``, with the files of the server."""

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        files = self.server.files
        if not self.path.startswith(("/api/datasets/lab/answers", "/datasets/lab/answers")):
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif "/resolve/" in self.path:
            data = files[self.path.partition(f"/resolve/{COMMIT}/")[2]]
            self._send(200, data, {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": COMMIT})
        elif "/tree/" in self.path:
            listed = [{"type": "file", "path": name, "size": len(data), "oid": "0"} for name, data in files.items()]
            self._send(200, json.dumps(listed).encode())
        else:
            siblings = [{"rfilename": name} for name in files]
            self._send(200, json.dumps({"id": "lab/answers", "sha": COMMIT, "siblings": siblings}).encode())

    def _send(self, code, data, headers=()):
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(data), **dict(headers)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.files = {"answers.csv": ANSWERS, "README.md": b"# Answers"}
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_dataset_is_read_and_then_known_without_the_hub(hub, monkeypatch):
    assert read_study("hf://datasets/lab/answers").n_responses == 2
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert read_study("hf://datasets/lab/answers").response("t", "b").text == "y"


def test_one_of_several_files_must_be_named(hub):
    hub.files["more/other.jsonl"] = b'{"task": "t", "agent": "c", "text": "z"}\n'
    with pytest.raises(UserError, match=r"lab/answers has 2 tables: answers.csv, more/other.jsonl. Choose with hf://"):
        read_study("hf://datasets/lab/answers")
    assert read_study("hf://datasets/lab/answers/more/*.jsonl").response("t", "c").text == "z"
    with pytest.raises(UserError, match=r"lab/answers has no file x.csv. Its tables: answers.csv"):
        read_study("hf://datasets/lab/answers/x.csv")


def test_what_is_not_there_or_cannot_be_reached_is_one_message(hub, monkeypatch):
    with pytest.raises(UserError, match="lab/nothing cannot be read from the Hub"):
        read_study("hf://datasets/lab/nothing")
    with pytest.raises(UserError, match="must be hf://datasets/OWNER/NAME or"):
        read_study("hf://lab/answers")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"the Hub cannot be reached \(.*\), and lab/other is not in the cache"):
        read_study("hf://datasets/lab/other")
