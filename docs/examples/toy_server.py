"""A stand-in for your model server: chat completions on this machine, answered by rules of a line each.

    python toy_server.py PORT

The model's name chooses the rule. ``critic`` says whether two responses share two long words. ``careful`` prefers the
response with more different long words, ``lengthy`` the longer one, ``hasty`` the one shown first. ``moody`` is
careful, but of one question in five it thinks the opposite when it is asked again.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ASKED: Counter[str] = Counter()
"""How often ``moody`` was asked each question."""


def answer(model: str, question: str) -> str:
    """The reply to a question in which responses stand between lines of ####."""
    texts = fenced(question)
    if len(texts) < 2:
        return "Hello."
    first, second = texts[-2:]
    words = [set(re.findall(r"[a-z]{6,}", text.lower())) for text in (first, second)]
    better = len(words[0]) > len(words[1])
    if model == "moody":
        better ^= ASKED[question] > 0 and sum(question.encode()) % 5 == 0
        ASKED[question] += 1
    rules = {
        "critic": "Yes" if len(words[0] & words[1]) >= 2 else "No",
        "careful": "one" if better else "two",
        "moody": "one" if better else "two",
        "lengthy": "one" if len(first) > len(second) else "two",
        "hasty": "one",
    }
    return rules[model]


def fenced(question: str) -> list[str]:
    """The texts between fences, in order."""
    return [text for _, text in re.findall(r"^(#{12,})\n(.*?)\n\1$", question, flags=re.DOTALL | re.MULTILINE)]


class Handler(BaseHTTPRequestHandler):
    """OpenAI's chat completions, as little of them as is needed."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a chat completion; nothing else is known."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("/chat/completions"):
            self.reply(404, {"error": {"message": "only chat completions"}})
            return
        text = answer(asked["model"], asked["messages"][-1]["content"])
        used = sum(len(message["content"].split()) for message in asked["messages"])
        self.reply(
            200,
            {
                "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": used, "completion_tokens": 1},
            },
        )

    def do_GET(self) -> None:
        """There is nothing to fetch."""
        self.reply(404, {"error": {"message": "nothing here"}})

    def reply(self, status: int, data: object) -> None:
        """Send JSON."""
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
