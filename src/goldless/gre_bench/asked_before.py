"""Reviews that were asked for before: which of them need not be asked for again, and which would be replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldless.evidence import OPEN_KINDS, GenerationEvidence
from goldless.gre_bench.adding import GENERATIONS, Pairs
from goldless.gre_bench.generated_reviews import NOTHING_WRITTEN, GeneratedReview, generated_review
from goldless.models.catalogue import is_server
from goldless.models.interface import content_hash
from goldless.records import CallFailure
from goldless.studies import Study

ONLY_FITTING = ("truncate", "cut")
"""Settings that change no request whose paper fits, and no review that ends by itself."""


def way_of_asking(spec: str, settings: Mapping[str, str], context_length: int | None) -> str:
    """What tells one way of asking a model from others, before it is reached: ``REQUEST-FIT``.

    Hashes, since an address is nobody else's business. With the same ``REQUEST`` a paper that fits is asked about in
    the same words.
    """
    request = {name: value for name, value in settings.items() if name not in ONLY_FITTING}
    fit = {name: settings[name] for name in ONLY_FITTING}
    return f"{content_hash(spec, request)[:16]}-{content_hash(fit, context_length)[:8]}"


def asked_about(way: str, paper: str | None) -> str:
    """In which way a model was asked about a paper: ``REQUEST-FIT-PAPER``."""
    return f"{way}-{content_hash(paper)[:8]}"


def settled_reviews(study: Study, ways: Mapping[str, str]) -> dict[str, dict[str, GeneratedReview]]:
    """What the study has of these agents, asked in these ways, by agent and paper; open calls are not settled."""
    found: dict[str, dict[str, GeneratedReview]] = {agent: {} for agent in ways}
    papers = set(study.tasks)
    for (task, agent), row in _rows(study).items():
        if agent not in ways or task not in papers or row["failure"] in OPEN_KINDS:
            continue
        if row.get("asked") == asked_about(ways[agent], study.task(task).prompt):
            found[agent][task] = _review(row)
    return found


def finished_models(
    study: Study, named: Mapping[str, Any], settled: Mapping[str, Mapping[str, GeneratedReview]]
) -> frozenset[str]:
    """Agents on servers with a review of every paper of the study.

    A model on this machine is never among them: its files may be others by now, which shows when they are read.
    """
    return frozenset(
        agent
        for agent, reviews in settled.items()
        if is_server(named[agent]) and all(task in reviews and reviews[task].text is not None for task in study.tasks)
    )


def replaced_reviews(study: Study, ways: Mapping[str, str]) -> Pairs:
    """Papers and agents whose reviews in the study came of other requests than these; where that is not noted, none."""
    rows = _rows(study)
    found = []
    for _, responses in study:
        for pair in [(response.task, response.agent) for response in responses if response.agent in ways]:
            asked = rows[pair].get("asked") if pair in rows else ""
            now = asked_about(ways[pair[1]], study.task(pair[0]).prompt)
            if asked is not None and _request(asked) != _request(now):
                found.append(pair)
    return frozenset(found)


def _request(asked: str) -> tuple[str, str]:
    """What was sent where a paper fits: the request, and the paper."""
    return asked.partition("-")[0], asked.rpartition("-")[2]


def _rows(study: Study) -> dict[tuple[str, str], dict[str, Any]]:
    table = study.table(GENERATIONS)
    return {} if table is None else {(row["task"], row["agent"]): row for row in table.iter_rows(named=True)}


def _review(row: Mapping[str, Any]) -> GeneratedReview:
    """The review that a row of the table ``generations`` tells of."""
    failure = None if row["failure"] is None else CallFailure(row["failure"], row["failure_message"])
    evidence = GenerationEvidence(
        writer=row["model"],
        task=row["task"],
        reply=row["raw"],
        failure=None if failure == NOTHING_WRITTEN else failure,
        finish=row["finish"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        characters_cut=row["characters_cut"],
    )
    return generated_review(row["agent"], evidence, row["settings"], asked=row["asked"])
