"""``python -m goldless``: the command line."""

from __future__ import annotations

from goldless.cli import main

main()
