"""Where the repository is: ``address.py NEW`` writes it wherever it is named; pyproject.toml has the present one."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = ("*.md", "*.cff", "*.toml", "*.yml", "docs/**/*.md", ".github/**/*.yml", ".github/**/*.md")


def address() -> str:
    """The present address."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Homepage"])


def files() -> list[Path]:
    """The files that may name it."""
    return sorted({path for pattern in PLACES for path in ROOT.glob(pattern)})


def main(new: str) -> None:
    """Replace the address everywhere."""
    if not re.fullmatch(r"https://[\w.-]+/[\w.-]+/[\w.-]+", new):
        sys.exit(f"TO must be an address such as https://github.com/NAME/goldless, got {new!r}")
    old = address()
    for path in files():
        text = path.read_text(encoding="utf-8")
        if old in text:
            path.write_text(text.replace(old, new), encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
