"""The page of all files, made when the site is built: each module with the first line of its docstring."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
FOLDERS = ("src/goldless", "benchmarks")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the page to those of the site."""
    files.append(File.generated(config, "files.md", content=file_table()))
    return files


def file_table() -> str:
    """Every module of the project, in order, as Markdown."""
    lines = ["# Every file", "", "| file | what it is for |", "|---|---|"]
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            if said:
                first = said.splitlines()[0].replace("|", "\\|")
                lines.append(f"| `{path.relative_to(ROOT)}` | {first} |")
    return "\n".join(lines) + "\n"
