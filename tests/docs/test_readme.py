"""The README: short, without placeholders, and all its commands run in order on the quickstart's file."""

from __future__ import annotations

import pytest

from tests.docs.page_blocks import agrees, run_page
from tests.support.paths import ROOT

README = ROOT / "README.md"
OTHER_PROCESSORS = 0.02

pytestmark = pytest.mark.skipif(not README.exists(), reason="installed without the README")


@pytest.fixture(scope="module")
def text() -> str:
    return README.read_text(encoding="utf-8")


def test_it_is_short_and_has_no_placeholder(text):
    assert len(text.encode()) <= 6_000
    assert "OWNER" not in text


@pytest.mark.slow
@pytest.mark.usefixtures("embedded_journal")
def test_every_command_runs_as_written_and_the_table_is_what_it_prints(text, tmp_path, programs):
    folder = tmp_path / "empty"
    folder.mkdir()
    page = text.replace("```python\n", '```python title="first.py"\n') + "\n```console\n$ python first.py\n```\n"
    for step, outcome in run_page(page, folder, programs):
        assert outcome.status == 0, f"{step.command}\n{outcome.printed}"
        if step.claimed:
            assert agrees(step.claimed, outcome.printed, tolerance=OTHER_PROCESSORS), outcome.printed
