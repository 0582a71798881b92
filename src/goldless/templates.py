"""Prompt templates of the information metrics: how a response is rewritten, and how a second one is predicted.

Instructions, synopsis and candidate precede the target, in this order, so that the shared part comes first.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from goldless.errors import UserError, nearest

NOT_AVAILABLE = "Not available"
"""The text for an absent synopsis or candidate, as in the paper."""
EXAMPLES = "+examples-"
"""The part of a template's name for worked examples before the question."""


@dataclass(frozen=True)
class Template:
    """A named pair of prompts."""

    name: str
    source: str
    rewrite: str
    """System message that rewrites a response into plain judgements, without style (GEM, prompt C.1)."""
    predict: str
    """System message under which a second response is predicted (GEM, prompt C.2)."""
    synopsis_heading: str
    candidate_heading: str

    @property
    def texts(self) -> dict[str, str]:
        """Its texts by field."""
        return {field: getattr(self, field) for field in FIELDS}

    def question(self, synopsis: str | None, candidate: str | None) -> str:
        """The user message: the synopsis and the first response, or that they are not available."""
        parts = (self.synopsis_heading, synopsis or NOT_AVAILABLE, self.candidate_heading, candidate or NOT_AVAILABLE)
        return "\n\n".join(parts)

    def with_examples(self, number: int, same: str | None) -> Template:
        """The same words after worked examples, under a name that says how many, and of which kind of task."""
        return replace(self, name=f"{self.name}{EXAMPLES}{number}{f'-same-{same}' if same else ''}")


PEER_REVIEW = Template(
    name="peer-review",
    source="GEM paper, prompts C.1 and C.2",
    rewrite=(
        "Carefully read the text of a scientific paper review. You should summarize each evaluation in the review in "
        "a separate line. Begin each summary line with one of the following phrases: 'The reviewer appreciates', "
        "'The reviewer criticizes', 'The reviewer questions', 'The reviewer suggests'. You need to keep the summary as "
        "concise as possible, excluding specific details about the paper's content, such as topics, ideas, methods, "
        "findings, and any mathematical symbols.\n"
        "You should ensure that even if multiple evaluations are mentioned in the same sentence in the original "
        "review, you should still split it into separate lines. For example, you should not output a line like 'The "
        "reviewer appreciates the well-written paper and good experimental performance'. In contrast, you should "
        "output 'The reviewer appreciates the well-written paper' and 'The reviewer appreciates good experimental "
        "performance' in two lines."
    ),
    predict=(
        "You are the second reviewer for a scientific paper. You are given the abstract of the paper and a list of "
        "review judgments from the first reviewer, starting with 'The reviewer "
        "appreciates/criticizes/questions/suggests'. Your task is to provide your own judgments of the paper based on "
        "the given materials. You should create a separate line for each judgment you have, starting with 'The "
        "reviewer appreciates/criticizes/questions/suggests'. Ensure your judgments are concise, excluding specific "
        "details about the paper's content."
    ),
    synopsis_heading="[Abstract of the paper]",
    candidate_heading="[Review judgments from the first reviewer]",
)

GENERAL = Template(
    name="general",
    source="this project; the paper's prompts worded for any task",
    rewrite=(
        "Read the response below, which somebody gave to a task you do not see. State each separate point it makes on "
        "a line of its own, in short plain sentences of your own words. Leave out style, politeness, repetition and "
        "anything that is not a point. Add nothing and judge nothing. If several points stand in one sentence, split "
        "them. If it makes no point at all, write the single line: No point is made."
    ),
    predict=(
        "Two people answered the same task independently, without seeing each other's answer. You are the second one. "
        "You are given a synopsis of the task and the first person's answer, as far as they are available. Write your "
        "own answer to the task."
    ),
    synopsis_heading="[Synopsis of the task]",
    candidate_heading="[Answer of the first person]",
)

PLAIN = Template(
    name="plain",
    source="this project; `general` in other words, to average over wordings (GEM paper, footnote 3)",
    rewrite=(
        "List what the following text says, one statement a line. Use short, neutral sentences. Keep every statement "
        "of content and nothing else: no style, no courtesy, no repetition, no comment of yours. A sentence with two "
        "statements becomes two lines. A text that says nothing becomes the single line: No point is made."
    ),
    predict=(
        "Here is what is known of a task, and what somebody else answered to it; either may be missing. You worked on "
        "the same task by yourself. Give the answer that you wrote."
    ),
    synopsis_heading="What is known of the task:",
    candidate_heading="What somebody else answered:",
)

ABSTRACT = (
    "You are given the material of a task. Write a short abstract of it: what it is about and what it sets out to do, "
    "in one paragraph of at most 150 words. Report only what the material says. Do not judge it. Output the abstract "
    "and nothing else."
)
"""Our wording: the GEM paper has abstracts generated for its peer-grading study (section 4.1) but prints no prompt."""

ASSW = (
    "You are given a paper submission for a top-tier Machine Learning conference. Your goal is to identify and list "
    "the strengths and weaknesses that the paper claims about itself. This task requires careful reading of the "
    "paper.\n"
    "Please follow these steps to complete the task:\n"
    "1. Carefully read the entire paper submission. As you read, identify instances where the authors mention "
    "strengths or positive aspects of their research, methodology, results, or contributions. These are the strengths "
    "claimed by the paper. Also, identify instances where the authors mention limitations, weaknesses, or areas for "
    "future improvement in their work. These are the weaknesses claimed by the paper.\n"
    "2. Compile your findings into two separate lists: one for strengths and one for weaknesses.\n"
    "3. For each list, write each point on a separate line, keeping it concise. Add an extra blank line between each "
    "point for clarity.\n"
    "4. Format your output as follows:\n"
    "<strengths_claimed_by_the_paper>\n"
    "[List each strength claimed by the paper in separate lines, with an extra blank line between each point]\n"
    "</strengths_claimed_by_the_paper>\n"
    "<weaknesses_claimed_by_the_paper>\n"
    "[List each weakness claimed by the paper in separate lines, with an extra blank line between each point]\n"
    "</weaknesses_claimed_by_the_paper>\n"
    "Important: Focus only on the strengths and weaknesses that the paper claims about itself. Do not include your own "
    "evaluation or opinion of the paper's merits or shortcomings. Do not include the strengths and weaknesses of the "
    "baseline. Your task is to report what the authors themselves have stated about their work's strengths and "
    "limitations."
)
"""GEM paper, prompt C.4."""

SYNOPSIS_PROMPTS = {"abstract": ABSTRACT, "assw": ASSW}
"""Synopses that can be generated, by name; any other must be in the study."""

TEMPLATES = {template.name: template for template in (GENERAL, PLAIN, PEER_REVIEW)}
FIELDS = ("rewrite", "predict", "synopsis_heading", "candidate_heading")


def find_template(name: str) -> Template:
    """The template of that name, or from a TOML file."""
    if name in TEMPLATES:
        return TEMPLATES[name]
    if name.endswith(".toml"):
        return _read(Path(name).expanduser())
    raise UserError(
        f"unknown template {name!r}{nearest(name, TEMPLATES) or '.'} Known: {', '.join(TEMPLATES)}, or a file "
        f"FILE.toml with {', '.join(FIELDS)}"
    )


def _read(path: Path) -> Template:
    """Read a template from a file; its name includes a hash of the text, so that signatures distinguish versions."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{path}: cannot read this template ({error})") from error
    wrong = [field for field in FIELDS if not isinstance(data.get(field), str) or not data[field].strip()]
    unknown = sorted(set(data) - set(FIELDS))
    if wrong or unknown:
        parts = [f"lacks a text for {', '.join(wrong)}"] * bool(wrong) + [f"has {', '.join(unknown)}"] * bool(unknown)
        raise UserError(
            f"{path}: a template must have exactly the texts {', '.join(FIELDS)}; this one {' and '.join(parts)}"
        )
    texts = {field: data[field].strip() for field in FIELDS}
    digest = hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:8]
    return Template(name=f"{path.stem}@{digest}", source=str(path), **texts)
