"""The words that the Tab key offers for values of options and arguments; typer's own scripts ask for them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

LISTED = {"templates", "template", "critic_prompt", "scale", "debate", "exams", "perturbations", "strategies"}
"""Options whose help lists their words."""
STUDY_FILES = (".csv", ".jsonl", ".parquet", ".json", ".tsv")
RUN_FILE = "made_by.json"
Offers = Iterable[tuple[str, str]]
"""Words, each with what it is."""


def completer(name: str, metavar: str, said: str, choices: Sequence[str]) -> Callable[[str], Offers] | None:
    """The function that completes a value; None: nothing is known."""
    if choices:
        return lambda incomplete: ((word, "") for word in choices if word.startswith(incomplete))
    if any(word in metavar for word in ("STUDY", "RUN", "FILES")):
        return lambda incomplete: _paths(incomplete, studies="STUDY" in metavar or "FILES" in metavar)
    offers: Callable[[], Offers] | None = None
    if name in {"metrics", "metric"}:
        offers = _metrics
    elif "MODEL" in metavar or name == "base":
        offers = _models
    elif name in LISTED:
        listed = said.partition(": ")[2].partition(".")[0].partition(", each")[0]
        offers = lambda: [(word, "") for word in re.findall(r"[\w-]+", listed)]  # noqa: E731 - as those above
    return None if offers is None else _after_commas(offers)


def _after_commas(offers: Callable[[], Offers]) -> Callable[[str], Offers]:
    """Complete the last of several words; those before it are kept."""

    def complete(incomplete: str) -> Offers:
        kept, comma, _ = incomplete.rpartition(",")
        return ((f"{kept}{comma}{word}", said) for word, said in offers())

    return complete


def _metrics() -> Iterator[tuple[str, str]]:
    from goldless.metrics.catalogue import BASELINES, CATALOGUE, METRICS
    from goldless.user_metrics import USER_METRICS

    for name, said in (*METRICS.items(), *USER_METRICS.items()):
        yield re.sub(r"([\[:])[A-Z].*", r"\1", name), said
    for name in (*BASELINES, *(plugin.name for plugin in CATALOGUE.plugins() if plugin.failure is None)):
        if name not in METRICS:
            yield name, ""


def _models() -> Iterator[tuple[str, str]]:
    from goldless.models.catalogue import PROVIDERS

    for prefix, provider in PROVIDERS.all().items():
        said = provider.forms[0].purpose if provider.forms else ""
        yield (prefix if provider.bare else f"{prefix}:{'//' * prefix.startswith('http')}"), said


def _paths(incomplete: str, *, studies: bool) -> Iterator[tuple[str, str]]:
    """Run folders, other folders, and files of studies where these are wanted."""
    if studies:
        yield "sample", "The sample study"
    begin, name = os.path.split(incomplete)
    folder = Path(begin or ".").expanduser()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        word = os.path.join(begin, path.name)  # noqa: PTH118 - as it was typed, ~ and ./ too
        if path.name.startswith(".") and not name:
            continue
        if path.is_dir():
            yield (word, "Run folder") if (path / RUN_FILE).exists() else (f"{word}/", "")
        elif studies and path.suffix in STUDY_FILES:
            yield word, "File"
