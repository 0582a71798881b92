"""``goldless view`` and ``goldless studio``: runs in the browser of this machine, to look at and to work with."""

from __future__ import annotations

import functools
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from goldless.cli.command import verb
from goldless.cli.console import run_async, say
from goldless.runs.option_forms import OptionForm, argument, option
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.apps.studio.site import Site

PORT = OptionForm(int, must_be="between 0 and 65535", allows=lambda given: 0 <= given <= 65535)


@dataclass(frozen=True, kw_only=True)
class BrowserOptions:
    """Where pages are served."""

    port: int = option(0, "Port to listen on; 0 picks a free one.", group=None, form=PORT)
    browser: bool = option(True, "Open the page in your browser.", "--browser/--no-browser")


def _serve(name: str, site: Site, browser_options: BrowserOptions, *, query: str = "", browser_query: str = "") -> None:
    """Serve the pages until Ctrl-C; the browser's address may differ from the one that is printed."""
    from goldless.apps.studio.server import listening
    from goldless.http_serving import serve_until_told

    def ready(url: str) -> None:
        say(f"{name}: {url}{query} (stop it with Ctrl-C)")
        if browser_options.browser:
            webbrowser.open(f"{url}{browser_query}")

    run_async(functools.partial(serve_until_told, listening(site, port=browser_options.port), ready))


@dataclass(frozen=True, kw_only=True)
class ViewOptions(BrowserOptions):
    """Options of ``view``."""

    runs: Path = argument("RUNS", "A folder of run folders, or one run folder.")


@verb("journal", prominent=("port", "browser"))
def view(verb_options: ViewOptions, options: Options) -> None:
    """Browse runs: leaderboards, tasks, and the prompt and reply behind every number. Stop it with Ctrl-C.

    It listens on this machine only and writes nothing to run folders. A whole information map, if you request one, is
    computed by the embedded model, and its replies are kept in the journal.

    Example:
      goldless view runs/
    """
    from goldless.apps.studio.site import Site

    site = Site(verb_options.runs, journal=options.journal_file)
    _serve("viewer", site, verb_options)


@dataclass(frozen=True, kw_only=True)
class StudioOptions(BrowserOptions):
    """Options of ``studio``."""

    folder: Path = argument("FOLDER", "Folder for runs; created if it does not exist.", Path("runs"))


@verb("journal", prominent=("port", "browser"))
def studio(verb_options: StudioOptions, options: Options) -> None:
    """Work in your browser: paste two texts, drop a file, press Run, look at the results. Stop it with Ctrl-C.

    It listens on this machine only, and only a browser that was opened with its token may use it. Keys of models come
    from the environment; the pages never ask for one.

    Examples:
      goldless studio
      goldless studio runs/ --port 8765 --no-browser
    """
    from goldless.apps.studio.site import Studio

    site = Studio(verb_options.folder, journal=options.journal_file)
    access = site.access
    _serve("studio", site, verb_options, query=f"?token={access.token}", browser_query=f"?token={access.ticket()}")
