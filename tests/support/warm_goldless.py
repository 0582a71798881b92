"""The command ``goldless`` for shells, forked from a process that has imported what commands need: each begins at once.

The program stands alone: it is run as the server of such commands, and as each command's client.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PRELOADED = (
    *("audit.texts", "cli.main", "cli.production", "cli.score", "cli.trust", "comparison.comparing"),
    *("meta_evaluation.agreement", "meta_evaluation.crash_test", "metrics.catalogue", "models.http_api.model"),
    *("reports.html.page", "runs.replay", "runs.store"),
)
LENGTH_BYTES = 4
STREAMS = (0, 1, 2)


@contextlib.contextmanager
def warm_goldless(folder: Path) -> Iterator[Path]:
    """Serve commands during the block; gives a folder for PATH, in which ``goldless`` is one of them."""
    address = folder / "commands.socket"
    client = folder / "bin" / "goldless"
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{__file__}" client "{address}" "$@"\n')
    client.chmod(0o755)
    command = [sys.executable, "-P", __file__, "server", str(address)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield client.parent  # the server ends with its standard input


def run_client(address: str, arguments: list[str]) -> int:
    """Have the server run a command on the streams of this process; its exit code."""
    command = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),  # noqa: PTH109 - pathlib takes longer to import than all else
        "group": os.getpgrp(),
    }
    message = json.dumps(command).encode()
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(address)
        socket.send_fds(channel, [len(message).to_bytes(LENGTH_BYTES, "big")], STREAMS)
        channel.sendall(message)
        code = channel.makefile("rb").read()  # until the process has ended
    return int(code or 1)


def serve(address: str) -> None:
    """Fork a process per command until standard input is closed."""
    import importlib  # noqa: PLC0415 - no client needs it
    import select  # noqa: PLC0415

    for name in PRELOADED:
        importlib.import_module(f"goldless.{name}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        os.write(sys.stdout.fileno(), b"ready\n")
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            channel = listener.accept()[0]
            if os.fork() == 0:
                listener.close()
                run_command(channel)
            channel.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def run_command(channel: socket.socket) -> None:
    """Run the command that a client sends, as ``goldless ARGUMENTS`` does, and end this process with its exit code."""
    from goldless.cli.main import main  # noqa: PLC0415 - imported before

    length, streams, _, _ = socket.recv_fds(channel, LENGTH_BYTES, len(STREAMS))
    command = json.loads(channel.makefile("rb").read(int.from_bytes(length, "big")))
    for stream, duplicate in zip(STREAMS, streams, strict=True):
        os.dup2(duplicate, stream)
        os.close(duplicate)
    os.setpgid(0, command["group"])  # it ends with its shell
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["folder"])
    sys.argv = ["goldless", *command["arguments"]]
    code: object = 1
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
        raise
    finally:
        channel.sendall(str(code).encode())


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(sys.argv[2])
    else:
        sys.exit(run_client(sys.argv[2], sys.argv[3:]))
