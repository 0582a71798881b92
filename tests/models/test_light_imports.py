"""Engines, HTTP client and price table are loaded when a model is opened, not when its name is known."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

HEAVY = {"aiohttp", "genai_prices", "gguf", "onnx", "onnxruntime", "ray", "tokenizers", "torch", "transformers"}
BEFORE = """
import goldless.runs.pipeline, goldless.api
import goldless.models.canaries, goldless.models.embedded, goldless.metrics.sentence_embedding
import goldless.models.journalled, goldless.models.usage, goldless.models.local_weights
from goldless.models.catalogue import forms, is_server, open_model
forms(), is_server("openai:m")
import sys; print(*sys.modules)
"""


def test_nothing_heavy_is_imported_before_a_model_is_opened():
    done = subprocess.run([sys.executable, "-c", BEFORE], check=True, capture_output=True, text=True)
    assert not HEAVY & set(done.stdout.split())


def test_a_server_needs_no_engine_and_an_engine_no_http_client():
    opened = "from goldless.models.catalogue import open_model; open_model({!r})\nimport sys; print(*sys.modules)"
    loaded = {
        spec: set(
            subprocess.run(
                [sys.executable, "-c", opened.format(spec)], check=True, capture_output=True, text=True
            ).stdout.split()
        )
        for spec in ("http://127.0.0.1:9/v1#m", "gguf:/nowhere.gguf")
    }
    assert "onnxruntime" not in loaded["http://127.0.0.1:9/v1#m"]
    assert "aiohttp" not in loaded["gguf:/nowhere.gguf"]
