"""The README tells the truth about the files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHOWN = ("src", "benchmarks", "docs")


def files() -> set[str]:
    found = [p for folder in SHOWN for p in (ROOT / folder).rglob("*") if p.suffix in {".py", ".md", ".jsonl"}]
    return {str(p.relative_to(ROOT)) for p in found if p.name != "__init__.py" or "goldless/__init__" in str(p)}


def listed() -> set[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tree = text.split("<!-- files -->")[1].split("<!-- /files -->")[0]
    return {match for match in re.findall(r"^\| `([^`]+)` \|", tree, flags=re.MULTILINE) if not match.endswith("/")}


@pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="installed without the README")
def test_the_readme_lists_every_source_file_once_and_no_other():
    assert listed() == files()
