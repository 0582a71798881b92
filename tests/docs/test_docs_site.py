"""The documentation as a whole: navigation, links, and commands that exist."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer.main

import goldless
from goldless.cli.main import QUESTIONS, app
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
CONFIGURATION = ROOT / "mkdocs.yml"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SITE_PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "decisions"]
OTHERS = ("CHANGELOG", "CONTRIBUTING", "SECURITY")
MADE = ("files.md", "options.md")
"""Pages that are made when the site is built."""
LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(
    r"^```\w*[^\n]*\n(?P<fenced>.*?)^```$|(?<!`)`(?P<inline>[^`\n]+)`|^ {4}(?P<indented>\S[^\n]*)$",
    re.DOTALL | re.MULTILINE,
)

pytestmark = pytest.mark.skipif(not CONFIGURATION.exists(), reason="installed without the docs")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# --- navigation and links ------------------------------------------------------------------------------------------


def test_every_page_is_in_the_navigation_once():
    navigation = CONFIGURATION.read_text(encoding="utf-8").split("\nnav:\n")[1]
    listed = re.findall(r"([\w/]+\.md)$", navigation, flags=re.MULTILINE)
    assert sorted(listed) == sorted([*(str(page.relative_to(DOCS)) for page in SITE_PAGES), *MADE])


def prose_of(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), flags=re.MULTILINE)
    plain = [unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode() for heading in headings]
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in plain}


@pytest.mark.parametrize("page", [*PAGES, *(ROOT / f"{name}.md" for name in OTHERS)], ids=name_of)
def test_every_relative_link_leads_to_a_file_and_a_heading_of_it(page):
    missing = []
    for target in LINK.findall(prose_of(page)):
        path, _, anchor = target.partition("#")
        if "://" in target or path in MADE:
            continue
        found = page.parent / path if path else page
        if not found.exists() or (found.suffix == ".md" and anchor and anchor not in anchors_of(found)):
            missing.append(target)
    assert not missing


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name_of)
def test_a_page_of_the_site_links_to_nothing_outside_of_it(page):
    targets = [target.split("#")[0] for target in LINK.findall(prose_of(page)) if "://" not in target]
    assert all((page.parent / target).resolve().is_relative_to(DOCS) for target in targets)


def test_the_pages_are_few_and_short():
    """One page per question: a page that grows takes from another one. Decision records are for developers."""
    sizes = {page.name: page.stat().st_size for page in SITE_PAGES}
    assert len(sizes) <= 40
    assert sum(sizes.values()) <= 318_000


def test_the_site_is_configured_to_load_no_font_and_no_script_from_elsewhere():
    settings = CONFIGURATION.read_text(encoding="utf-8")
    assert re.search(r"^  font: false\b", settings, flags=re.MULTILINE)
    assert "://" not in settings


def test_the_reference_has_every_public_name_once():
    listed = re.findall(r"^::: goldless\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(listed) == [name for name in goldless.__all__ if name != "__version__"]


def test_a_list_begins_after_an_empty_line():
    """Otherwise the site shows it as one paragraph."""
    glued = re.compile(r"^(?![-|#>\s]|\d+\. ).*\S\n(?=(?:- |1\. )\S)", re.MULTILINE)
    wrong = {name_of(page): glued.findall(FENCED.sub("", page.read_text(encoding="utf-8"))) for page in SITE_PAGES}
    assert {page: lines for page, lines in wrong.items() if lines} == {}


METRICS = {
    f"{page}, {section.splitlines()[0]}": section
    for page in ("metrics.md", "metrics_others.md")
    for section in re.split(r"^## ", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    if "**When " in section
}


def test_every_family_of_metrics_has_a_section():
    assert len(METRICS) == 6


@pytest.mark.parametrize("section", METRICS.values(), ids=METRICS)
def test_the_section_of_a_metric_has_its_formula_its_sources_what_it_costs_and_when_it_fails(section):
    told = (
        *(r"^\*\*Formulas?\.\*\*|\| formula \|", r"^\*\*Sources?\.\*\*"),
        *(r"^\*\*What (it|they) costs?\.\*\*", r"^\*\*When (it|they) fails?\.\*\*"),
    )
    assert [what for what in told if not re.search(what, section, flags=re.MULTILINE)] == []


# --- commands ------------------------------------------------------------------------------------------------------


def commands_of(text: str) -> Iterator[list[str]]:
    """The words of every ``goldless VERB …`` in code, after the name of the program."""
    for found in CODE.finditer(re.sub(r"^```bibtex\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)):
        code = next(part for part in found.groups() if part is not None).replace("\\\n", " ")
        for line in code.splitlines():
            for command in re.findall(r"(?:^|[\s`|(])goldless\s+([a-z-]+\b[^|;`]*)", re.sub(r"\s#\s.*", "", line)):
                yield _words(command)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an apostrophe in prose that a block holds
        return command.split()


def verb_of(words: list[str]) -> tuple[click.Command | None, list[str]]:
    """The command that the words name, and the words after its name."""
    found: click.Command | None = typer.main.get_command(app)
    rest = list(words)
    while found is not None and hasattr(found, "commands") and rest:
        if rest[0].startswith("-"):
            break
        name = rest.pop(0)
        question = next((word for word in rest if f"{name} {word}" in QUESTIONS), None)
        if question is not None:
            rest.remove(question)
        found = found.get_command(None, name if question is None else f"{name} {question}")
    return found, rest


def unknown_options(command: click.Command, words: list[str]) -> list[str]:
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return [word for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0] not in {*known, "--help"}]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_on_a_page_exists_with_the_options_it_is_given(page):
    wrong = []
    for words in commands_of(page.read_text(encoding="utf-8")):
        command, rest = verb_of(words)
        if command is None:
            wrong.append(f"goldless {' '.join(words)}: there is no such verb")
        else:
            wrong += [f"goldless {' '.join(words)}: no option {option}" for option in unknown_options(command, rest)]
    assert wrong == []


def test_a_verb_or_option_that_does_not_exist_would_be_found():
    page = (
        "`goldless scroe a.csv`\n\n```\n$ goldless score a.csv --metrik mi \\\n    --seed 1   # --not-an-option\n```\n"
    )
    (misspelt, right) = commands_of(page)
    assert verb_of(misspelt)[0] is None
    command, rest = verb_of(right)
    assert command is not None
    assert unknown_options(command, rest) == ["--metrik"]
