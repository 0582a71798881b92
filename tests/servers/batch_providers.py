"""Batch APIs on this machine, as their reference pages describe them; official SDKs can talk to it.

``BatchServer`` takes batches of OpenAI and Anthropic. A batch stays in progress until the test
calls ``end``, which answers some or all of its calls and ends it as the provider would.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

sys.path.insert(0, str(Path(__file__).parent))  # runs as a script, too
from loopback import Behaviour, Json, chat_reply
from providers import KEY, ProviderServer, anthropic_reply

ENDED = {
    "openai": {"completed": "completed", "expired": "expired", "cancelled": "cancelled", "failed": "failed"},
    "anthropic": dict.fromkeys(("completed", "expired", "cancelled", "failed"), "ended"),
}
Say = Callable[[str], str]
"""From the last message of a call to the reply's text."""


class BatchServer(ProviderServer):
    """A provider server that also takes batches."""

    def __init__(self, behaviour: Behaviour | None = None, *, say: Say = lambda _: "one") -> None:
        super().__init__(behaviour)
        self.say = say
        self.behaviour.chat = lambda body: chat_reply(say(body["messages"][-1]["content"]))
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Json] = {}
        """By id: provider, calls as ``{key: body}``, status, answers."""
        self._numbers = itertools.count(1)

    def end(
        self, how: str = "completed", *, answered: int | None = None, failing: dict[int, Json] | None = None
    ) -> None:
        """End all batches: the first ``answered`` calls of each get a reply, those in ``failing`` an error."""
        for batch in self.batches.values():
            if batch["status"] is not None:
                continue
            batch["status"] = how
            keys = list(batch["calls"])[:answered]
            batch["answers"] = {
                key: (failing or {}).get(number) or self._reply_of(batch["provider"], batch["calls"][key])
                for number, key in enumerate(keys)
            }

    def _reply_of(self, provider: str, body: Json) -> Json:
        text = self.say(body["messages"][-1]["content"])
        return anthropic_reply([{"type": "text", "text": text}]) if provider == "anthropic" else chat_reply(text)

    def _take(self, provider: str, calls: dict[str, Json], name: str) -> Json:
        assert len(calls) == len({*calls})
        batch = {
            "id": f"{name}{next(self._numbers)}",
            "provider": provider,
            "calls": calls,
            "status": None,
            "answers": {},
        }
        self.batches[batch["id"]] = batch
        return batch

    async def _decoded(self, request: web.Request) -> Any:
        if not request.content_type.startswith("multipart/"):
            return await super()._decoded(request)
        return {
            name: value.file.read() if hasattr(value, "file") else value
            for name, value in (await request.post()).items()
        }

    async def _answer_or_misbehave(self, request: web.Request, body: Any) -> web.StreamResponse:
        path = unquote(request.raw_path.partition("?")[0])
        for matches, answer in (
            (path == "/v1/files", self._file),
            (path.startswith("/v1/files/"), self._content),
            (path.startswith("/v1/batches"), self._openai),
            (path.startswith("/v1/messages/batches"), self._anthropic),
        ):
            if matches:
                if KEY not in " ".join(request.headers.values()):
                    return web.json_response({"error": {"message": "Incorrect API key"}}, status=401)
                if body is not None and self.behaviour.faults:
                    return await self._misbehave(request, self.behaviour.faults.pop(0))
                found = answer(path, body)
                if found is None:
                    return web.json_response({"error": {"message": f"No such thing: {path}"}}, status=404)
                content = found if isinstance(found, bytes) else orjson.dumps(found)
                kind = "application/octet-stream" if isinstance(found, bytes) else "application/json"
                return web.Response(body=content, content_type=kind)
        return await super()._answer_or_misbehave(request, body)

    # --- OpenAI ------------------------------------------------------------------------------------

    def _file(self, _: str, body: Any) -> Json:
        assert body["purpose"] == "batch"
        name = f"file-{next(self._numbers)}"
        self.files[name] = body["file"]
        size = len(body["file"])
        more = {"created_at": 0, "filename": "goldless.jsonl", "purpose": "batch", "status": "processed"}
        return {"id": name, "object": "file", "bytes": size, **more}

    def _content(self, path: str, _: Any) -> bytes | None:
        return self.files.get(path.split("/")[3])

    def _calls_in(self, file: str) -> dict[str, Json]:
        lines = [orjson.loads(line) for line in self.files[file].splitlines()]
        assert len({line["custom_id"] for line in lines}) == len(lines)
        return {line["custom_id"]: line["body"] for line in lines}

    def _results(self, batch: Json) -> tuple[str | None, str | None]:
        """The files of replies and of errors."""
        files: list[str | None] = []
        failed = {key for key, answer in batch["answers"].items() if "status_code" in answer}
        for keys in ([key for key in batch["answers"] if key not in failed], sorted(failed)):
            rows = []
            for key in keys:
                answer = batch["answers"][key]
                response = answer if key in failed else {"status_code": 200, "request_id": "r", "body": answer}
                rows.append({"id": f"br-{key[:6]}", "custom_id": key, "response": response, "error": None})
            if keys is not failed and not rows:
                files.append(None)
                continue
            name = f"file-{next(self._numbers)}"
            self.files[name] = b"\n".join(map(orjson.dumps, rows))
            files.append(name)
        if batch["status"] in {"expired", "cancelled"} and batch["provider"] == "openai":
            missing = [key for key in batch["calls"] if key not in batch["answers"]]
            error = {"code": f"batch_{batch['status']}", "message": "This request could not be executed."}
            lines = [{"id": "br", "custom_id": key, "response": None, "error": error} for key in missing]
            name = files[1] = files[1] or f"file-{next(self._numbers)}"
            self.files[name] = b"\n".join([self.files.get(name, b""), *map(orjson.dumps, lines)]).strip()
        return files[0], files[1]

    def _openai(self, path: str, body: Any) -> Json | None:
        if body is not None:
            assert set(body) == {"input_file_id", "endpoint", "completion_window"}
            assert (body["endpoint"], body["completion_window"]) == ("/v1/chat/completions", "24h")
            for line in map(orjson.loads, self.files[body["input_file_id"]].splitlines()):
                assert (set(line), line["url"]) == ({"custom_id", "method", "url", "body"}, body["endpoint"])
            batch = self._take("openai", self._calls_in(body["input_file_id"]), "batch_")
        else:
            found = self.batches.get(path.rpartition("/")[2])
            if found is None:
                return None
            batch = found
        ended = batch["status"] is not None
        output, errors = self._results(batch) if ended else (None, None)
        return {
            "id": batch["id"],
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "errors": {"object": "list", "data": [{"code": "invalid_json_line", "message": "not JSON", "line": 1}]}
            if batch["status"] == "failed"
            else None,
            "input_file_id": "file",
            "completion_window": "24h",
            "status": ENDED["openai"][batch["status"]] if ended else "in_progress",
            "output_file_id": output,
            "error_file_id": errors,
            "created_at": 0,
            "request_counts": {"total": len(batch["calls"]), "completed": len(batch["answers"]), "failed": 0},
        }

    # --- Anthropic ---------------------------------------------------------------------------------------------

    def _anthropic(self, path: str, body: Any) -> Json | bytes | None:
        if body is not None:
            batch = self._take("anthropic", {one["custom_id"]: one["params"] for one in body["requests"]}, "msgbatch_")
            assert all(len(key) <= 64 for key in batch["calls"])
        else:
            found = self.batches.get(path.split("/")[4])
            if found is None:
                return None
            batch = found
        ended = batch["status"] is not None
        if path.endswith("/results"):
            return b"\n".join(orjson.dumps(self._anthropic_row(batch, key)) for key in batch["calls"])
        done = len(batch["answers"])
        counts = {
            "processing": 0,
            "succeeded": done,
            "errored": 0,
            "canceled": 0,
            "expired": len(batch["calls"]) - done,
        }
        return {
            "id": batch["id"],
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": "2026-11-15T12:00:00Z",
            "expires_at": "2026-11-16T12:00:00Z",
            "ended_at": "2026-11-15T13:00:00Z" if ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{self.root}/v1/messages/batches/{batch['id']}/results" if ended else None,
        }

    def _anthropic_row(self, batch: Json, key: str) -> Json:
        answer = batch["answers"].get(key)
        if answer is None:
            return {"custom_id": key, "result": {"type": "canceled" if batch["status"] == "cancelled" else "expired"}}
        if answer["type"] == "error":
            return {"custom_id": key, "result": {"type": "errored", "error": answer}}
        return {"custom_id": key, "result": {"type": "succeeded", "message": answer}}
