"""Real servers with the embedded model's weights, started for these tests only: ``make test-servers``."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from goldless.studies.reading import sample_study
from tests.real_servers import environments
from tests.real_servers.running import LITELLM_KEY, MODEL, Server, free_port

collect_ignore_glob = [] if os.environ.get("GOLDLESS_REAL_SERVERS") else ["test_*.py"]
"""They install gigabytes and start servers, so they run only where that is asked for."""

WEIGHTS_SECONDS = 1200


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:  # all that pytest found, not only those of this folder
        if here in item.path.parents:
            item.add_marker(pytest.mark.embedded)
            item.add_marker(pytest.mark.timeout(3000))


def pytest_terminal_summary(terminalreporter):
    """What was measured, below the results."""
    for report in terminalreporter.getreports("passed"):
        if report.when == "call" and Path(__file__).parent.name in report.nodeid:
            for name, value in report.user_properties:
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {name}: {value}")


@pytest.fixture(scope="session")
def logs(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def weights(embedded_file: Path) -> Path:
    """The embedded model's weights as float32 safetensors."""
    folder = environments.FOLDER / "weights"
    if not (folder / "config.json").exists():
        script = Path(__file__).with_name("weights.py")
        command = [environments.vllm(), script, embedded_file, folder]
        subprocess.run(command, check=True, capture_output=True, timeout=WEIGHTS_SECONDS, cwd=environments.FOLDER)
    return folder


@pytest.fixture(scope="session")
def new_vllm(weights: Path, logs: Path) -> Callable[..., Server]:
    """Makes a vLLM that is not started yet."""

    def make(dtype: str = "float32", port: int | None = None) -> Server:
        port = port or free_port()
        program = environments.vllm().with_name("vllm")
        command = [program, "serve", weights, "--served-model-name", MODEL, "--dtype", dtype, "--enforce-eager"]
        place = ["--host", "127.0.0.1", "--port", port, "--max-model-len", 4096]
        environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
        emptied = {"VLLM_SERVER_DEV_MODE": "1"}  # its prefix cache can be emptied over HTTP
        return Server([*command, *place], logs / f"vllm-{port}.log", port=port, environment=environment | emptied)

    return make


@pytest.fixture(scope="session")
def vllm(new_vllm: Callable[..., Server]) -> Iterator[Server]:
    """A vLLM; GOLDLESS_VLLM_PORT uses one that runs already, with the same weights, name and development mode."""
    if port := os.environ.get("GOLDLESS_VLLM_PORT"):
        yield new_vllm(port=int(port))
        return
    with new_vllm() as server:
        yield server


@pytest.fixture(scope="session")
def new_litellm(logs: Path) -> Iterator[Callable[..., Server]]:
    """Makes a LiteLLM proxy before one or more servers, not started yet.

    It refuses to start without a key, which clients find in LITELLM_KEY. As ``hosted_vllm/`` it refuses token ids.
    """
    key = f"sk-{secrets.token_hex(32)}"

    def make(*servers: Server) -> Server:
        port = free_port()
        settings = logs / f"litellm-{port}.yaml"
        rows = (
            f"  - model_name: {MODEL}\n    litellm_params:\n      model: text-completion-openai/{MODEL}\n"
            f"      api_base: {server.url}\n      api_key: none\n"
            for server in servers
        )
        routing = "router_settings:\n  num_retries: 3\n  allowed_fails: 1\n"
        settings.write_text(f"model_list:\n{''.join(rows)}{routing}")
        program = environments.litellm().with_name("litellm")
        command = [program, "--config", settings, "--host", "127.0.0.1", "--port", port]
        place = {"port": port, "ready": "/health/liveliness", "environment": {"LITELLM_MASTER_KEY": key}}
        return Server(command, logs / f"litellm-{port}.log", **place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LITELLM_KEY, key)
        yield make


@pytest.fixture(scope="session")
def litellm(vllm: Server, new_litellm: Callable[..., Server]) -> Iterator[Server]:
    """A LiteLLM proxy before the vLLM."""
    with new_litellm(vllm) as server:
        yield server


LLAMA_SERVER = """
import sys, time, xllamacpp
given = xllamacpp.CommonParams()
given.model.path, given.port, given.n_ctx = sys.argv[1], int(sys.argv[2]), 4096  # on this machine only, by default
server = xllamacpp.Server(given)
while True:
    time.sleep(60)
"""


@pytest.fixture(scope="session")
def llama_server(embedded_file: Path, logs: Path) -> Iterator[Server]:
    """llama.cpp's own server with the embedded model's file."""
    port = free_port()
    command = [environments.llama_server(), "-c", LLAMA_SERVER, embedded_file, port]
    with Server(command, logs / "llama.log", port=port) as server:
        yield server


@pytest.fixture(scope="session")
def transformers_serve(weights: Path, logs: Path) -> Iterator[Server]:
    """``transformers serve``, whose models are named by their folder."""
    port = free_port()
    program = environments.vllm().with_name("transformers")
    command = [program, "serve", weights, "--host", "127.0.0.1", "--port", port, "--dtype", "float32"]
    environment = {"HF_HUB_OFFLINE": "1"}
    with Server(command, logs / "transformers.log", port=port, ready="/health", environment=environment) as server:
        yield server


@pytest.fixture(scope="session")
def small_study(tmp_path_factory) -> Path:
    """Three tasks and three agents of the sample study."""
    sample = sample_study()
    tasks, responses = (pl.read_ndjson(sample / f"{name}.jsonl") for name in ("tasks", "responses"))
    some = tasks["task"].unique(maintain_order=True)[:3]
    agents = responses["agent"].unique(maintain_order=True)[:3]
    folder = tmp_path_factory.mktemp("study")
    tasks.filter(pl.col("task").is_in(some.implode())).write_ndjson(folder / "tasks.jsonl")
    kept = responses.filter(pl.col("task").is_in(some.implode()) & pl.col("agent").is_in(agents.implode()))
    kept.write_ndjson(folder / "responses.jsonl")
    return folder
