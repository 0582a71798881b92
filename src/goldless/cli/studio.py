"""``goldless studio``: paste, drop, run and look, in the browser of this machine."""

from __future__ import annotations

import functools
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from goldless.cli.command import verb
from goldless.cli.console import say
from goldless.cli.signals import run_async
from goldless.errors import UserError
from goldless.runs.option_forms import argument, option
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.studio.shell import Studio


@dataclass(frozen=True, kw_only=True)
class StudioOptions:
    """Options of ``studio``."""

    folder: Path = argument("FOLDER", "The folder for runs; it is made if it does not exist.", Path("runs"))
    port: int = option(0, "Port to listen on; 0 picks a free one.")
    browser: bool = option(True, "Open the page in your browser.", "--browser/--no-browser")


@verb("journal", first=("port", "browser"))
def studio(own: StudioOptions, options: Options) -> None:
    """Work in your browser: paste two texts, drop a file, press Run, look at the results. Stop it with Ctrl-C.

    It listens on this machine only, and only a browser that was opened with its token may use it. Keys of models come
    from the environment; the pages never ask for one.

    Examples:
      goldless studio
      goldless studio runs/ --port 8765 --no-browser
    """
    from goldless.models.cache import default_journal
    from goldless.studio.shell import Studio, serve

    if not 0 <= own.port <= 65535:
        raise UserError(f"--port must be between 0 and 65535, got {own.port}")
    opened = Studio(own.folder, journal=options.journal or default_journal())
    run_async(
        functools.partial(serve, opened, port=own.port, ready=functools.partial(_ready, opened, browser=own.browser))
    )


def _ready(studio: Studio, url: str, *, browser: bool) -> None:
    say(f"studio: {url}?token={studio.access.token} (stop it with Ctrl-C)")
    if browser:
        webbrowser.open(f"{url}?token={studio.access.ticket()}")
