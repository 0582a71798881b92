"""Where the project's folders are, so that no test counts the folders above its own file."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
DOCS = ROOT / "docs"
FIXTURES = ROOT / "tests" / "fixtures"
OTHER_TOOLS_FILES = ROOT / "tests" / "studies" / "importers" / "files"
"""Results as other tools write them."""
