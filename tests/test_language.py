"""Messages, help texts, public docstrings and pages keep to the style sheet in CONTRIBUTING.md, "Writing"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

import goldless
from tests.support.paths import ROOT

SOURCE = ROOT / "src" / "goldless"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

COMPARATIVE = (
    "longer|more|less|fewer|better|worse|higher|lower|greater|larger|smaller|shorter|slower|faster|other|different|"
    "easier|harder|further|nearer|closer|wider|narrower|likelier|cheaper|earlier|later"
)
COUNTS = (
    "calls?|tokens?|files?|rows?|lines?|tables?|texts?|judgements?|responses?|questions?|requests?|reviews?|samples?|"
    "reviewers?|peers?|pairs?|nats"
)
PER = (
    "task|agent|model|response|pair|judgement|review|reviewer|paper|token|sample|text|question|request|call|critic|run"
)
FORBIDDEN = {
    "got": r"\bcame\b(?! (?:from|back|out|in|first|second|before|nearest)\b)",
    "is, is in, means": r"\b(?:stands?|stood)\b(?!-)",
    "compare A with B": r"\b(?:holds?|held|holding)\b[^.;]{0,60}?\bagainst\b",
    "N agents": r"\bso many\b(?! that\b)",
    "is not a": rf"(?<!there )\b(?:is|are|was|were) no (?!(?:{COMPARATIVE})\b)[a-z]",
    "calls per task": rf"(?:\b(?:one|two|three|\d+)|\}}) (?:{COUNTS}) an? (?:{PER})\b",
    "comma-separated": r"\bby commas?\b",
    "custom": r"\bof (?:yours|your own)\b",
    "is in": r"\b(?:lies?|lay|lying) (?:in|there|here|beside|between 0 and 1)\b",
    "says, shows, reports": r"\b(?:told|tells)\b(?![^.;]{0,60}\b(?:apart|from)\b)",
    "no reviewer, an agent": r"\b(?:no|some|any)body\b",
    "where possible": r"\b(?:if|wherever it|as the case) may be\b",
    "return, release": r"\b(?:gives?|gave|giving|given) back\b",
}
"""What to write, and what not to, as far as a search can find it without hitting other uses of the words."""
PATTERNS = {said: re.compile(pattern, re.IGNORECASE) for said, pattern in FORBIDDEN.items()}

PROMPTS = {
    "judging/judges.py": {"SAME_SOURCE", "THREE_LEVEL"},
    "apps/debate/stage.py": {"PUBLIC", "_messages"},
    "judging/exams.py": {"CHANGE"},
    "judging/scales.py": {"MATERIAL"},
    "templates.py": {"GENERAL", "PLAIN"},
}
"""By module, the names of what is sent to models: a changed word would be another metric."""


def forbidden(text: str) -> Iterator[tuple[int, str]]:
    """The line, counted from 0, and what is wrong with it, of each forbidden phrase."""
    for instead, pattern in PATTERNS.items():
        for found in pattern.finditer(text):
            around = text[max(0, found.start() - 40) : found.end() + 30].replace("\n", " ").strip()
            yield text[: found.start()].count("\n"), f"'{found[0]}' in '{around}'; write: {instead}"


# --- what users can see of a module --------------------------------------------------------------------------------


def is_documentation(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def literals(node: ast.AST, prompts: set[str]) -> Iterator[tuple[int, str]]:
    """The line and text of every string, f-strings with {} for their values; no docstrings, patterns and prompts."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
        return
    if isinstance(node, ast.JoinedStr):
        yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
        parts: list[ast.AST] = [part for part in node.values if isinstance(part, ast.FormattedValue)]
    elif (isinstance(node, ast.stmt) and is_documentation(node)) or is_pattern(node) or assigns(node, prompts):
        return
    else:
        parts = list(ast.iter_child_nodes(node))
    for part in parts:
        yield from literals(part, prompts)


def is_pattern(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return (
        isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id in ("re", "regex")
    )


def assigns(node: ast.AST, names: set[str]) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    called = {node.name} if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else set()
    return bool(names & (called | {target.id for target in targets if isinstance(target, ast.Name)}))


def public_names() -> set[str]:
    """What the package offers, as its ``__all__`` has it."""
    return set(goldless.__all__)


def docstrings(module: ast.Module, *, verbs: bool) -> Iterator[tuple[int, str]]:
    """The line and text of the docstrings of public names, of their methods and fields, and of verbs."""
    for node in module.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name in public_names() or (verbs and node.decorator_list):
            inner = [part for part in ast.walk(node) if isinstance(part, ast.Expr) and is_documentation(part)]
            yield from ((part.lineno, ast.literal_eval(part.value)) for part in inner)


def hits_of_module(path: Path) -> list[str]:
    name = path.relative_to(SOURCE).as_posix()
    module = ast.parse(path.read_text(encoding="utf-8"))
    seen = chain(literals(module, PROMPTS.get(name, set())), docstrings(module, verbs=name.startswith("cli/")))
    return [
        f"{path.relative_to(ROOT)}:{line + below}: {what}" for line, text in seen for below, what in forbidden(text)
    ]


def hits_of_text(path: Path, text: str) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{line + 1}: {what}" for line, what in forbidden(text)]


# --- what users can see of a page ----------------------------------------------------------------------------------


def prose(page: str) -> str:
    """A page without code and without the table of what not to write, its lines where they were."""
    table = r"^\| do not write \|.*?(?=^$)"
    code = r"^ *```.*?^ *```$|(?<!`)`[^`\n]+`|\]\([^)\s]*\)"
    return re.sub(rf"{code}|{table}", lambda found: "\n" * found[0].count("\n"), page, flags=re.DOTALL | re.MULTILINE)


# --- tests ---------------------------------------------------------------------------------------------------------

PARTS = sorted({path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")})


@pytest.mark.parametrize("part", PARTS)
def test_no_text_that_a_user_can_see_has_a_forbidden_phrase(part):
    modules = [SOURCE / part] if part.endswith(".py") else sorted((SOURCE / part).rglob("*.py"))
    pages = [path for path in (SOURCE / part).rglob("*") if path.suffix in (".html", ".js")]
    hits = [hit for path in modules for hit in hits_of_module(path)]
    hits += [hit for path in pages for hit in hits_of_text(path, path.read_text(encoding="utf-8"))]
    assert not hits, "\n".join(hits)


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="installed without the docs")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_has_a_forbidden_phrase(page):
    hits = hits_of_text(page, prose(page.read_text(encoding="utf-8")))
    assert not hits, "\n".join(hits)


def test_docstrings_begin_with_a_noun_or_a_verb():
    asking = re.compile(r'"""(What|Whether|How|Which|Who|Why|When) .*')
    found = [
        f"{path.relative_to(SOURCE)}: {hit[0]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for hit in asking.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


# --- the search itself ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a level of 2 came; it lies between 0 and 1",
        "what stands in the table",
        "hold metrics or scores against people",
        "for so many agents",
        "x.csv is no study",
        "{} tokens a judgement",
        "agents by commas",
        "a metric of yours",
        "the file lies in a folder",
        "the program tells how many",
        "Nobody passed",
        "off the lines if may be",
        "gives back the files",
    ],
)
def test_a_forbidden_phrase_is_found(text):
    assert list(forbidden(text))


def test_strings_are_read_whole_and_docstrings_patterns_and_prompts_are_left_out():
    module = ast.parse(
        '''"""It stands."""
import re
ASK = "What stands here"
PATTERN = re.compile("it stands")

def f(x):
    """It stands."""
    raise ValueError(f"hold {x} "
        "against people")
'''
    )
    assert list(literals(module, {"ASK"})) == [(8, "hold {} against people")]


def test_a_pages_code_is_not_prose_and_its_lines_keep_their_numbers():
    page = "one\n```\nit stands\n```\n`it stands` [two](stands.md)\nit stands\n"
    assert [line for line, _ in forbidden(prose(page))] == [5]
