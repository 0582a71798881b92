"""The perturbations by name: built-in ones, and those of plugins (entry points ``goldless.perturbations``).

*Degradations* remove content: every second sentence, or the whole response for another text. *Manipulations* change
words, length or form without new content. *Strategies* are agents that answer every task in good faith or deliberately
badly, played by any chat model (TVD-MI, A.2): it takes notes on the task, then writes from the notes alone, so what the
notes leave out or change is lost.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from goldless.errors import UserError, check_known, nearest
from goldless.meta_evaluation.perturbations import changes
from goldless.meta_evaluation.perturbations.perturbation import (
    MOST_TOKENS,
    TEXTS,
    Apply,
    Change,
    Kind,
    Made,
    Perturbation,
    Setting,
    absent,
    of_response,
    of_text,
    rewritten,
    written,
)
from goldless.metrics.metric import Metric
from goldless.plugins import Catalogue
from goldless.records import CallFailure, Response

# --- degradations ----------------------------------------------------------------------------------------------------

BOILERPLATE = TEXTS["collusion"]["ours"]
"""A text that fits any task and says nothing about it."""


async def _complete(instruction: str, setting: Setting, response: Response) -> Made:
    """Every second sentence replaced by an empty one; a response without gaps stays."""
    gapped = changes.mark_every_second(response.text)
    if gapped == response.text:
        return gapped
    made = await written(setting.writer, instruction, gapped, what="completion")
    if isinstance(made, str) and changes.PLACEHOLDER in made:
        left = made.count(changes.PLACEHOLDER)
        return CallFailure("bad_reply", f"the writer left {left} gaps {changes.PLACEHOLDER!r}")
    return made


def constant(text: str) -> Apply:
    """The same text in place of every response."""
    return of_text(lambda _: text)


def other_tasks(tasks: Sequence[str], *, agent: str, seed: int = 0) -> dict[str, str]:
    """For each task that an agent answered, another one whose response replaces it: a derangement.

    Tasks form a circle in the order of a hash of seed, agent and name, and each takes the next one's response. So the
    draw does not depend on other agents in the study. A single task has no replacement.
    """

    def drawn(task: str) -> bytes:
        # lengths first, so that no two pairs of names give the same bytes
        parts = [str(seed).encode(), agent.encode(), task.encode()]
        return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()

    ring = sorted(set(tasks), key=drawn)
    return {} if len(ring) < 2 else dict(zip(ring, [*ring[1:], ring[0]], strict=True))


def _of_another_task(setting: Setting) -> Change:
    answered: dict[str, list[str]] = {response.agent: [] for response in setting.responses}
    for task, given in setting.study:
        for response in given:
            if response.agent in answered:
                answered[response.agent].append(task.task)
    others = {agent: other_tasks(tasks, agent=agent, seed=setting.seed) for agent, tasks in answered.items()}

    def other(response: Response) -> Made:
        task = others[response.agent].get(response.task)
        found = None if task is None else setting.study.response(task, response.agent)
        return absent(f"{response.agent} has no response to another task") if found is None else found.text

    return other


def _of_synopsis(words: str, column: str | None = None) -> Apply:
    """A response made of a synopsis, one a task whoever's place it takes; None: the column that the form names."""

    def apply(setting: Setting) -> Change:
        study, name = setting.study, column or (setting.form or "abstract").removeprefix("synopsis_")
        if name not in study.synopses:
            raise UserError(
                f"no task of {study.name} has a synopsis {name!r}, which synopsis-only needs. The study has: "
                f"{', '.join(study.synopses) or 'none'}. Add a column synopsis_{name} to its tasks table"
            )
        made: dict[str, Made] = {}
        under_way: dict[str, anyio.Lock] = {}

        async def write(response: Response) -> Made:
            task = response.task
            # agents of one task are asked for side by side: the second waits for what the first gets
            async with under_way.setdefault(task, anyio.Lock()):
                synopsis = study.task(task).synopses.get(name)
                if synopsis is None:
                    return absent(f"task {task} has no synopsis {name!r}", "no_synopsis")
                if task not in made:
                    said, what = TEXTS["synopsis-only"][words], "response to the synopsis"
                    made[task] = await written(setting.writer, said, synopsis, what=what, most_tokens=MOST_TOKENS)
            return made[task]

        return write

    return apply


def _rewriting(name: str, what: str, words: str = "ours", **how: str) -> Apply:
    return rewritten(TEXTS[name][words], what, **how)


GAPS = {words: of_response(partial(_complete, said)) for words, said in TEXTS["completion"].items()}
NULLS = {words: constant(said) for words, said in TEXTS["null"].items()}
DECEPTIVE = Perturbation(
    *("deceptive", "degradation", "this project", "rewritten by a writer to be fluent and wrong"),
    _rewriting("deceptive", "deceptive version"),
    needs_writer=True,
)
COLLUSION = Perturbation(
    *("collusion", "degradation", "this project", "the same empty text from all agents, on every task"),
    constant(BOILERPLATE),
    scope="everybody",
)
PROMPT_COPY = Perturbation(
    *("prompt-copy", "degradation", "this project", "the task's prompt, word for word"),
    of_response(lambda s, r: s.study.task(r.task).prompt or absent(f"task {r.task} has no prompt")),
)
DEGRADATIONS = (
    Perturbation(
        *("deletion", "degradation", "GEM D.1.1", "every second sentence deleted, headings kept"),
        of_text(changes.delete_every_second),
    ).with_form(
        *("paper", of_text(changes.delete_as_published), "GEM D.1.1, as its authors ran it"),
        "every second sentence deleted; every . ? ! and line break ends one",
    ),
    Perturbation(
        *("completion", "degradation", "GEM D.1.2, our wording"),
        "every second sentence deleted, the gaps filled by a writer without adding content",
        GAPS["ours"],
        needs_writer=True,
    ).with_form("peer-review", GAPS["peer-review"], "GEM D.1.2", "the same with the paper's prompt"),
    Perturbation(
        *("synopsis-only", "degradation", "GEM D.1.3, our wording"),
        "a response that a writer wrote from the abstract alone",
        _of_synopsis("ours"),
        needs_writer=True,
    )
    .with_form(
        *("peer-review", _of_synopsis("peer-review", "abstract"), "GEM D.1.3"),
        "a review written from the abstract alone, with the paper's prompt",
    )
    .with_form("COLUMN", _of_synopsis("ours"), None, "written from another synopsis of the task"),
    Perturbation(
        *("shuffled-task", "degradation", "GEM and TVD-MI, their shuffled pairs"),
        "the same agent's response to another task",
        _of_another_task,
    ),
    Perturbation(
        *("null", "degradation", "TVD-MI A.2, our wording", "a constant without information"),
        NULLS["ours"],
    )
    .with_form(
        *("peer-review", NULLS["peer-review"], "TVD-MI A.2, agent 6"),
        "the constant review of the paper",
    )
    .with_form("TEXT", of_response(lambda s, _: s.form or ""), "this project", "a custom constant text"),
)

# --- manipulations ---------------------------------------------------------------------------------------------------

PADDING, VERDICTS = TEXTS["padding"]["ours"], TEXTS["verdict-injection"]
LINE_TOKENS = 256
"""Room for a summary of one line."""
STRENGTHS = changes.heading_at_line_start(["Strength And Weaknesses"])
LANGUAGE = "German"


async def _with_summaries(setting: Setting, response: Response) -> Made:
    """The review with the paper's full text; without a section to summarise, no summary is requested."""
    lines = {}
    for points in ("strengths", "weaknesses") if STRENGTHS.search(response.text) else ():
        ask, what = TEXTS["elongation"]["two-points"].format(points=points), f"summary of the {points}"
        made = await written(setting.writer, ask, response.text, what=what, most_tokens=LINE_TOKENS)
        if isinstance(made, CallFailure):
            return made
        lines[points] = " ".join(made.split()).rstrip(".")
    return changes.elongate_review(response.text, **lines)


def _copy_peer(setting: Setting, response: Response) -> Made:
    there = {one.agent: one.text for one in setting.study.responses(response.task) if one.agent != response.agent}
    peers = [peer for peer in setting.peers.get((response.task, response.agent), ()) if peer in there]
    name = next(iter(peers or there), None)
    return absent(f"task {response.task} has no other response") if name is None else changes.swap_words(there[name])


def _of_everybody(name: str, description: str, apply: Apply) -> Perturbation:
    """A manipulation of all responses alike, which also comes as one of the candidate alone: ``NAME[candidate]``."""
    source, every = "the idea of the recorded attacks on TVD-MI", f"{description}; for all responses"
    found = Perturbation(name, "manipulation", source, every, apply, scope="everybody")
    return found.with_form("candidate", apply, None, f"{description}; for the candidate only", scope="candidate")


VERDICT_INJECTION = Perturbation(
    *("verdict-injection", "manipulation", "this project"),
    "followed by text that a judge might read as a verdict, in all forms",
    of_text(lambda text: "\n\n".join([text, *VERDICTS.values()])),
)
for _form in VERDICTS:
    _followed = of_text(partial("{1}\n\n{0}".format, VERDICTS[_form]))
    VERDICT_INJECTION = VERDICT_INJECTION.with_form(_form, _followed, None, "the same in one form")
MANIPULATIONS = (
    Perturbation(
        *("rephrase", "manipulation", "GEM D.2.1, our wording", "rewritten in other words by a writer"),
        _rewriting("rephrase", "rephrasing"),
        needs_writer=True,
    ).with_form(
        *("peer-review", _rewriting("rephrase", "rephrasing", "peer-review"), "GEM D.2.1"),
        "the same with the paper's prompt",
    ),
    Perturbation(
        *("elongation", "manipulation", "GEM D.2.2, our words", "filler before every section or paragraph"),
        of_text(changes.elongate),
    )
    .with_form(
        *("peer-review", of_text(changes.elongate_review), "GEM D.2.2, without the summaries"),
        "the paper's fixed sentences before each of the four sections of a review",
    )
    .with_form(
        *("peer-review-summaries", of_response(_with_summaries), "GEM D.2.2"),
        "the same with a writer's two one-line summaries",
        needs_writer=True,
    ),
    _of_everybody("case-flip", "upper and lower case swapped", of_text(changes.flip_case)),
    _of_everybody("format", "the same words as Markdown bullets, bold and headings", of_text(changes.reformat)),
    _of_everybody("padding", "the same filler at the end", of_text(lambda text: f"{text}\n\n{PADDING}")),
    _of_everybody(
        "pattern",
        "the same meaningless tag at both ends",
        of_response(lambda s, r: changes.add_tag(r.text, seed=s.seed)),
    ),
    Perturbation(
        *("repetition", "manipulation", "this project", "everything said twice"),
        of_text(lambda text: f"{text}\n\n{text}"),
    ),
    VERDICT_INJECTION,
    Perturbation(
        *("praise", "manipulation", "this project", "between generic praise"),
        of_text(lambda text: "\n\n".join([TEXTS["praise"]["before"], text, TEXTS["praise"]["after"]])),
    ),
)
NEAR_COPY = Perturbation(
    *("near-copy", "manipulation", "this project", "a peer's response with some neighboring words swapped"),
    of_response(_copy_peer),
    by_default=False,  # whatever rewards agreement with peers rewards a copy of one; the audit finds those
)
STYLE_OF_ALL = Perturbation(
    *("style-of-all", "manipulation", "this project"),
    "one house style for all agents: a tag, Markdown and the same closing words",
    of_response(lambda s, r: changes.add_tag(f"{changes.reformat(r.text)}\n\n{PADDING}", seed=s.seed)),
    scope="everybody",
)
TRANSLATION = Perturbation(
    *("translation", "manipulation", "this project", f"translated into {LANGUAGE} by a writer"),
    _rewriting("translation", "translation", language=LANGUAGE),
    needs_writer=True,
).with_form("LANGUAGE", _rewriting("translation", "translation"), None, "translated into another language")

# --- strategies ------------------------------------------------------------------------------------------------------

DESCRIPTIONS: Mapping[str, tuple[Kind, str]] = {
    "strategic-rewrite": ("problematic", "answers as if the task had been entirely different"),
    "related-shift": ("problematic", "answers with details that contradict the task"),
    "standard": ("good faith", "answers in full"),
    "brief": ("good faith", "answers in one paragraph"),
    "null": ("problematic", "gives the same response to every task"),
}
"""Agents 2 to 6 of the paper, in their order."""


async def _answer(said: Mapping[str, str], setting: Setting, asked: Response) -> Made:
    """An answer to a task from notes on its prompt, or on its abstract if it has no prompt."""
    task = setting.study.task(asked.task)
    made: Made | None = task.prompt or task.synopses.get("abstract")
    if made is None:
        return absent(f"task {task.task} has neither a prompt nor an abstract", "no_synopsis")
    for step in ("notes", "response"):
        if isinstance(made, str):
            made = await written(setting.writer, said[step], made, what=step, most_tokens=MOST_TOKENS)
    return made


STRATEGIES: Mapping[str, Perturbation] = {
    f"{name}{form}": Perturbation(
        *(f"{name}{form}", kind, source, description),
        of_response(partial(_answer, TEXTS["strategies"][name][words])) if name != "null" else NULLS[words],
        needs_writer=name != "null",
    )
    for name, (kind, description) in DESCRIPTIONS.items()
    for form, words, source in (("", "ours", "TVD-MI A.2, our wording"), ("[peer-review]", "peer-review", "TVD-MI A.2"))
}
"""Strategies by name; ``[peer-review]``: with the paper's prompts."""


def find_strategy(name: str) -> Perturbation:
    """The strategy with this name."""
    check_known([name], STRATEGIES, "unknown strategy", "Known")
    return STRATEGIES[name]


# --- all of them -----------------------------------------------------------------------------------------------------

OURS: tuple[Perturbation, ...] = (
    *(*DEGRADATIONS, *MANIPULATIONS),
    *(COLLUSION, PROMPT_COPY, DECEPTIVE, STYLE_OF_ALL, NEAR_COPY, TRANSLATION),
)
"""The built-in perturbations, in the order in which they are listed and applied."""
PERTURBATIONS: Mapping[str, str] = {form.name: form.description for each in OURS for form in (each, *each.forms)}
"""Names of the built-in perturbations, with descriptions."""
MODEL_FREE: tuple[str, ...] = tuple(each.name for each in OURS if each.by_default and not each.needs_writer)
"""Those of ours that need no model, each in its plain form: the default. ``near-copy`` has to be requested."""
MASTER_KEYS: tuple[str, ...] = tuple(f"null[{text}]" for text in TEXTS["master-keys"]["texts"])
"""Empty texts that are known to deceive judges: also applied by default where a metric is a model's verdict."""


def default_perturbations(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """Return the names of the perturbations that are applied to these metrics if none is named."""
    are_judged = any(metric.needs.judgements or metric.needs.verdicts for metric in metrics)
    return (*MODEL_FREE, *(MASTER_KEYS if are_judged else ()))


def _wrong(value: Any) -> str | None:
    """The fault in what a package registers as a perturbation; None: there is none."""
    if not isinstance(value, Perturbation):
        return f"a perturbation must be a Perturbation, got {type(value).__name__}"
    if set(value.name) & set("[],~") or not value.name.strip():
        return f"a perturbation's name must be a word without any of [ ] , ~, got {value.name!r}"
    return None


CATALOGUE: Catalogue[Perturbation] = Catalogue("goldless.perturbations", {each.name: each for each in OURS}, _wrong)
"""All perturbations."""


def find_perturbation(name: str) -> Perturbation:
    """The perturbation with this name, in the form given in brackets."""
    base, bracket, rest = name.partition("[")
    found = CATALOGUE.get(base)
    if found is None or bool(bracket) != rest.endswith("]"):
        forms = [form.name for each in CATALOGUE.all().values() for form in (each, *each.forms)]
        raise UserError(
            f"unknown perturbation {name!r}{nearest(name, forms) or '.'} "
            f"Known: {', '.join(form for form in forms if '[' not in form)}; "
            f"in other forms {', '.join(form for form in forms if '[' in form)}"
        )
    known = {form.name: form for form in (found, *found.forms)}
    if name in known:
        return known[name]
    if rest.removesuffix("]").strip():
        for form in found.forms:
            if form.name.removeprefix(base).isupper():  # a word in capitals stands for any
                return replace(form, name=name)
    raise UserError(f"unknown perturbation {name!r}{nearest(name, known) or '.'} Forms of {base}: {', '.join(known)}")


def split_names(given: Iterable[str]) -> tuple[str, ...]:
    """Comma-separated names, each once; commas within brackets do not separate."""
    names = (name.strip() for item in given for name in re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", item))
    return tuple(dict.fromkeys(name for name in names if name))
