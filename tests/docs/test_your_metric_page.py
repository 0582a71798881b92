"""The page on users' metrics shows what runs."""

from __future__ import annotations

import anyio
import pytest

from goldless.records import ItemScore, Task, TextItem
from goldless.user_metrics import find_user_metric, metric_forms
from tests.support.paths import DOCS

EXAMPLE = DOCS / "examples" / "my_metric.py"

pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason="installed without the docs")


def test_the_page_shows_the_example_file_as_it_is():
    page = (DOCS / "your_metric.md").read_text(encoding="utf-8")
    assert f"```python\n{EXAMPLE.read_text(encoding='utf-8')}```" in page


def test_the_page_names_every_form():
    page = (DOCS / "your_metric.md").read_text(encoding="utf-8")
    assert all(f"`{form.partition('[')[0]}" in page for form in metric_forms())


def test_the_example_counts_long_words_that_peers_use_too():
    # six letters or longer: committee, decided; with the first peer one in common, with the second both: (1 + 2) / 2
    peers = {"bob": "The committee left.", "cy": "Nobody decided for the Committee."}
    items = [TextItem(Task("t"), "ann", "The committee decided", peers), TextItem(Task("u"), "ann", "alone", {})]
    metric = find_user_metric(f"python:{EXAMPLE}:informative")
    assert anyio.run(metric.scores, items) == [ItemScore(1.5), ItemScore(None)]
