"""What tests of fine-tuning share: one base model for all of them, and a short wording."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model."""
    pytest.importorskip("transformers", reason="needs the transformers extra: pip install 'goldless[transformers]'")
    from tests.support.tiny_base import save_base  # noqa: PLC0415 - it imports torch

    return save_base(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture
def template_file(tmp_path: Path) -> Path:
    """A wording of few characters."""
    from tests.support.tiny_base import TEMPLATE  # noqa: PLC0415

    path = tmp_path / "short.toml"
    path.write_text(TEMPLATE, encoding="utf-8")
    return path
