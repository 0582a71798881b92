"""Pre-registration: a hash of what an edition's numbers will depend on, to be published before there are any reviews.

``preregistration.json`` has the parts in plain text and a hash of each; second versions of papers, which nobody is to
know, only as a hash. Runs say whether the edition is still the registered one, and which parts have changed if not.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from goldless import __version__
from goldless.apps.gre.edition import INJECTED, Edition, marked_papers, noted_draw, write_rows
from goldless.apps.gre.papers import draw_rank, is_person
from goldless.apps.gre.review_form import PROMPT_NAME, REVIEW_PROMPT
from goldless.errors import UserError
from goldless.files import write_json, write_whole
from goldless.models.interface import content_hash
from goldless.reports.document import Unreadable, read_document, written_property
from goldless.studies import Study
from goldless.templates import SYNOPSIS_PROMPTS, find_template

FILE = "preregistration.json"
PAPERS = "papers.jsonl"
"""The file that a reviewer is given: names and texts of all papers, second versions among them."""
STATISTICS = frozenset({"level", "seed", "resamples"})
PREPROCESSING = frozenset({"rewriter", "rewrite_max_tokens", "synopsis_writer"})


@dataclass(frozen=True)
class Registered:
    """An edition's pre-registration, and whether the edition is still the registered one."""

    hash: str
    date: str
    reviews_before: int
    """Reviews by models that were there when it was registered."""
    changed: tuple[str, ...] = ()
    """Parts that are not as registered."""

    @written_property
    def matches(self) -> bool:
        return not self.changed

    @property
    def sentence(self) -> str:
        name = f"preregistered {self.date[:10]} as {self.hash[:16]}"
        late = f"; {self.reviews_before} reviews by models were there before" if self.reviews_before else ""
        if self.matches:
            return f"{name}: unchanged{late}"
        return f"{name}, but changed since: {', '.join(self.changed)}{late}"


def registered_parts(edition: Edition) -> dict[str, Any]:
    """The contents to register, by part, as plain data."""
    whole, config = edition.whole_study(), edition.config
    hidden, score = marked_papers(whole, INJECTED), asdict(config.score)
    own = [task for task in whole.tasks if task not in hidden]
    templates = {name: find_template(name) for name in config.score.template}
    return {
        "draw": {
            "settings": {name: value for name, value in (noted_draw(whole) or {}).items() if name != "injected"},
            "papers": [_paper(whole, task) for task in own],
        },
        "injected": content_hash([[*_paper(whole, task).values(), paper] for task, paper in hidden.items()]),
        "prompts": {
            "review": {"name": PROMPT_NAME, "text": REVIEW_PROMPT},
            "templates": {name: template.texts for name, template in templates.items()},
            "synopses": dict(SYNOPSIS_PROMPTS),
        },
        "reviewing": asdict(config.review),
        "preprocessing": {name: value for name, value in score.items() if name in PREPROCESSING},
        "scorer": {k: v for k, v in score.items() if k not in {"metrics", *PREPROCESSING, *STATISTICS}},
        "metrics": score["metrics"],
        "statistics": {name: value for name, value in score.items() if name in STATISTICS},
    }


def _paper(study: Study, task: str) -> dict[str, str]:
    paper = study.task(task)
    people = {response.agent: response.text for response in study.responses(task) if is_person(response.agent)}
    return {
        "paper": task,
        "text": content_hash(paper.prompt, dict(paper.synopses)),
        "human_reviews": content_hash(people),
    }


def preregister(edition: Edition) -> Registered:
    """Write ``preregistration.json`` and ``papers.jsonl`` into the edition's folder.

    Registering again changes nothing if the edition is as registered, and is refused otherwise.
    """
    whole, earlier = edition.whole_study(), check_registration(edition)
    if earlier is not None and not earlier.matches:
        raise UserError(
            f"{edition.folder / FILE}: {earlier.sentence}. Restore what changed. To register anew, delete this file; "
            "whoever knows the published hash will see that it is another registration"
        )
    # in an order that does not tell which are second versions
    seed = 0 if edition.config.collect is None else edition.config.collect.seed
    rows = []
    for task in sorted(whole.tasks, key=lambda task: draw_rank(seed, PAPERS, task)):
        paper = whole.task(task)
        known = {"title": paper.extra.get("title"), "abstract": paper.synopses.get("abstract")}
        rows.append({"paper": task, **known, "text": paper.prompt})
    write_whole(edition.folder / PAPERS, lambda aside: write_rows(aside, rows))
    if earlier is not None:
        return earlier
    parts = registered_parts(edition)
    hashes = _hashes(parts)
    registered = Registered(
        hash=content_hash(hashes),
        date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        reviews_before=sum(not is_person(response.agent) for _, responses in whole for response in responses),
    )
    context = {"edition": edition.name, "goldless": __version__, "hashes": hashes, "parts": parts}
    write_json(edition.folder / FILE, asdict(registered) | context)
    return registered


def _hashes(parts: Mapping[str, Any]) -> dict[str, str]:
    return {name: content_hash(part) for name, part in parts.items()}


def check_registration(edition: Edition) -> Registered | None:
    """The registration held against the edition as it is now; None: it was not registered."""
    path = edition.folder / FILE
    noted, data = read_document(path, Registered), read_document(path, dict)
    if noted is None:
        return None
    hashes, parts = (data.get(name) if isinstance(data, dict) else None for name in ("hashes", "parts"))
    if isinstance(noted, Unreadable) or not isinstance(hashes, dict) or not isinstance(parts, dict):
        raise UserError(f"{path}: not a pre-registration. Restore the file that was published")
    now = _hashes(registered_parts(edition))
    changed = [name for name in dict.fromkeys([*hashes, *now]) if hashes.get(name) != now.get(name)]
    if _hashes(parts) != hashes or content_hash(hashes) != noted.hash:
        changed.append(f"{FILE} itself")
    return replace(noted, changed=tuple(changed))
