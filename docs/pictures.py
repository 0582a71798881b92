"""Pictures for the pages, light and dark, of what goldless shows about its quickstart study: ``make pictures``.

Each picture names the parts that must be seen in it, and is not taken without them. ``tests/docs/test_pictures.py``
looks for the same parts, so a page that changes asks for a new picture.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME
from rich.text import Text

import goldless as goldless_package

IMAGES = Path(__file__).parent / "images"
CATALOGUE = "pictures.json"
SCHEMES = {"light": DEFAULT_TERMINAL_THEME, "dark": SVG_EXPORT_THEME}
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LARGEST_BYTES = 150_000
QUALITIES = (90, 80, 70, 60, 50, 40)
DROPPED = Path(goldless_package.__file__).parent / "cli" / "quickstart_answers.csv"
COLUMNS = 96
LINES = 21
"""Of what the terminal shows; the rest is left out."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to take pictures of."""

    report: Path
    studio: str
    """Its address, with the token."""

    def page(self, path: str) -> str:
        """The address of one of the studio's pages."""
        return self.studio.split("/?")[0] + path


@dataclass(frozen=True, slots=True)
class Picture:
    """What is opened, and what must be seen in it."""

    open: Callable[[Page, Scene], None]
    parts: tuple[str, ...]
    """Selectors of Playwright."""
    with_model: tuple[str, ...] = ()
    """Further ones, where the embedded model is there."""
    height: int = 720
    needs_model: bool = False


def _report(page: Page, scene: Scene) -> None:
    page.goto(scene.report.as_uri())
    page.evaluate("window.scrollTo(0, document.querySelector('.verdict').offsetTop - 12)")


def _map(page: Page, scene: Scene) -> None:
    page.goto(scene.page("/paste?example=1"))
    page.get_by_role("button", name="Show the map").click()
    page.wait_for_selector("[data-map]", timeout=300_000)
    page.locator("[data-sentence=C2]").hover()


def _viewer(page: Page, scene: Scene) -> None:
    page.goto(scene.page("/runs/first/tasks/0/agents/0"))


def _studio(page: Page, scene: Scene) -> None:
    page.goto(scene.page("/new"))
    page.set_input_files("#file", DROPPED)
    page.wait_for_selector("#plan", timeout=60_000)  # a chosen file is checked at once


def _label(page: Page, scene: Scene) -> None:
    page.goto(scene.page("/label/pairs?run=first&rater=you&criterion=answers+the+question"))


PICTURES = {
    "report": Picture(_report, (".verdict", "text=Before you trust this ranking", "table"), height=860),
    "map": Picture(_map, ("[data-map]", "text=Candidate:", "text=Peer:", "text=would be lost"), needs_model=True),
    "viewer": Picture(_viewer, ("h1", "text=Log-probabilities"), height=760, needs_model=True),
    "studio": Picture(_studio, ("text=ready", "text=Metrics", "text=Plan"), (".plan table",), height=960),
    "label": Picture(_label, ("button:has-text('A is better')", "button:has-text('Tie')", "text=labelled by")),
}


def look(page: Page, picture: Picture, scene: Scene, *, with_model: bool) -> None:
    """Open what a picture shows and wait for its parts."""
    picture.open(page, scene)
    for part in (*picture.parts, *(picture.with_model if with_model else ())):
        page.locator(part).first.wait_for(state="visible", timeout=60_000)


def enter(page: Page, scene: Scene) -> None:
    """Let a browser into the studio: its token becomes a cookie."""
    page.goto(scene.studio)
    page.wait_for_url(scene.page("/"))


# --- taking ----------------------------------------------------------------------------------------------------------


def main() -> None:
    """Take all pictures, or those named, into docs/images."""
    names = sys.argv[1:] or [*PICTURES, "terminal"]
    with tempfile.TemporaryDirectory(prefix="goldless-") as temporary:
        folder = Path(temporary)
        goldless("score", str(DROPPED), "--out", "runs/first", cwd=folder)
        if "terminal" in names:
            _terminal(folder)
        with studio(folder) as address, browser() as opened:
            scene = Scene(folder / "runs" / "first" / "report.html", address)
            _take(opened, [name for name in names if name in PICTURES], scene)
    (IMAGES / CATALOGUE).write_text(
        f"{json.dumps({'goldless': goldless_package.__version__, 'pictures': [*PICTURES, 'terminal']})}\n"
    )


def goldless(*words: str, cwd: Path) -> None:
    """Run a command and say nothing unless it fails."""
    subprocess.run([sys.executable, "-m", "goldless", *words], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def studio(folder: Path) -> Iterator[str]:
    """The address of a studio over the runs of a folder; its journal is new, so that its plans have calls to make."""
    command = [sys.executable, "-m", "goldless", "studio", "runs", "--no-browser", "--journal", "new.sqlite"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            found = next(filter(None, (re.search(r"http://\S+", line) for line in server.stderr)))
            yield found[0]
        finally:
            server.send_signal(signal.SIGINT)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])


def _take(opened: Browser, names: list[str], scene: Scene) -> None:
    for scheme in SCHEMES:
        options: dict[str, Any] = {"color_scheme": scheme, "device_scale_factor": 2, "reduced_motion": "reduce"}
        page = opened.new_page(viewport={"width": 1100, "height": 720}, **options)
        enter(page, scene)
        for name in names:
            page.set_viewport_size({"width": 1100, "height": PICTURES[name].height})
            look(page, PICTURES[name], scene, with_model=True)
            (IMAGES / f"{name}_{scheme}.webp").write_bytes(_image(page))
        page.close()


def _image(page: Page) -> bytes:
    """What is seen of a page, at the best quality that is small enough."""
    session = page.context.new_cdp_session(page)
    for quality in QUALITIES:
        taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
        image = base64.b64decode(taken["data"])
        if len(image) <= LARGEST_BYTES:
            break
    return image


def _terminal(folder: Path) -> None:
    """What ``goldless demo`` prints on a terminal, as it prints it."""
    printed = _on_terminal("demo", cwd=folder)
    for scheme, theme in SCHEMES.items():
        console = Console(record=True, width=COLUMNS, file=Path(os.devnull).open("w"))  # noqa: SIM115 - for the program's life
        console.print("[bold]$ goldless demo[/bold]")
        for line in printed.rstrip().splitlines()[:LINES]:
            console.print(Text.from_ansi(line))
        console.print("[…]", markup=False)
        picture = console.export_svg(title="goldless", theme=theme, unique_id=f"goldless-{scheme}")
        without_fonts = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
        (IMAGES / f"terminal_{scheme}.svg").write_text(without_fonts, encoding="utf-8")


def _on_terminal(*words: str, cwd: Path) -> str:
    """What a command writes to a terminal on standard output."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": "60", "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "goldless", *words]
    with subprocess.Popen(command, cwd=cwd, env=environment, stdout=slave, stderr=subprocess.DEVNULL):
        os.close(slave)
        said = b""
        with contextlib.suppress(OSError):  # its end, on Linux
            while part := os.read(master, 65536):
                said += part
    os.close(master)
    return said.decode(encoding="utf-8").replace("\r\n", "\n")


if __name__ == "__main__":
    main()
