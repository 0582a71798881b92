"""Writes the stubs that type checkers read: ``goldless/__init__.pyi`` and ``goldless/api.pyi``, from the declarations.

python tests/typing/stubs.py
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import get_origin

import goldless
from goldless import api
from goldless.cli import command
from goldless.cli.main import find_verb
from goldless.runs import options
from goldless.runs.option_forms import declared, group_classes, group_of
from goldless.runs.options import Options

HOME = Path(goldless.__file__).parent
MADE = "# Made by tests/typing/stubs.py from the declarations of verbs and options.\n"
WIDER = {
    "exams": "str | Sequence[str]",
    "price_usd_per_million": "tuple[float, float] | None",
    "reviewers": "str | ChatModel | Sequence[str | ChatModel] | Mapping[str, str | ChatModel]",
    "sweep": "str | Sequence[str | float]",
    "thresholds": "Mapping[str, float | Literal['mean'] | None]",
}
"""Types of arguments that Python may give in more forms than a run keeps them."""


def init() -> str:
    """The public names, each imported from its home."""
    names = sorted(set(goldless.__all__) - {"__version__"})
    lines = ["from goldless._version import __version__ as __version__"]
    lines += [f"from {goldless._HOME_OF[name]} import {name} as {name}" for name in names]
    listed = "".join(f"    {name!r},\n" for name in goldless.__all__)
    return MADE + "\n".join(sorted(lines)) + f"\n\n__all__ = [\n{listed}]\n"


def functions() -> str:
    """The functions of verbs with every argument they take, then those that are written by hand."""
    homes = {**_homes(options), **_homes(command)}
    written = []
    for name in sorted(api.VERBS):
        verb = find_verb(api.VERBS[name])
        homes |= _homes(inspect.getmodule(verb.work))
        written.append(_function(name, verb))
    source = ast.parse(inspect.getsource(api))
    homes |= {"Reward": "goldless.rewarding.reward", "Missing": "goldless.rewarding.reward"}
    homes |= {"Verb": "goldless.cli.command", "Iterable": "collections.abc", "Unpack": "typing", "TypedDict": "typing"}
    by_hand = {*goldless.__all__, "function"}
    """The public functions, and the one by which an app makes a function of its verb."""
    written += [_by_hand(node) for node in source.body if isinstance(node, ast.FunctionDef) and node.name in by_hand]
    names = {node.id for node in ast.walk(ast.parse("\n".join(written))) if isinstance(node, ast.Name)}
    imports = sorted(f"from {homes[name]} import {name}" for name in names if name in homes)
    return MADE + "\n".join(imports) + "\n\n" + "\n".join(written)


def _function(name: str, verb: command.Verb) -> str:
    """A function with its arguments: by position the study, or what must be given; then all others by name."""
    own = declared(verb.verb_options)
    mine = {
        key: f"{one.keyword}: {_wider(key, _annotations(verb.verb_options)[key])}"
        for key, one in own.items()
        if not one.command_only
    }
    places = [] if verb.study else [key for key in mine if api.is_place(verb, key)]
    parameters = ["study: Any", "*"] if verb.study else [mine.pop(key) for key in places] + ["*"]
    if places and get_origin(own[places[0]].form.typed) is list:
        one = _wider("", _annotations(verb.verb_options)[places[0]]).partition(" | Sequence")[0]
        parameters = [f"*{places[0]}: {one}", *parameters[1:-1]]
    parameters += [f"{one}{'' if api.is_place(verb, key) else ' = ...'}" for key, one in mine.items()]
    for field in verb.takes:
        keyword = declared(Options)[field].keyword or field
        parameters.append(f"{keyword}: {_wider(keyword, _annotations(options_class(field))[field])} = ...")
    for key, kind in _annotations(command.Reading).items() if verb.study else ():
        parameters.append(f"{key}: {ast.unparse(kind)} = ...")
    parameters.append("progress: Callable[[Progress], None] | None = ...")
    said = textwrap.indent(inspect.getdoc(getattr(api, name)) or "", "    ").strip()
    listed = "".join(f"    {one},\n" for one in parameters)
    returned = verb.work.__annotations__["return"]
    return f'def {name}(\n{listed}) -> {returned}:\n    """{said}\n    """\n'


def options_class(name: str) -> type:
    """The group of run options that an option is in."""
    return group_classes(Options)[group_of(Options)[name]]


@functools.cache
def _annotations(model: type) -> dict[str, ast.expr]:
    """The types of a dataclass's fields, its own and those it inherits, as they are written."""
    return {
        node.target.id: node.annotation
        for base in reversed(model.__mro__[:-1])
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(base))))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _wider(name: str, annotation: ast.expr) -> str:
    """The type of what Python may give: one of several too, and a text for a path."""
    if name in WIDER:
        return WIDER[name]
    kinds = list(_kinds(annotation))
    if "Path" in kinds and "str" not in kinds:
        kinds.insert(0, "str")
    return " | ".join(dict.fromkeys(kinds))


def _kinds(annotation: ast.expr) -> Iterator[str]:
    if isinstance(annotation, ast.BinOp):
        yield from _kinds(annotation.left)
        yield from _kinds(annotation.right)
        return
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Sequence":
        yield from _kinds(annotation.slice)
    yield ast.unparse(annotation)


def _by_hand(node: ast.FunctionDef) -> str:
    types = {"missing": "Missing", "answer": "Callable[[str], str] | None"}
    for one in node.args.kwonlyargs:
        if one.arg in types:
            one.annotation = ast.parse(types[one.arg], mode="eval").body
    if node.name == "reward":
        node.returns = ast.parse("Reward", mode="eval").body
    node.body = node.body[:1]
    return ast.unparse(node) + "\n"


@functools.cache
def _homes(module: object) -> dict[str, str]:
    """The modules that a module's names come from, those for type checkers too."""
    found = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name: node.module for one in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: module.__name__ for target in targets if isinstance(target, ast.Name)}
    return found


if __name__ == "__main__":
    (HOME / "__init__.pyi").write_text(init(), encoding="utf-8")
    (HOME / "api.pyi").write_text(functions(), encoding="utf-8")
