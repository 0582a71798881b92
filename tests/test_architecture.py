"""Apps enter through doors, the core is whole without them, and no two modules import each other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

import goldless

ANSWERS = "task,agent,text\nt1,a,one two three\nt1,b,one two\nt2,a,four five\nt2,b,six\n"
EVERY_MODULE = """
import importlib, pkgutil, goldless
names = [one.name for one in pkgutil.walk_packages(goldless.__path__, "goldless.")]
for name in names:
    if not name.endswith("__main__") and "local_weights" not in name:
        importlib.import_module(name)
assert not any(name.startswith("goldless.apps") for name in names)
"""


def test_without_the_folder_of_apps_the_core_is_imported_and_scores(tmp_path):
    source = tmp_path / "src"
    shutil.copytree(Path(goldless.__file__).parent, source / "goldless", ignore=shutil.ignore_patterns("apps"))
    (tmp_path / "answers.csv").write_text(ANSWERS)
    around = {**os.environ, "PYTHONPATH": str(source)}

    def run(*arguments):
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=around, cwd=tmp_path, capture_output=True, text=True, check=False)

    imported = run("-c", EVERY_MODULE)
    assert imported.returncode == 0, imported.stderr
    scored = run("-m", "goldless", "score", "answers.csv", "--metric", "length", "--out", "run")
    assert scored.returncode == 0, scored.stderr
    assert (tmp_path / "run" / "report.html").is_file()
    unknown = run("-m", "goldless", "gre", "show", "published:70b")
    assert unknown.returncode == 2


def test_no_module_imports_itself_by_way_of_others():
    graph = grimp.build_graph("goldless", cache_dir=None)
    order = TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    try:
        order.prepare()
    except CycleError as error:
        raise AssertionError(f"modules import each other: {' > '.join(error.args[1])}") from None
