"""The command line. One file per verb; the only place that prints or exits."""

from __future__ import annotations

from goldless.cli.main import main

__all__ = ["main"]
