"""The ``goldless`` command without the seconds that a new process takes to import everything.

A process that has imported it forks a child per command. The command on the path hands its arguments, folder,
environment and open files over a socket, waits, and ends as the child ended. As a script this file is that process.
"""

from __future__ import annotations

import contextlib
import importlib
import marshal
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

IMPORTED = (
    *("goldless.cli.journal", "goldless.cli.trust"),
    *("goldless.cli.production", "goldless.cli.score", "goldless.cli.study"),
    *("goldless.comparison.gating", "goldless.meta_evaluation.agreement", "goldless.meta_evaluation.cost"),
    *("goldless.meta_evaluation.crash_test", "goldless.metrics.catalogue", "goldless.models.gguf"),
    *("goldless.models.tokens", "goldless.models.http_api.model", "goldless.reports.html.page"),
    *("goldless.runs.estimate", "goldless.runs.pipeline", "goldless.runs.store", "goldless.user_metrics"),
    *("genai_prices", "rich.console", "rich.table"),
)
"""What most commands import. The rest is for the child that needs it, above all onnxruntime: a process forked from
one that has imported it never ends.
"""
COMMAND = """#!{python} -IS
import marshal, os, socket, sys

given = marshal.dumps((sys.argv, os.getcwd(), dict(os.environ), os.getpgid(0)))
with socket.socket(socket.AF_UNIX) as warm:
    warm.connect({address!r})
    socket.send_fds(warm, [given[:1]], [0, 1, 2])
    warm.sendall(given[1:])
    warm.shutdown(socket.SHUT_WR)
    code = int(warm.recv(8))
sys.exit(code if code >= 0 else 128 - code)
"""


@contextlib.contextmanager
def warm_command() -> Iterator[Path]:
    """A folder for the path, in which ``goldless`` is."""
    # its own folder: the address of a socket may have about a hundred characters
    with tempfile.TemporaryDirectory(prefix="goldless-") as folder, socket.socket(socket.AF_UNIX) as listener:
        address = Path(folder, "socket")
        listener.bind(str(address))
        listener.listen()
        command = Path(folder, "goldless")
        command.write_text(COMMAND.format(python=sys.executable, address=str(address)))
        command.chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        )
        try:
            yield command.parent
        finally:
            process.communicate()


def _serve(listener: socket.socket) -> None:
    """Fork for every command, until standard input is closed."""
    for name in IMPORTED:
        importlib.import_module(name)
    importlib.import_module("py3langid").classify("Its model takes most of a second to unpack.")
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        with contextlib.suppress(ChildProcessError):  # there is none
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if sys.stdin in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            os._exit(_answer(connection))  # to clear up so many modules takes longer than most commands
        connection.close()


def _answer(connection: socket.socket) -> int:
    """Run the command that is asked for in a child and say how it ended; in the child, how it is to end."""
    given, files, _, _ = socket.recv_fds(connection, 1, 3)
    while read := connection.recv(1 << 16):
        given += read
    child = os.fork()
    if child == 0:
        connection.close()
        return _run(files, *marshal.loads(given))
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):  # a page that took too long was killed
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    return 0


def _run(files: list[int], arguments: list[str], folder: str, environment: dict[str, str], group: int) -> int:
    from goldless.cli.main import main  # noqa: PLC0415 - imported before, in the parent

    os.setpgid(0, group)  # it is killed with the page
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115 - for as long as it runs
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
