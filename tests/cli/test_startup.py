"""The command line is light to start: versions and helps load no library that only a verb's work needs.

Engines, HTTP client and price table are loaded when a model is opened, not when its name is known.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from goldless.cli.main import HOMES

pytestmark = pytest.mark.slow

HEAVY = (
    *("polars", "numpy", "scipy", "pyarrow", "onnxruntime", "onnx", "aiohttp", "nltk", "narwhals", "sacrebleu"),
    *("rouge_score", "tokenizers", "jinja2", "genai_prices", "gguf", "evalica", "torch", "transformers", "pandas"),
)
WATCHED = """
import sys
from goldless.cli import main
sys.argv = ["goldless", *{arguments!r}]
try:
    main()
except SystemExit as end:
    code = end.code
loaded = [name for name in {heavy!r} if name in sys.modules]
print(code or 0, loaded, file=sys.stderr)
"""


def loaded_by(*arguments: str, heavy: tuple[str, ...] = HEAVY) -> str:
    script = WATCHED.format(arguments=arguments, heavy=heavy)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return done.stderr.splitlines()[-1]


def test_the_version_loads_no_heavy_library_not_even_what_helps_are_drawn_with():
    assert loaded_by("--version", heavy=(*HEAVY, "rich", "pydantic", "anyio")) == "0 []"


def test_the_help_loads_no_heavy_library_though_it_names_every_verb():
    assert loaded_by("--help") == "0 []"


@pytest.mark.parametrize(
    "verb",
    [
        *("score", "study check"),
        *(pytest.param(verb, marks=pytest.mark.nightly) for verb in ("review", "finetune", "gre collect")),
    ],
)
def test_the_help_of_a_verb_loads_no_heavy_library_and_asks_no_package_what_it_adds(verb):
    assert loaded_by(*verb.split(), "--help", heavy=(*HEAVY, "importlib.metadata", "pydantic")) == "0 []"


def test_a_library_that_is_loaded_would_be_seen(tmp_path):
    assert "'polars'" in loaded_by("study", "check", str(tmp_path / "none.csv"))


def test_a_verb_that_is_named_loads_no_other_verb():
    script = (
        "import sys; from goldless.cli import main; sys.argv = ['goldless', 'journal', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n"
        "    print([name for name in sys.modules if name.startswith('goldless.cli.')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert [name for name in HOMES if f"'goldless.cli.{name}'" in done.stderr] == ["journal"]


def loaded_after(script: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=120)
    return set(done.stdout.split())


BEFORE = """
import goldless.runs.pipeline, goldless.api
import goldless.models.canaries, goldless.models.embedded, goldless.metrics.sentence_embedding
import goldless.models.journalled, goldless.models.usage, goldless.models.local_weights
from goldless.models.catalogue import forms, is_local, open_model
forms(), is_local("openai:m")
import sys; print(*sys.modules)
"""


def test_no_engine_or_client_is_imported_before_a_model_is_opened():
    engines = {"aiohttp", "genai_prices", "gguf", "onnx", "onnxruntime", "ray", "tokenizers", "torch", "transformers"}
    assert not engines & loaded_after(BEFORE)


@pytest.mark.parametrize(("spec", "other"), [("http://127.0.0.1:9/v1#m", "onnxruntime"), ("gguf:/no.gguf", "aiohttp")])
def test_a_server_needs_no_engine_and_an_engine_no_http_client(spec, other):
    opening = f"from goldless.models.catalogue import open_model; open_model({spec!r})"
    assert other not in loaded_after(f"{opening}\nimport sys; print(*sys.modules)")
