"""The pictures of the pages: they are there, small and described, and what they show is still there to be seen."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys

import pytest

from tests.support.paths import DOCS

PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
TOTAL_BYTES = 1_500_000

pytestmark = pytest.mark.skipif(not (DOCS / "pictures.py").exists(), reason="installed without the docs")


@pytest.fixture(scope="module")
def script():
    """The script that takes them."""
    pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["pictures"] = module
    spec.loader.exec_module(module)
    return module


def test_every_picture_is_there_light_and_dark_small_and_shown_on_a_page(script):
    names = json.loads((script.IMAGES / script.CATALOGUE).read_text())["pictures"]
    assert names == [*script.PICTURES, "terminal"], "run make pictures"
    files = [file for name in names for file in sorted(script.IMAGES.glob(f"{name}_*"))]
    assert {file.stem for file in files} == {f"{name}_{scheme}" for name in names for scheme in script.SCHEMES}
    assert max(file.stat().st_size for file in files) <= script.LARGEST_BYTES
    assert sum(file.stat().st_size for file in files) <= TOTAL_BYTES
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [file.name for file in files if file.name not in shown] == []


def test_every_image_on_a_page_says_what_it_shows():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    said = [*re.findall(r"!\[([^\]]*)\]\(", text), *re.findall(r"<img [^>]*alt=\"([^\"]*)\"", text)]
    assert len(said) == len(re.findall(r"!\[|<img ", text))
    assert all(len(alt.split()) >= 5 for alt in said)


def test_pictures_load_nothing_from_elsewhere():
    pictures = [file.read_text(encoding="utf-8") for file in (DOCS / "images").glob("terminal_*.svg")]
    assert all("@font-face" not in svg and "url(http" not in svg and "cdnjs" not in svg for svg in pictures)


@pytest.mark.nightly
@pytest.mark.slow
def test_what_the_pictures_show_is_still_on_the_pages(script, browser, tmp_path):
    """With scores that need no model; the map, which needs one, is seen by whoever takes its picture."""
    command = [sys.executable, "-m", "goldless", "score", script.DROPPED, "--metric", "length", "--out", "runs/first"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    with script.studio(tmp_path) as address:
        scene = script.Scene(tmp_path / "runs" / "first" / "report.html", address)
        page = browser.new_page()
        script.enter(page, scene)
        for picture in script.PICTURES.values():
            if not picture.needs_model:
                script.look(page, picture, scene, with_model=False)
