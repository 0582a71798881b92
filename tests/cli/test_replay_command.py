"""A published run is recomputed from its evidence; whoever changed a number, a text or the evidence is found out."""

from __future__ import annotations

import http.server
import io
import json
import shutil
import tarfile
import threading
import zipfile
from functools import partial
from pathlib import Path

import polars as pl
import pytest

import goldless as library
from tests.support.study_files import response_rows, write_rows

TEXTS = {
    "t1": {"ann": "zarn bluk mipo tolu", "bob": "zarn bluk mipo", "cy": "quex"},
    "t2": {"ann": "vond rask", "bob": "rask vond ebbo", "cy": "quex"},
    "t3": {"ann": "lirp", "bob": "lirp", "cy": "quex"},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, toy_scorer) -> Path:
    """A run over three metrics, as it was published."""
    folder = tmp_path_factory.mktemp("replay")
    options = {"resamples": 200, "seed": 3, "journal": folder / "journal.sqlite"}
    answers = write_rows(folder / "answers.jsonl", response_rows(TEXTS))
    made = library.evaluate(answers, metrics="gem-raw+control,rouge-l,length", scorer=toy_scorer(), **options)
    return library.save_run(made, folder / "run")


@pytest.fixture
def run_folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "runs" / "toy"))


def edited(folder: Path, change) -> None:
    path = folder / "leaderboard.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_a_score_that_was_changed_is_named_and_so_is_another_version_that_made_it(goldless, run_folder):
    def change(data):
        data["metrics"]["rouge-l"]["rows"][0]["score"] += 0.001

    edited(run_folder, change)
    ended = goldless("replay", run_folder)
    assert ended.code == 9
    leader = json.loads((run_folder / "leaderboard.json").read_text())["metrics"]["rouge-l"]["rows"][0]["agent"]
    assert f"rouge-l: rows[{leader}].score: printed" in ended.out
    assert "1 of" in ended.err
    assert "replay with that version" not in ended.err
    made_by = run_folder / "made_by.json"
    made_by.write_text(json.dumps(json.loads(made_by.read_text()) | {"goldless": "0.2.0"}))
    assert "goldless 0.2.0 made them" in goldless("replay", run_folder).err


@pytest.mark.parametrize(
    ("table", "changed", "said"),
    [
        ("responses.parquet", pl.col("text") + " and more", "the texts are not those"),
        ("logprobs/*.parquet", pl.col("sum_logprob_nats") * 1.01, "values"),
    ],
    ids=["texts", "evidence"],
)
def test_changed_texts_and_changed_evidence_are_found(goldless, run_folder, table, changed, said):
    (path,) = run_folder.glob(table)
    pl.read_parquet(path).with_columns(changed).write_parquet(path)
    ended = goldless("replay", run_folder)
    assert ended.code == 9
    assert said in ended.err


def test_code_in_a_folder_is_never_run(goldless, run_folder, tmp_path):
    code = tmp_path / "evil.py"
    code.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef metric(**_): return 1.0\n")

    def change(data):
        data["metrics"][f"python:{code}:metric"] = data["metrics"].pop("length")

    edited(run_folder, change)
    ended = goldless("replay", run_folder, "--json")
    assert ended.code == 0
    parts = {part["name"]: part["outcome"] for part in json.loads(ended.out)["parts"]}
    assert parts[f"python:{code}:metric"] == "not replayed"
    assert not (tmp_path / "ran").exists()


def test_archives_and_addresses(goldless, run_folder, tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    with tarfile.open(site / "run.tar.gz", "w:gz") as packed:
        packed.add(run_folder, "published/toy")
    shutil.make_archive(str(site / "run"), "zip", run_folder)
    assert goldless("replay", site / "run.zip").code == 0

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        ended = goldless("replay", f"{address}/run.tar.gz", "--badge", tmp_path / "badge.svg")
        assert ended.code == 0
        assert "values met again" in (tmp_path / "badge.svg").read_text()
        assert goldless("replay", f"{address}/nothing.zip").code == 2
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_damaged_archive_is_one_message(goldless, run_folder, tmp_path):
    archive = Path(shutil.make_archive(str(tmp_path / "run"), "gztar", run_folder))
    whole = archive.read_bytes()
    for at in range(40, len(whole), len(whole) // 8):  # in the header of the archive and between its files
        archive.write_bytes(whole[:at] + b"\xff" * 30 + whole[at + 30 :])
        ended = goldless("replay", archive)
        assert (ended.code, ended.err.count("\nerror: ")) == (2, 0), (at, ended.err)
        assert ended.err.startswith("error: run.tar.gz: ")


@pytest.mark.parametrize(
    ("place", "field"),
    [((6, 8), b"\x01\x00"), ((8, 10), b"\x09\x00"), ((8, 10), b"\x5d\x00"), ((4, 6), b"\x63\x00")],
    ids=["encrypted", "Deflate64", "zstd", "version 9.9"],
)
def test_an_archive_that_python_cannot_unpack_is_one_message(goldless, run_folder, tmp_path, place, field):
    """In a file's header: version at 4, flags at 6, method at 8; in the directory of the zip 2 bytes later."""
    archive = Path(shutil.make_archive(str(tmp_path / "run"), "zip", run_folder))
    content = bytearray(archive.read_bytes())
    for signature, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        at = content.find(signature)
        while at >= 0:
            content[at + place[0] + shift : at + place[1] + shift] = field
            at = content.find(signature, at + 4)
    archive.write_bytes(content)
    ended = goldless("replay", archive)
    assert ended.code == 2
    assert ended.err.startswith("error: run.zip: cannot be unpacked (")
    assert "Traceback" not in ended.err
    assert "Unpack it with another program, and give the folder" in ended.err.replace("\n", " ")


def test_a_run_of_nothing_but_metrics_with_code_of_their_own_replays_nothing(goldless, run_folder):
    def change(data):
        data["metrics"] = {"python:evil.py:metric": data["metrics"]["length"]}

    edited(run_folder, change)
    ended = goldless("replay", run_folder, "--json")
    assert ended.code == 0, ended.err
    (part,) = json.loads(ended.out)["parts"]
    assert part["left_out"] == "needs code of its own, and a replay runs none"


def test_an_archive_writes_nowhere_else(goldless, tmp_path):
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(bad, "w") as packed:
        packed.writestr("../../escaped/made_by.json", "{}")
    assert goldless("replay", bad).code == 2
    leading_out = tarfile.TarInfo("../../escaped/made_by.json")
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "escaped")
    through = tarfile.TarInfo("link/made_by.json")
    for one in (leading_out, through):
        one.size = 2
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as packed:
        packed.addfile(leading_out, io.BytesIO(b"{}"))
        packed.addfile(link)
        packed.addfile(through, io.BytesIO(b"{}"))
    assert goldless("replay", tmp_path / "bad.tar.gz").code == 2
    assert not list(tmp_path.rglob("escaped"))
    (tmp_path / "text.zip").write_text("not an archive")
    ended = goldless("replay", tmp_path / "text.zip")
    assert ended.code == 2
    assert "not an archive" in ended.err


FUTURE, NO_LIST = ('{"metrics": {"length": {}}, "options": {' + f'"{name}": 1' + "}}" for name in ("x", "metrics"))


@pytest.mark.parametrize("content", ["", "[]", '{"metrics": 7}', '{"metrics": NaN}', FUTURE, NO_LIST])
def test_damaged_results_are_told(goldless, run_folder, content):
    (run_folder / "leaderboard.json").write_text(content)
    ended = goldless("replay", run_folder)
    assert ended.code in {0, 2}
    assert "Traceback" not in ended.err


def test_a_run_that_stopped_early_stops_again(goldless, study_file, tmp_path):
    lengths = {"ann": 9, "bob": 5, "cy": 1}
    texts = {
        f"t{task}": {agent: "word " * (words + task % 3) for agent, words in lengths.items()} for task in range(40)
    }
    arguments = ("score", study_file(texts), "--metric", "length", "--until", "best", "--resamples", "100")
    assert goldless(*arguments, "--out", tmp_path / "run").code == 0
    assert json.loads((tmp_path / "run" / "leaderboard.json").read_text())["until"]["decided"]
    assert json.loads(goldless("replay", tmp_path / "run", "--json").out)["outcome"] == "equal"
