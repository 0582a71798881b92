"""The documentation as a whole: navigation, links, and commands that exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer.main

import goldless
from goldless.cli.main import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIGURATION = ROOT / "mkdocs.yml"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
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
    assert sorted(listed) == sorted([*(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")), *MADE])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_to_a_file(page):
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))
    targets = [target.split("#")[0] for target in LINK.findall(prose) if "://" not in target]
    missing = [t for t in targets if t and t not in MADE and not (page.parent / t).exists()]
    assert not missing


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name_of)
def test_a_page_of_the_site_links_to_nothing_outside_of_it(page):
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))
    targets = [target.split("#")[0] for target in LINK.findall(prose) if "://" not in target]
    assert all((page.parent / target).resolve().is_relative_to(DOCS) for target in targets)


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
    wrong = {name_of(page): glued.findall(FENCED.sub("", page.read_text(encoding="utf-8"))) for page in PAGES}
    assert {page: lines for page, lines in wrong.items() if lines} == {}


@pytest.mark.parametrize("page", [*sorted(DOCS.glob("metric_*.md")), DOCS / "peer_review.md"], ids=name_of)
def test_the_page_of_a_metric_names_its_sources_what_it_costs_and_when_it_fails(page):
    text = page.read_text(encoding="utf-8")
    told = (r"^\*\*Sources?\.\*\*", r"^\*\*What (it|they) costs?\.\*\*", r"^\*\*When (it|they) fails?\.\*\*")
    assert [what for what in told if not re.search(what, text, flags=re.MULTILINE)] == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("metric_*.md")), ids=name_of)
def test_the_page_of_a_metric_has_its_formula(page):
    assert re.search(r"^\*\*Formulas?\.\*\*|\| formula \|", page.read_text(encoding="utf-8"), flags=re.MULTILINE)


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
        found = found.commands.get(rest.pop(0))
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
