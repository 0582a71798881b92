"""The command line. One file per verb; the only place that prints or exits."""

from __future__ import annotations

import importlib
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; to print the version, nothing else is imported."""
    if sys.argv[1:] == ["--version"]:
        from goldless._version import __version__

        sys.stdout.write(f"goldless {__version__}\n")
        sys.exit(0)
    importlib.import_module("goldless.cli.main").main()
