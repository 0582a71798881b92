"""Degradations: changes that remove content, so that a sound metric falls.

Every second sentence is deleted, and gaps are optionally filled (GEM, D.1.1 and D.1.2); or another text replaces the
response: one written from a synopsis alone (D.1.3), the agent's response to another task, a constant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import anyio

from goldless.errors import UserError
from goldless.meta_evaluation.perturbations.headings import SECTIONS, Unit, section_names, split_units
from goldless.meta_evaluation.perturbations.perturbation import (
    MOST_TOKENS,
    TEXTS,
    Apply,
    Change,
    Made,
    Perturbation,
    Setting,
    absent,
    of_text,
    rewritten,
    written,
)
from goldless.records import CallFailure, Response
from goldless.sentences import LINE_END, LIST_MARK, split_sentences

PLACEHOLDER = "[There is one missing sentence]"
"""Marks a deleted sentence (GEM, D.1.2)."""
BOILERPLATE = TEXTS["collusion"]["ours"]
"""A text that fits any task and says nothing about it."""


def delete_every_second(text: str) -> str:
    """The text without every second sentence; lines, list marks and headings stay, and a heading restarts the count.

    A line that loses all of its sentences is removed. A Markdown code block counts as one sentence.
    """
    units = split_units(text)
    if not units:
        return text
    pieces, gap, mark = [text[: units[0].start]], "", ""
    starts = [*(unit.start for unit in units[1:]), len(text)]
    for (unit, kept), start in zip(_every_second(units), starts, strict=True):
        after = text[unit.end : start]
        if kept:
            pieces += [gap, mark, text[unit.start : unit.end]]
            gap = after
        else:
            gap = max(gap, after, key=_line_ends)
        # a list item whose first sentence went keeps its mark for what is left of it
        mark = "" if kept or _line_ends(after) else _list_mark(text, unit)
    # what follows the last sentence ends the text, whatever was deleted before it
    return "".join([*pieces, text[units[-1].end :]])


def mark_every_second(text: str) -> str:
    """The text with a placeholder for every sentence that deletion removes (D.1.2); list marks stay."""
    pieces, place = [], 0
    for unit, kept in _every_second(split_units(text)):
        if not kept:
            pieces += [text[place : unit.start], _list_mark(text, unit), PLACEHOLDER]
            place = unit.end
    return "".join([*pieces, text[place:]])


def delete_as_published(text: str, *, sections: Sequence[str] = SECTIONS) -> str:
    """The text after sentence deletion as the paper's authors implemented it.

    A sentence ends at any full stop, question mark, exclamation mark or newline; one that contains the name of a
    section, in any case, is a heading; what is kept is joined by a space, and an unterminated tail is dropped.
    """
    names = section_names(text, sections)
    kept, place = [], 0
    for sentence in split_sentences(text, mode="paper"):
        place = 0 if names.search(sentence.text) else place + 1
        if place % 2 or place == 0:
            kept.append(sentence)
    if kept and kept[-1].text[-1] not in ".?!" and "\n" not in text[kept[-1].end :]:
        kept.pop()
    return " ".join(sentence.text for sentence in kept)


def _every_second(units: Sequence[Unit]) -> list[tuple[Unit, bool]]:
    """Whether each stays: headings, and of the sentences of a section the first, third and so on."""
    found, place = [], 0
    for unit in units:
        place = 0 if unit.heading else place + 1
        found.append((unit, unit.heading or place % 2 == 1))
    return found


def _line_ends(gap: str) -> int:
    return sum(1 for _ in LINE_END.finditer(gap))


def _list_mark(text: str, unit: Unit) -> str:
    mark = LIST_MARK.match(text, unit.start, unit.end)
    return "" if mark is None else mark[0]


def _completing(instruction: str) -> Apply:
    """Every second sentence replaced by an empty one; a response without gaps stays."""

    def apply(setting: Setting) -> Change:
        async def complete(response: Response) -> Made:
            gapped = mark_every_second(response.text)
            if gapped == response.text:
                return gapped
            made = await written(setting.writer, instruction, gapped, what="completion")
            if isinstance(made, str) and PLACEHOLDER in made:
                return CallFailure("bad_reply", f"the writer left {made.count(PLACEHOLDER)} gaps {PLACEHOLDER!r}")
            return made

        return complete

    return apply


# --- another text in its place ---------------------------------------------------------------------------------------


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


def _of_synopsis(instruction: str, column: str | None = None) -> Apply:
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
                    what = "response to the synopsis"
                    made[task] = await written(
                        setting.writer, instruction, synopsis, what=what, most_tokens=MOST_TOKENS
                    )
            return made[task]

        return write

    return apply


def _copy_prompt(setting: Setting) -> Change:
    tasks = setting.study.task
    return lambda response: tasks(response.task).prompt or absent(f"task {response.task} has no prompt")


DELETION = Perturbation(
    *("deletion", "degradation", "GEM D.1.1", "every second sentence deleted, headings kept"),
    of_text(delete_every_second),
).with_form(
    "paper",
    of_text(delete_as_published),
    source="GEM D.1.1, as its authors ran it",
    description="every second sentence deleted; every . ? ! and line break ends one",
)
COMPLETION = Perturbation(
    *("completion", "degradation", "GEM D.1.2, our wording"),
    "every second sentence deleted, the gaps filled by a writer without adding content",
    _completing(TEXTS["completion"]["ours"]),
    needs_writer=True,
).with_form(
    "peer-review",
    _completing(TEXTS["completion"]["peer-review"]),
    source="GEM D.1.2",
    description="the same with the paper's prompt",
)
SYNOPSIS_ONLY = Perturbation(
    *("synopsis-only", "degradation", "GEM D.1.3, our wording"),
    "a response that a writer wrote from the abstract alone",
    _of_synopsis(TEXTS["synopsis-only"]["ours"]),
    needs_writer=True,
)
SYNOPSIS_ONLY = SYNOPSIS_ONLY.with_form(
    "peer-review",
    _of_synopsis(TEXTS["synopsis-only"]["peer-review"], "abstract"),
    source="GEM D.1.3",
    description="a review written from the abstract alone, with the paper's prompt",
).with_form("COLUMN", SYNOPSIS_ONLY.apply, description="written from another synopsis of the task")
SHUFFLED_TASK = Perturbation(
    *("shuffled-task", "degradation", "GEM and TVD-MI, their shuffled pairs"),
    "the same agent's response to another task",
    _of_another_task,
)
NULL = (
    Perturbation(
        *("null", "degradation", "TVD-MI A.2, our wording", "a constant without information"),
        constant(TEXTS["null"]["ours"]),
    )
    .with_form(
        "peer-review",
        constant(TEXTS["null"]["peer-review"]),
        source="TVD-MI A.2, agent 6",
        description="the constant review of the paper",
    )
    .with_form(
        "TEXT",
        lambda setting: lambda _: setting.form or "",
        source="this project",
        description="a custom constant text",
    )
)
COLLUSION = Perturbation(
    *("collusion", "degradation", "this project", "the same empty text from all agents, on every task"),
    constant(BOILERPLATE),
    scope="everybody",
)
PROMPT_COPY = Perturbation(
    "prompt-copy", "degradation", "this project", "the task's prompt, word for word", _copy_prompt
)
DECEPTIVE = Perturbation(
    *("deceptive", "degradation", "this project", "rewritten by a writer to be fluent and wrong"),
    rewritten(TEXTS["deceptive"]["ours"], "deceptive version"),
    needs_writer=True,
)
DEGRADATIONS = (DELETION, COMPLETION, SYNOPSIS_ONLY, SHUFFLED_TASK, NULL)
