"""``goldless view``: look under the numbers of runs, in the browser of this machine or as a static site."""

from __future__ import annotations

import functools
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from goldless.cli.command import verb
from goldless.cli.console import say
from goldless.cli.signals import run_async
from goldless.errors import UserError
from goldless.runs.option_forms import argument, option
from goldless.runs.options import Options


@dataclass(frozen=True, kw_only=True)
class Viewing:
    """Options of ``view``."""

    runs: Path = argument("RUNS", "A folder of run folders, or one run folder.")
    port: int = option(0, "Port to listen on; 0 picks a free one.")
    browser: bool = option(True, "Open the page in your browser.", "--browser/--no-browser")
    bundle: Path | None = option(None, "Write a static site to this folder instead.", "FOLDER")
    tasks: int = option(50, "Number of tasks of each run in a static site.")
    maps: bool = option(False, "Add information maps to a static site, a page per pair of responses.")


@verb("journal", first=("port", "browser", "bundle", "tasks", "maps"))
def view(own: Viewing, options: Options) -> None:
    """Browse runs: leaderboards, tasks, and the prompt and reply behind every number. Stop it with Ctrl-C.

    It listens on this machine only and writes nothing to run folders. A whole information map, if you request one, is
    computed by the embedded model, and its replies are kept in the journal.

    Examples:
      goldless view runs/
      goldless view runs/ --bundle site/
    """
    from goldless.models.cache import default_journal
    from goldless.viewer.bundle import write_bundle
    from goldless.viewer.library import Library
    from goldless.viewer.server import serve

    if not 0 <= own.port <= 65535:
        raise UserError(f"--port must be between 0 and 65535, got {own.port}")
    library = Library(own.runs, journal=options.journal or default_journal())
    if own.bundle is not None:
        made = write_bundle(library, own.bundle, tasks=own.tasks, maps=own.maps, say=say)
        for name, left in made.left_out.items():
            say(f"note: {left} tasks of {name} are not in the site (--tasks)", style="yellow")
        say(f"{made.pages} pages; open {made.first_page}")
        return
    run_async(functools.partial(serve, library, port=own.port, ready=functools.partial(_ready, browser=own.browser)))


def _ready(url: str, *, browser: bool) -> None:
    say(f"viewer: {url} (stop it with Ctrl-C)")
    if browser:
        webbrowser.open(url)
