"""Studies that reward empty, copied and colluding responses under a metric that is easy to fool.

Ten invented support tickets. ``good`` answers them; ``short`` is the first and the last sentence of that answer;
``german`` answers in German; ``copycat`` repeats the ticket; ``verbose`` and ``boiler`` give one empty text to all.
"""

from __future__ import annotations

import json

from tests.support.paths import FIXTURES

TICKETS = FIXTURES / "support_tickets.jsonl"
EMPTY = (
    "Thank you very much for getting in touch with our team today. We truly appreciate your patience and we completely "
    "understand how important this matter is to you. Please rest assured that every request is taken seriously and is "
    "handled with the greatest possible care. Our dedicated specialists are always working hard to provide the best "
    "experience for each and every customer. We are constantly improving our service, and your feedback helps us to "
    "become better every day. Should you have any further questions, please do not hesitate to contact us again at any "
    "time. We value your trust and your loyalty, and we look forward to helping you again. Thank you once more for "
    "choosing us, and have a wonderful day ahead."
)


def support_rows(*agents: str, tasks: int = 10) -> list[dict[str, str]]:
    """Rows of task, prompt, agent and text for these agents."""
    tickets = [json.loads(line) for line in TICKETS.read_text(encoding="utf-8").splitlines()][:tasks]
    return [
        {"task": ticket["task"], "prompt": ticket["prompt"], "agent": agent, "text": _text(agent, ticket)}
        for ticket in tickets
        for agent in agents
    ]


def _text(agent: str, ticket: dict[str, str]) -> str:
    sentences = [sentence.removesuffix(".") for sentence in ticket["good"].split(". ")]
    return {
        "good": ticket["good"],
        "short": f"{sentences[0]}. {sentences[-1]}.",
        "german": ticket["german"],
        "copycat": ticket["prompt"],
        "verbose": EMPTY,
        "boiler1": EMPTY,
        "boiler2": EMPTY.replace("wonderful", "pleasant").replace("dedicated", "friendly"),
    }[agent]


SUPPORT = ("good", "verbose", "copycat", "german")
COLLUSION = ("good", "short", "boiler1", "boiler2")
