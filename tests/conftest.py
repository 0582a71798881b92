"""What all tests share: a home of their own, no keys, no network, and toy models with known numbers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import ipaddress
import locale
import lzma
import math
import os
import random
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: its threads wait for each other on busy cores

os.environ["GOLDLESS_MARK_SECRET"] = "tests"  # of the marks of questions, so that they are the same in every journal

import anyio
import pytest

from goldless import plugins as plugins_module
from goldless.errors import PrerequisiteError
from goldless.models.cache import default_journal, models_folder
from goldless.models.embedded import embedded_model, locate_embedded
from goldless.models.gguf import GgufModel, build_model
from goldless.models.journal import Journal
from goldless.models.scripted import ScriptedModel
from tests.support.commands import Ran, exit_code
from tests.support.paid_twice import counts
from tests.support.paths import FIXTURES, ROOT
from tests.support.study_files import response_rows, write_rows

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# pytest and goldless alone run most tests; what else is here is used
if importlib.util.find_spec("hypothesis"):
    import hypothesis

    hypothesis.settings.register_profile("daily", deadline=None, max_examples=10, derandomize=True)
    hypothesis.settings.register_profile("properties", deadline=None, max_examples=1000, print_blob=True)
    hypothesis.settings.load_profile("daily")

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 4 * 2**30
"""Free memory with which temporary files are kept in it: a disk is waited for at every commit of a journal."""
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

SHARED_MODELS = models_folder()
"""Where models lie outside of the tests: they are fetched and converted once for all of them."""


FIRST = (
    *("tests/docs/test_readme.py", "tests/docs/test_pages.py", "tests/apps/fleet", "tests/torture"),
    *("tests/apps/gre_board", "tests/golden", "tests/test_architecture.py", "tests/apps/studio"),
)
"""Where the longest tests are: they begin first, so that no worker is left with one when the others have ended."""

MARKED_BY_FIXTURE = {"browser": "browser", "command": "goldless", "embedded": "embedded_file", "recorded": "recorded"}


def pytest_addoption(parser: pytest.Parser) -> None:
    if importlib.util.find_spec("pytest_timeout") is None:
        parser.addini("timeout", "for pytest-timeout, which is not installed")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of each, in another order")


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("shuffle")
    return None if seed is None else f"order: --shuffle {seed}"


@pytest.hookimpl(tryfirst=True)  # the workers are told by names
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that runs the embedded model may take long on a busy machine; what a file makes once, one worker makes."""
    for item in items:
        if _of_its_file(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
        if item.get_closest_marker("embedded") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1200))
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    if (seed := config.getoption("shuffle")) is not None:
        items.sort(key=lambda item: random.Random(f"{seed} {item.nodeid}").random())
        items.sort(key=lambda item: random.Random(f"{seed} {item.nodeid.partition('::')[0]}").random())


def pytest_collection_finish() -> None:
    """Look through what is imported once, not with every test."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _of_its_file(item: pytest.Item) -> bool:
    """Whether a test needs something that is made once for all tests of its file."""
    fixtures = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    return any(made[-1].scope == "module" for made in fixtures.values())


def pytest_configure(config: pytest.Config) -> None:
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # those Python ignores, and hands back
        if signal.getsignal(number) is signal.SIG_IGN:  # under nohup, or in the background: programs inherit that,
            signal.signal(number, lambda *_: None)  # but no handlers
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if importlib.util.find_spec("pytest_timeout") is None:
        config.addinivalue_line("markers", "timeout: for pytest-timeout, which is not installed")


def pytest_itemcollected(item: pytest.Item) -> None:
    """What a test needs is known by its fixtures; markers that say so are set here, once for all."""
    needs = getattr(item, "fixturenames", ())
    for marker, fixture in MARKED_BY_FIXTURE.items():
        if fixture in needs:
            item.add_marker(marker)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


INHERITED = re.compile(
    r"(OPENAI|ANTHROPIC|GEMINI|GOOGLE|AZURE|AWS|MISTRAL|TOGETHER|OPENROUTER|OLLAMA|LMSTUDIO|VLLM|SGLANG|OPENREVIEW)_.*"
    r"|GOLDLESS_(HTTP_.*|HOME|CONFIG|COMPLETING)|RAY_ADDRESS|INSPECT_.*|XDG_.*|GIT_.*"
    r"|(NO|FORCE|PY|CLI)_?COLOR(S|_FORCE)?|COLORTERM|LINES|TTY_.*|_?TYPER_.*|TERMINAL_WIDTH|GITHUB_ACTIONS|COMP_.*"
    r"|EDITOR|VISUAL|PAGER|BROWSER|LESS|LANGUAGE|LC_.*|(?i:[A-Z]+_PROXY)"
    r"|PYTHON(?!PATH$|HOME$|DONTWRITEBYTECODE$|PYCACHEPREFIX$).*|SOURCE_DATE_EPOCH"
)
"""Variables of the shell that would change what goldless, its children or its libraries do."""


@pytest.fixture(scope="session", autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The same variables, time zone and file mode for all tests and the programs they start, wherever they run."""
    umask = os.umask(0o022)
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(INHERITED.fullmatch, list(os.environ)):
            patch.delenv(name)
        for name, value in {"COLUMNS": "80", "TERM": "xterm", "LANG": "C.UTF-8", "TZ": "UTC"}.items():
            patch.setenv(name, value)
        if not os.access(os.environ.get("HOME", ""), os.W_OK):
            patch.setenv("HOME", str(tmp_path_factory.mktemp("user")))
        time.tzset()
        with contextlib.suppress(locale.Error):  # the encoding of files and pipes
            locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
        yield
    time.tzset()
    os.umask(umask)


@pytest.fixture(autouse=True)
def _own_home(request: pytest.FixtureRequest, tmp_path_factory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test touches the user's journal; only those marked ``embedded`` see the models kept on this machine."""
    home = tmp_path_factory.mktemp("home")
    if request.node.get_closest_marker("embedded"):
        with contextlib.suppress(OSError):  # where nothing can be kept, they skip
            SHARED_MODELS.mkdir(parents=True, exist_ok=True)
        (home / "models").symlink_to(SHARED_MODELS)
    monkeypatch.setenv("GOLDLESS_HOME", str(home))


@pytest.fixture(autouse=True)
def _own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric's folder can be imported from in its test only."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing beyond this machine can be reached from this process."""
    connect, connect_ex, lookup = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def refuse(host: object) -> None:
        if not _is_here(host):
            raise RuntimeError(f"a test tried to reach {host!r}")

    def guarded(original):
        def call(self, address):
            if self.family in {socket.AF_INET, socket.AF_INET6}:
                refuse(address[0])
            return original(self, address)

        return call

    def guarded_lookup(host, *arguments, **options):
        refuse(host)
        return lookup(host, *arguments, **options)

    monkeypatch.setattr(socket.socket, "connect", guarded(connect))
    monkeypatch.setattr(socket.socket, "connect_ex", guarded(connect_ex))
    monkeypatch.setattr(socket, "getaddrinfo", guarded_lookup)


def _is_here(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name in {None, "", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(str(name)).is_loopback
    except ValueError:
        return False


# --- the embedded model ------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def embedded_file() -> Path:
    """The embedded model's file, fetched and converted where that was not done yet; skips where it cannot be had."""
    import fcntl  # noqa: PLC0415 - Windows has none

    try:
        SHARED_MODELS.mkdir(parents=True, exist_ok=True)
        opened = (SHARED_MODELS / ".tests.lock").open("w")
    except OSError as error:
        pytest.skip(f"no embedded model: {error}")
    with pytest.MonkeyPatch.context() as patch, opened as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be fetching it
        patch.setenv("GOLDLESS_HOME", str(SHARED_MODELS.parent))
        try:
            path = locate_embedded()
        except PrerequisiteError as error:
            pytest.skip(f"no embedded model: {str(error).splitlines()[0]}")
        build_model(path)
        return path


@pytest.fixture(scope="session")
def embedded(embedded_file: Path) -> Iterator[GgufModel]:
    """The embedded model, loaded once for all tests of a worker."""
    model = embedded_model()
    anyio.run(model.prepare)
    yield model
    anyio.run(model.aclose)


REPLIES = FIXTURES / "embedded_replies.sqlite.xz"


@pytest.fixture(params=["recorded", pytest.param("computed", marks=pytest.mark.nightly)])
def embedded_journal(request: pytest.FixtureRequest, embedded_file: Path, _own_home: None) -> Iterator[Path]:
    """The default journal, with all that a test asks of the embedded model; at night empty, so that it is computed.

    A test that asks something new fails until it is recorded: ``GOLDLESS_RECORD=1 pytest -n0 -m embedded -k recorded``
    adds it to the file. Without the file, all is recorded anew.
    """
    path = default_journal()
    if request.param == "computed":
        yield path
        return
    if REPLIES.exists():
        path.write_bytes(lzma.decompress(REPLIES.read_bytes()))
    known = _replies(path)
    yield path
    if _replies(path) != known:
        assert os.environ.get("GOLDLESS_RECORD"), "replies are missing: run it with GOLDLESS_RECORD=1"
        REPLIES.write_bytes(lzma.compress(path.read_bytes(), preset=9))


def _replies(path: Path) -> int:
    if not path.exists():
        return 0
    with contextlib.closing(Journal(path)) as opened:
        return counts(opened)["calls"]


# --- torch -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Torch on one thread, as its threads wait for each other on busy cores; and no request to the hub."""
    torch = pytest.importorskip("torch", reason="needs the transformers extra: pip install 'goldless[transformers]'")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        yield
    torch.set_num_threads(threads)


# --- recorded data -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The folder of the recorded studies: outputs of real models with people's labels, no part of the project."""
    path = Path(os.environ.get("GOLDLESS_RECORDED") or ROOT.parent / "shared" / "data")
    if not path.is_dir():
        pytest.skip("no recorded studies: set GOLDLESS_RECORDED to their folder")
    return path


# --- a browser ---------------------------------------------------------------------------------------------------

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""In order of their cost."""
BROWSER_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",  # pages of its own, a CPU second for every window
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    """Chromium without a window, once for all tests of a worker, and the event loop of its library."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        why = f"no browser: none of {', '.join(BROWSERS)} is on the path"
        if os.environ.get("CI"):
            pytest.fail(f"{why}; with CI set this is a failure")
        pytest.skip(why)
    library = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with library.sync_playwright() as playwright:
        loop = asyncio.get_running_loop()
        opened = playwright.chromium.launch(executable_path=path, args=BROWSER_FLAGS)
        asyncio._set_running_loop(None)  # playwright leaves its loop in this thread, where no other could start
        yield opened, loop
        asyncio._set_running_loop(loop)
        opened.close()


@pytest.fixture
def browser(chromium: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """Chromium for one test, whose pages are closed after it; skips where there is none, but never in CI."""
    opened, loop = chromium
    asyncio._set_running_loop(loop)
    yield opened
    for context in opened.contexts:
        context.close()
    asyncio._set_running_loop(None)


@pytest.fixture
def pictures() -> Callable[[Page, str], None]:
    """Keeps a picture of a page, for a person to look at, where GOLDLESS_SCREENSHOTS names a folder."""
    folder = os.environ.get("GOLDLESS_SCREENSHOTS")

    def keep(page: Page, name: str) -> None:
        if folder:
            page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    return keep


# --- toy models and studies --------------------------------------------------------------------------------------

KNOWN_NATS, NEW_NATS = math.log(1 / 2), math.log(1 / 8)


def overlap(context: str, target: str) -> list[float]:
    """One value a word: 1/2 where the context has the word, else 1/8. So a known word tells ln 4 nats."""
    known = set(re.findall(r"\w+", context))
    return [KNOWN_NATS if word in known else NEW_NATS for word in re.findall(r"\w+", target)]


@pytest.fixture(scope="session")
def toy_scorer() -> Callable[..., ScriptedModel]:
    """Makes a scorer of the words that two texts share; ``broken`` gives a failure instead of an answer."""

    def make(broken: Callable[[str, str], object] = lambda _c, _t: None, **options) -> ScriptedModel:
        return ScriptedModel(logprobs=lambda c, t: broken(c, t) or overlap(c, t), **{"name": "toy", **options})

    return make


Texts = Mapping[str, Mapping[str, str]]

THREE_AGENTS: Texts = {
    "t1": {"ann": "zarn bluk mipo tolu", "bob": "zarn bluk mipo", "cy": "quex"},
    "t2": {"ann": "vond rask", "bob": "rask vond ebbo", "cy": "quex"},
    "t3": {"ann": "lirp", "bob": "lirp hoft", "cy": "hoft quex"},
}
"""Invented words, none of which stands in a prompt template."""


@pytest.fixture
def three_agents() -> Texts:
    return THREE_AGENTS


@pytest.fixture
def study_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a study as one JSON-lines file."""

    def make(texts: Texts = THREE_AGENTS, name: str = "answers.jsonl") -> Path:
        return write_rows(tmp_path / name, response_rows(texts))

    return make


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes these the entry points of what is installed."""

    def install(*entries: EntryPoint) -> None:
        found = lambda *, group: [one for one in entries if one.group == group]  # noqa: E731
        monkeypatch.setattr("importlib.metadata.entry_points", found)
        plugins_module.plugins.cache_clear()

    yield install
    plugins_module.plugins.cache_clear()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


# --- the command line --------------------------------------------------------------------------------------------


@pytest.fixture
def goldless(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs the command line in this process, as ``goldless ARGUMENTS`` does."""

    monkeypatch.setattr("goldless.cli.console.FIRST_LINE_SECONDS", 3600.0)  # no line more on a busy machine

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = exit_code(*arguments)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def script_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a script for ``scripted:FILE``."""

    def make(rows: Sequence[Mapping[str, object]], name: str = "script.jsonl") -> Path:
        return write_rows(tmp_path / name, rows)

    return make
