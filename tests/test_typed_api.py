"""The file that the type checker reads uses every public name."""

from __future__ import annotations

import ast
from pathlib import Path

import goldless

USES = Path(__file__).parent / "typing" / "public_api.py"


def test_every_public_name_is_used_in_the_typed_file():
    found = {
        node.attr
        for node in ast.walk(ast.parse(USES.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "goldless"
    }
    assert found == set(goldless.__all__)
