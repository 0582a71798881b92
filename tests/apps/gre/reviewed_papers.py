"""A small study of papers, scripted models that review them, and the fixtures that bring both together."""

from __future__ import annotations

import pytest

import goldless
from goldless.apps.gre.config import ModelConfig, ReviewConfig
from goldless.apps.gre.review_form import REVIEW_PROMPT
from goldless.apps.gre.reviewing import ReviewRequest, generate_reviews
from goldless.models.scripted import ScriptedModel
from goldless.runs.options import Options
from tests.support.study_files import study_folder

PAPERS = {"p1": "alpha beta gamma", "p2": "delta epsilon zeta eta"}
PEOPLE = {"human": "human", "reference1": "reference", "reference2": "reference"}
PROMPT_WORDS = len(REVIEW_PROMPT.split())
TAGGED = "<summary>{0}.</summary><strengths>S.</strengths><weaknesses>W.</weaknesses><questions>Q?</questions>"


def read_as_review(request) -> str:
    return TAGGED.format(request.messages[1].content)


def text_of(paper: str) -> str:
    return f"Summary:\n\n{PAPERS[paper]}.\n\nStrengths:\n\nS.\n\nWeaknesses:\n\nW.\n\nQuestions:\n\nQ?"


def scripted(name="m", answers=read_as_review, **options) -> ScriptedModel:
    return ScriptedModel(answers=answers, name=name, **options)


@pytest.fixture
def folder(tmp_path):
    """A study of two papers, as it is collected."""

    def make(papers=PAPERS, **tables):
        tables = {
            "tasks": [{"task": p, "prompt": text, "title": f"On {p}", "seen": "2023"} for p, text in papers.items()],
            "agents": [{"agent": agent, "group": group} for agent, group in PEOPLE.items()],
            "responses": [{"task": p, "agent": a, "text": f"{a} on {p}"} for p in papers for a in PEOPLE],
            "left_out": [{"paper": "p3", "reason": "few_reviews", "detail": "2 of 3"}],
            **tables,
        }  # fmt: skip
        return study_folder(tmp_path / "study", **tables)

    return make


def review_request(models, *, agents=None, context_length=None, options=None, **review) -> ReviewRequest:
    """A request of these models, named or given themselves, with what is known of each."""
    agents, lengths = agents or {}, context_length or {}
    stand_ins = {name: model for name, model in models.items() if not isinstance(model, str)}
    configs = {}
    for name, model in models.items():
        known = {fact: getattr(agents.get(name), fact, None) for fact in ("parameters", "family", "cutoff_date")}
        spec = model if isinstance(model, str) else "embedded"
        configs[name] = ModelConfig(model=spec, context_length=lengths.get(name), **known)
    return ReviewRequest(
        models=configs, stand_ins=stand_ins, review=ReviewConfig(**review), options=options or Options()
    )


@pytest.fixture
def generate(tmp_path):
    """Generates with one journal for the whole test."""

    async def run(folder, models, **options):
        asked = {name: options.pop(name) for name in ("budget_usd", "price", "progress", "say") if name in options}
        asking = Options.of(journal=tmp_path / "journal.sqlite", **asked)
        return await generate_reviews(goldless.read_study(folder), review_request(models, options=asking, **options))

    return run
