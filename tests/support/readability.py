"""How plainly a package is written: which of its names say nothing, and how much one statement holds.

A formatter changes none of these measures: they are counted in names, tokens and statements, never in lines.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path


def words_in(text: str) -> frozenset[str]:
    return frozenset(text.split())


VAGUE_WORDS = words_in(
    "about alone apart asked beaten begun chosen counted drawn each every found given heard held here kept known "
    "lacking made mine named one others own passed place places said seen shown strange taken theirs there told usual "
    "wanted whole whose written"
)
"""Words that name nothing: a name that is one of them, or begins or ends with one, is vague."""

EMPTY_WORDS = words_in(
    "data element elements entries entry info item items obj result results stuff temp thing things value values"
)
"""Words that fit everything; allowed in a generic function, and no cure for a vague name."""

IRREGULAR_PARTICIPLES = words_in(
    "beaten begun brought built chosen drawn found given heard held kept known left lost made meant met put said seen "
    "sent shown taken thrown told written"
)

NOT_PARTICIPLES = words_in("bed bleed embed exceed feed hundred indeed need proceed red seed speed succeed")

LAYOUT = frozenset(
    {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
)
"""Tokens that carry no meaning of their own."""

# from Python 3.12 on an f-string is many tokens, and a template string from 3.14 on; each counts as one here
STRING_STARTS = {getattr(tokenize, f"{kind}STRING_START", None) for kind in "FT"} - {None}
STRING_ENDS = {getattr(tokenize, f"{kind}STRING_END", None) for kind in "FT"} - {None}

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
VAGUE_NAMES_OF_A_DENSE_FUNCTION = 3


@dataclass
class Readability:
    """Counts over the files of a package, and the shares that are made of them."""

    names: int = 0
    vague_names: int = 0
    empty_names: int = 0
    functions: int = 0
    participle_functions: int = 0
    dense_functions: int = 0
    """Functions that bind three or more different vague names."""
    statements: int = 0
    tokens: int = 0
    comprehensions: int = 0
    conditional_expressions: int = 0

    def add(self, other: Readability) -> None:
        for field in fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)

    def measures(self) -> dict[str, float]:
        """The measures that have a ceiling."""
        return {
            "vague names, %": 100 * self.vague_names / self.names,
            "empty names, %": 100 * self.empty_names / self.names,
            "participle functions, %": 100 * self.participle_functions / self.functions,
            "dense functions": self.dense_functions,
            "tokens per statement": self.tokens / self.statements,
            "comprehensions per 1,000 statements": 1000 * self.comprehensions / self.statements,
            "conditional expressions per 1,000 statements": 1000 * self.conditional_expressions / self.statements,
            "tokens": self.tokens,
        }


@functools.cache
def measure_package(folder: Path) -> Readability:
    """Measure every Python file below a folder."""
    total = Readability()
    for path in sorted(folder.rglob("*.py")):
        total.add(measure_source(path.read_text(encoding="utf-8")))
    return total


def measure_source(source: str) -> Readability:
    """Measure one file."""
    tree = ast.parse(source)
    counts = Readability(tokens=count_tokens(source, tree))
    for node in ast.walk(tree):
        name = bound_name(node)
        if name:
            counts.names += 1
            counts.vague_names += is_vague(name)
            counts.empty_names += is_empty(name)
        if isinstance(node, ast.stmt) and not is_docstring(node):
            counts.statements += 1
        if isinstance(node, COMPREHENSIONS):
            counts.comprehensions += 1
        if isinstance(node, ast.IfExp):
            counts.conditional_expressions += 1
        if isinstance(node, FUNCTIONS):
            counts.functions += 1
            counts.participle_functions += is_participle(node.name)
            counts.dense_functions += len(vague_names_of(node)) >= VAGUE_NAMES_OF_A_DENSE_FUNCTION
    return counts


def words_of(name: str) -> list[str]:
    """The words of a name in snake_case or CamelCase, in lower case."""
    separated = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word.lower() for word in separated.split("_") if word]


def is_vague(name: str) -> bool:
    words = words_of(name)
    return bool(words) and not VAGUE_WORDS.isdisjoint((words[0], words[-1]))


def is_empty(name: str) -> bool:
    words = words_of(name)
    return len(words) == 1 and words[0] in EMPTY_WORDS


def is_participle(name: str) -> bool:
    """Whether a function's name is a participle and nothing else, such as ``_looked``."""
    word = name.strip("_")
    if word in NOT_PARTICIPLES:
        return False
    return word in IRREGULAR_PARTICIPLES or re.fullmatch(r"[a-z]{3,}ed", word) is not None


def bound_name(node: ast.AST) -> str | None:
    """The name that a node binds: a variable, parameter, class, caught exception, captured pattern or import."""
    match node:
        case ast.arg(arg=name):
            return name
        case ast.Name(id=name, ctx=ast.Store()):
            return name
        case ast.ClassDef(name=name) | ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name
        case ast.alias(asname=name):
            return name
    return None


def vague_names_of(function: ast.AST) -> set[str]:
    names = {name for node in nodes_of_function(function) if (name := bound_name(node))}
    return {name for name in names if is_vague(name)}


def nodes_of_function(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a function, without those inside functions that it defines."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, FUNCTIONS):
            yield from nodes_of_function(child)


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def count_tokens(source: str, tree: ast.AST) -> int:
    """Names, numbers, operators and strings outside of docstrings and comments."""
    docstring_lines = set(lines_of_docstrings(ast.walk(tree)))
    count, string_depth = 0, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        inside_string = string_depth > 0
        if token.type in STRING_STARTS:
            string_depth += 1
        if token.type in STRING_ENDS:
            string_depth -= 1
        if not inside_string and token.type not in LAYOUT and token.start[0] not in docstring_lines:
            count += 1
    return count


def lines_of_docstrings(nodes: Iterable[ast.AST]) -> Iterator[int]:
    for node in nodes:
        if is_docstring(node):
            yield from range(node.lineno, node.end_lineno + 1)


def vague_words(folder: Path) -> Counter[str]:
    """How often each vague name is bound, to find what to rename first."""
    names: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names.update(name for node in ast.walk(tree) if (name := bound_name(node)) and is_vague(name))
    return names
