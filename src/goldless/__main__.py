"""``python -m goldless``: the command line."""

from __future__ import annotations

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the working folder, whose modules and plugins nobody asked for

from goldless.cli import main

main()
