"""Fingerprints stand in signatures and journals: the same content must give the same one in every version."""

from __future__ import annotations

import polars as pl
import pytest

from goldless.records import Response, Task
from goldless.studies import import_study, read_study, sample_study, study_from_frame, study_from_records
from tests.support.study_files import study_folder

TASKS = [
    {"task": "t1", "prompt": "p", "reference": "r", "synopsis_b": "b", "synopsis_a": "a", "year": 2016, "tags": ["x"]},
    {"task": 2, "prompt": "", "odd": {"b": [1, 2.5, None], "a": True}, "big": 2**63, "nothing": None, "n": -0.0},
    {"task": "t3", "synopsis_": "no synopsis", "year": "2016", "share": 1e300, "open": False},
]
ROWS = [
    {"task": "t1", "agent": "zoë", "text": "naïve \u2028 text\r\n"},
    {"task": "t1", "agent": 7, "text": " \x00 padded "},
    {"task": 2, "agent": "zoë", "text": "二"},
    {"task": "t3", "agent": "a", "text": "x"},
]
SAMPLED = [{"task": "t", "agent": "a", "sample": i, "text": f"text {i}", "prompt": "why?"} for i in range(3)]


def folder(path):
    return read_study(study_folder(path, tasks=TASKS, responses=ROWS))


def one_file(path):
    (path / "one.csv").write_text('task,agent,text,prompt,synopsis_x\n1,a,"x, y",p,\n1,b,z,,s\n02,a,w,,\n')
    return read_study(path / "one.csv")


def parquet(path):
    tasks = pl.DataFrame({"task": [1, 2], "day": pl.Series(["2024-02-29", None]).str.to_date(), "score": [0.5, 3.0]})
    tasks = tasks.with_columns(when=pl.lit("2024-01-01T10:00:00").str.to_datetime(time_unit="ns"), l=pl.lit([1, 2]))
    tasks.write_parquet(path / "tasks.parquet")
    pl.DataFrame({"task": [1, 2], "agent": [3, 3], "text": ["x", "y"]}).write_parquet(path / "responses.parquet")
    return read_study(path)


def records(_):
    tasks = [Task("t2", "Why?", None, {"abstract": "short"}, {"tags": [1, 2]}), Task("t1")]
    return study_from_records(tasks, [Response("t1", "bob", " "), Response("t2", "ann", "A")])


def wide(path):
    (path / "wide.csv").write_text("prompt,a,b\nColour?,red,blue\nWay?,up,\n")
    return import_study([path / "wide.csv"], wide=True)


STUDIES = {
    "sample": (lambda _: read_study(sample_study()), "4cf5c5932d12fc6f"),
    "folder": (folder, "df7a5df84f34dbb2"),
    "part": (lambda path: folder(path).subset(tasks=["t1", "2"], agents=["zoë"]), "d72c79914df2eb9f"),
    "one_file": (one_file, "2feb60a19e4b0df9"),
    "parquet": (parquet, "621bc946194f6b82"),
    "records": (records, "54b4d29092b23674"),
    "wide": (wide, "d3df3664f18bab66"),
    "frame": (
        lambda _: study_from_frame(pl.DataFrame({"task": ["t"], "agent": ["a"], "text": ["x"]})),
        "a25d04acb81420f8",
    ),
    "samples": (lambda _: study_from_frame(SAMPLED), "e9af031b35e2dab8"),
    "one_sample": (lambda _: study_from_frame(SAMPLED).one_sample_each(), "54ad561635bf016d"),
    "no_responses": (lambda _: study_from_frame(ROWS, tasks=TASKS).subset(tasks=["t3"]), "308bb28ce5442a05"),
}
RECORDED = {
    "alpaca_eval": "d10a6cd952a51114",
    "chq_readers": "08a43e32bd0441cd",
    "formats": "fc16c081422509a3",
    "iclr23_reviews": "1aaed816e4c08b3c",
    "reddit_peer_prediction": "a8aa30abecdfc66c",
    "samsum_peer_prediction": "822105f0d94e2db7",
    "xsum_peer_review": "9a6c3a1be107a2ff",
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_keeps_its_fingerprint(tmp_path, name):
    make, expected = STUDIES[name]
    assert make(tmp_path).fingerprint[:16] == expected


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_study_keeps_its_fingerprint(recorded, name):
    assert read_study(recorded / name).fingerprint[:16] == RECORDED[name]
