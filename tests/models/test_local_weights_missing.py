"""Without torch and transformers, Hugging Face models can be named but not loaded, and the message says why."""

from __future__ import annotations

import re
import sys

import pytest

from goldless.errors import CapabilityError, PrerequisiteError
from goldless.models.local_weights import HfModel


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize("missing", ["torch", "transformers"])
async def test_without_the_extra_the_message_gives_the_command(missing: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'goldless\[transformers\]'"):
        await HfModel("owner/model").prepare()


@pytest.mark.transformers
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("package", "old", "needed"), [("torch", "2.4.1+cpu", "2.5"), ("transformers", "4.56.0", "4.57")]
)
async def test_a_release_that_is_too_old_is_named(package: str, old: str, needed: str, monkeypatch: pytest.MonkeyPatch):
    module = pytest.importorskip(package, reason="needs the transformers extra")
    monkeypatch.setattr(module, "__version__", old)
    with pytest.raises(PrerequisiteError, match=rf"need {package} {needed} or newer, got {re.escape(old)}"):
        await HfModel("owner/model").prepare()


def test_nothing_is_known_before_the_model_is_loaded():
    with pytest.raises(CapabilityError, match=r"prepare\(\)"):
        _ = HfModel("owner/model").identity
