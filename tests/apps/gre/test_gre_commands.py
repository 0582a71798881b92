"""``goldless gre`` by the command line."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import tempfile

import pytest

from goldless.studies import read_study
from tests.apps.gre.edition_folders import papers_folder, write_rows
from tests.support.servers.openreview_server import OpenReviewServer, Submitted


@pytest.fixture
def reviews(collected, tmp_path):
    """A script that reviews both papers."""
    study = read_study(collected / "study")
    rows = [
        {"prompt": study.task(t).prompt, "answer": f"<summary>{study.response(t, 'reference1').text}</summary>"}
        for t in study.tasks
    ]
    write_rows(tmp_path / "reviews.jsonl", rows)
    return f"scripted:{tmp_path / 'reviews.jsonl'}"


EXTRA = ("tomlkit", "pypdf", "requests_cache")
"""Packages of the extra ``gre``."""
BLOCKED = f"import sys\nsys.modules.update(dict.fromkeys({EXTRA}))\nfrom goldless.cli import main\nmain()"


@pytest.mark.slow
def test_without_the_extra_a_new_edition_names_the_command(tmp_path):
    def run(*words):
        command = [sys.executable, "-c", BLOCKED, "gre", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    edition = run("collect", "e", "--from-folder", papers_folder(tmp_path / "papers"))
    assert edition.returncode == 2
    assert "pip install 'goldless[gre]'" in " ".join(edition.stderr.split())
    assert not (tmp_path / "e").exists()


def test_fields_with_text_that_is_no_part_of_the_reviews_are_named(goldless, tmp_path):
    venue, promise = "Loopback.cc/2024/Conference", "I have read and will follow the code of this venue."
    form = {"summary": "Plants.", "correctness": "All of it is well supported by proofs.", "code_of_conduct": promise}
    with OpenReviewServer() as server:
        server.add(venue, [Submitted("a", [form, form, form])], api=2)
        apis = ("--api1", server.api1, "--api2", server.api2, "--pause", "0")
        ended = goldless("gre", "collect", tmp_path / "e", "--venue", venue, *apis)
    assert ended.code == 0, ended.err
    assert "fields with text that is not part of the reviews: code_of_conduct; see" in ended.err


@pytest.fixture
def configured(tmp_path, reviews, collected):
    """Writes the config of an edition of the same papers, of models that all use the same script but for a word."""

    def make(year, models=("ours",)):
        folder = tmp_path / year
        folder.mkdir()
        script = tmp_path / "reviews.jsonl"
        lines = [f'[collect]\nfrom_folder = "{tmp_path / "papers"}"\nseed = 1']
        for number, name in enumerate(models):
            own = tmp_path / f"{year}-{name}.jsonl"
            rows = [json.loads(line) for line in script.read_text().splitlines()]
            more = " other" * number + "</summary>"
            write_rows(own, [{**row, "answer": row["answer"].replace("</summary>", more)} for row in rows])
            lines.append(f'[models.{name}]\nmodel = "scripted:{own}"')
        lines.append('[score]\nmetrics = ["rouge-l"]\nresamples = 200\n')
        (folder / "edition.toml").write_text("\n".join(lines))
        return folder

    return make


def test_a_whole_edition_is_run_from_its_config(goldless, configured):
    # the metric needs no model, so that every stage is run here
    folder = configured("2025")
    ended = goldless("gre", "run", folder)
    assert ended.code == 0, ended.err
    assert (folder / "run" / "report.html").is_file()
    ended = goldless("gre", "run", folder, "--format", "json")
    assert ended.code == 0, ended.err
    again = json.loads(ended.out)
    rows = {row["agent"]: row for row in again["scores"]["metrics"]["rouge-l"]["rows"]}
    assert set(rows) == {"human", "ours"}
    assert again["demonstration"] is None


MESSAGES_OF_BAD_VALUES = {
    "--level 2": "--level must be",
    "--rewriter nosuch:x": "unknown model 'nosuch:x'",
    "--scorer nosuch:x": "unknown model 'nosuch:x'",
    "--metric gemm": "gemm",
    "--metric gem-s[nosuch]": "nosuch",
}


def test_bad_values_of_scoring_are_told_and_not_stored(goldless, configured):
    folder = configured("2025")
    assert goldless("gre", "run", folder).code == 0
    before = (folder / "edition.toml").read_text()
    for options, message in MESSAGES_OF_BAD_VALUES.items():
        ended = goldless("gre", "score", folder, *options.split())
        assert ended.code == 2, options
        assert message in " ".join(ended.err.split()), options
        assert "Traceback" not in ended.err, options
        assert (folder / "edition.toml").read_text() == before, options
    assert goldless("gre", "score", folder).code == 0


@pytest.mark.parametrize("shown_as", ["markdown", "csv", "latex"])
def test_every_format_of_the_scores_has_their_signature(goldless, configured, shown_as):
    folder = configured("2025")
    ended = goldless("gre", "run", folder, "--format", shown_as)
    assert ended.code == 0, ended.err
    first = ended.out.split("rouge-l on all 2 papers")[0] if shown_as == "markdown" else ended.out
    assert "rouge-l|" in first
    assert "study:" in first


def test_numbers_of_invented_papers_are_said_to_be_wherever_they_are_shown(goldless, configured):
    models = ("first", "second", "third")
    folder = configured("2030", models)
    config = (folder / "edition.toml").read_text()
    (folder / "edition.toml").write_text(f"demonstration = true\n{config}")
    assert goldless("gre", "run", folder).code == 0
    ended = goldless("gre", "score", folder, "--format", "markdown")
    assert ended.code == 0, ended.err
    assert "DEMONSTRATION, NOT A RESULT" in ended.out


def test_the_demonstration_refuses_an_edition_of_one_s_own(goldless, collected):
    ended = goldless("gre", "demo", "--out", collected)
    assert ended.code == 2
    assert "is not a demonstration edition" in ended.err


def test_an_unwritable_run_is_told(goldless, configured, monkeypatch):
    folder = configured("2025")
    assert goldless("gre", "run", folder).code == 0
    temporary_file = tempfile.TemporaryFile

    def refuse(**options):
        if options.get("dir") == folder / "run":
            raise PermissionError(errno.EACCES, "Permission denied")
        return temporary_file(**options)

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    ended = goldless("gre", "score", folder)
    assert ended.code == 2
    assert "run: cannot write (Permission denied). Choose another folder" in " ".join(ended.err.split())
