"""A server as a process of its own: started, waited for, and ended by its id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

MODEL = "smol"
"""The name under which every server has the embedded model's weights."""
LITELLM_KEY = "GOLDLESS_TEST_LITELLM_KEY"
"""The variable that has the key of the LiteLLM proxy."""
READY_SECONDS = 900
"""vLLM starts in about a minute on two free cores; on busy ones five minutes were seen."""
END_SECONDS = 20


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server process with all its children; a context manager that waits until it answers."""

    def __init__(
        self,
        command: Sequence[object],
        log: Path,
        *,
        port: int,
        environment: Mapping[str, str] | None = None,
        ready: str = "/v1/models",
    ) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self._command = [str(part) for part in command]
        self._environment = {**os.environ, **(environment or {})}
        self._log = log
        self._ready = f"http://127.0.0.1:{port}{ready}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the process without waiting for it."""
        with self._log.open("ab") as log:
            # a session of its own: the children end with it, and nothing else does
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )
        return self

    def wait(self) -> Self:
        """Wait until the server answers."""
        end = time.monotonic() + READY_SECONDS
        while not self._answers():
            if self._process is None or self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{' '.join(self._command)} did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.5)
        return self

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the process and its children."""
        process, self._process = self._process, None
        if process is None:
            return
        for sign in (how, signal.SIGKILL):
            try:
                os.killpg(process.pid, sign)
                process.wait(END_SECONDS)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue

    def __enter__(self) -> Self:
        try:
            return self.start().wait()
        except BaseException:
            self.end(signal.SIGKILL)
            raise

    def __exit__(self, *_: object) -> None:
        self.end()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self._ready, timeout=5) as reply:
                return reply.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def metric(self, name: str) -> float:
        """The sum of a counter on the server's metrics page, over its labels."""
        with urllib.request.urlopen(self.url.removesuffix("/v1") + "/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))
