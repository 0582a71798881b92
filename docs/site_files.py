"""Pages that are made when the site is built: every option from its declaration, every file from its docstring."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from goldless.runs.option_forms import declared, defaults
from goldless.runs.options import DETECTION, REVIEWING, SCORING, STOPPING, Options

ROOT = Path(__file__).parent.parent
FOLDERS = ("src/goldless", "benchmarks")
TAKERS = {"evaluate": (*SCORING, STOPPING), "review": REVIEWING, "plan": (*SCORING, DETECTION)}
OPTIONS_INTRODUCTION = """# Options

What [`goldless.evaluate`](api.md#goldless.evaluate), [`goldless.review`](api.md#goldless.review) and the functions
that pass options on to them take as keyword arguments, and the same on the command line. `goldless VERB -h` shows
those of a verb.
"""


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages to those of the site."""
    files.append(File.generated(config, "files.md", content=file_table()))
    files.append(File.generated(config, "options.md", content=options_page()))
    return files


def file_table() -> str:
    """Every module of the project, in order, as Markdown."""
    lines = ["# Every file", "", "| file | what it is for |", "|---|---|"]
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            if said:
                lines.append(f"| `{path.relative_to(ROOT)}` | {_cell(said.splitlines()[0])} |")
    return "\n".join(lines) + "\n"


def options_page() -> str:
    """Every option of a run, by group, as Markdown."""
    usual, rows = defaults(Options), defaultdict(list)
    for name, option in declared(Options).items():
        if option.help:
            flags = " ".join(f"`{flag}`" for flag in option.flags)
            default = option.shown or _shown(usual[name])
            cells = (f"`{option.keyword or name}`", flags, _cell(default), _cell(option.help))
            rows[option.group].append(f"| {' | '.join(cells)} |")
    lines = [OPTIONS_INTRODUCTION]
    for group, of_group in rows.items():
        takers = [f"`{verb}`" for verb, taken in TAKERS.items() if group in taken]
        lines += [f"## {group}", "", f"For {' and '.join(takers)}.", ""]
        lines += ["| in Python | on the command line | default | what |", "|---|---|---|---|", *of_group, ""]
    return "\n".join(lines)


def _shown(value: Any) -> str:
    """A default; an empty one and a flag that is off need no words."""
    if value is None or value is False or value in ((), {}):
        return ""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")
