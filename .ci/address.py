"""Where the repository is: ``address.py NEW`` writes it wherever it belongs. Until then, no page names an address."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = ("*.md", "*.cff", "*.toml", "*.yml", "docs/**/*.md", ".github/**/*.yml", ".github/**/*.md")
PROJECT = """[project.urls]
Homepage = "{0}"
Documentation = "{0}/tree/main/docs"
Changelog = "{0}/blob/main/CHANGELOG.md"
Issues = "{0}/issues"

"""
VULNERABILITY = """contact_links:
  - name: A vulnerability
    url: {0}/security/advisories/new
    about: Please report it in private
"""
FIRST = {
    "pyproject.toml": (PROJECT, "[project.entry-points.inspect_ai]"),
    "CITATION.cff": ("repository-code: {0}\n", "references:"),
    ".github/ISSUE_TEMPLATE/config.yml": (VULNERABILITY, ""),
}
"""What each file gets with the first address, and the line before which it stands: at the end if there is none."""


def address(root: Path = ROOT) -> str | None:
    """The present address, or None."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["urls"]["Homepage"] if "urls" in project else None


def files(root: Path = ROOT) -> list[Path]:
    """The files that may name it."""
    return sorted({path for pattern in PLACES for path in root.glob(pattern)})


def with_address(root: Path, new: str) -> dict[Path, str]:
    """The texts that change, by file."""
    old = address(root)
    if old is not None:
        texts = {path: path.read_text(encoding="utf-8") for path in files(root)}
        return {path: text.replace(old, new) for path, text in texts.items() if old in text}
    changed = {}
    for name, (added, before) in FIRST.items():
        text, lines = (root / name).read_text(encoding="utf-8"), added.format(new)
        changed[root / name] = text.replace(f"\n{before}", f"\n{lines}{before}", 1) if before else text + lines
    return changed


def main(new: str) -> None:
    """Write the address."""
    if not re.fullmatch(r"https://[\w.-]+/[\w.-]+/[\w.-]+", new):
        sys.exit(f"TO must be an address such as https://github.com/NAME/goldless, got {new!r}")
    for path, text in with_address(ROOT, new).items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
