"""Batch APIs on this machine, as the reference pages of OpenAI and Anthropic describe them.

A batch stays in progress until the test calls ``end``, which answers some or all of its calls and ends it as the
provider would.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

from tests.support.servers.loopback import Behaviour, Json, chat_reply
from tests.support.servers.providers import KEY, ProviderServer, anthropic_reply

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
        self.failure: Json = {"code": "invalid_json_line", "message": "not JSON"}
        """Why batches that end as ``failed`` do."""
        self._numbers = itertools.count(1)

    def end(
        self, how: str = "completed", *, answered: int | None = None, failing: dict[int, Json] | None = None
    ) -> None:
        """End all batches: the first ``answered`` calls of each get a reply, those in ``failing`` an error."""
        for batch in self.batches.values():
            if batch["status"] is not None:
                continue
            batch["status"] = how
            for number, key in enumerate(list(batch["calls"])[:answered]):
                text = self.say(batch["calls"][key]["messages"][-1]["content"])
                own = batch["id"].startswith("batch_")
                said = chat_reply(text) if own else anthropic_reply([{"type": "text", "text": text}])
                batch["answers"][key] = (failing or {}).get(number) or said

    def _batch(self, name: str, calls: dict[str, Json]) -> Json:
        batch = {"id": f"{name}{next(self._numbers)}", "calls": calls, "status": None, "answers": {}}
        return self.batches.setdefault(batch["id"], batch)

    async def _decoded(self, request: web.Request) -> Any:
        if not request.content_type.startswith("multipart/"):
            return await super()._decoded(request)
        fields: Json = {}
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                with value.file as file:
                    fields[name] = file.read()
            else:
                fields[name] = value
        return fields

    async def _answer_or_misbehave(self, request: web.Request, body: Any) -> web.StreamResponse:
        path = unquote(request.raw_path.partition("?")[0])
        routes = {"/v1/files": self._file, "/v1/batches": self._openai, "/v1/messages/batches": self._anthropic}
        answer = next((answer for route, answer in routes.items() if path.startswith(route)), None)
        if answer is None:
            return await super()._answer_or_misbehave(request, body)
        if KEY not in " ".join(request.headers.values()):
            return web.json_response({"error": {"message": "Incorrect API key"}}, status=401)
        if body is not None and self.behaviour.faults:
            return await self._misbehave(request, self.behaviour.faults.pop(0))
        found = answer(path, body)
        if found is None:
            return web.json_response({"error": {"message": f"No such thing: {path}"}}, status=404)
        return web.Response(body=found if isinstance(found, bytes) else orjson.dumps(found))

    # --- OpenAI ------------------------------------------------------------------------------------

    def _file(self, path: str, body: Any) -> Json | bytes | None:
        if body is None:
            return self.files.get(path.split("/")[3])
        assert body["purpose"] == "batch"
        return {"id": self._kept([orjson.loads(line) for line in body["file"].splitlines()])}

    def _kept(self, rows: list[Json]) -> str:
        name = f"file-{next(self._numbers)}"
        self.files[name] = b"\n".join(map(orjson.dumps, rows))
        return name

    def _openai(self, path: str, body: Any) -> Json | None:
        if body is not None:
            assert (body["endpoint"], body["completion_window"]) == ("/v1/chat/completions", "24h")
            lines = [orjson.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
            assert all((set(line), line["url"]) == (LINE, body["endpoint"]) for line in lines)
            assert len({line["custom_id"] for line in lines}) == len(lines)
            batch = self._batch("batch_", {line["custom_id"]: line["body"] for line in lines})
        elif (batch := self.batches.get(path.rpartition("/")[2])) is None:
            return None
        replies, errors, status = [], [], batch["status"]
        for key in batch["calls"] if status is not None else ():
            answer = batch["answers"].get(key)
            if answer is None and status in {"expired", "cancelled"}:
                errors.append({"custom_id": key, "response": None, "error": {"code": f"batch_{status}"}})
            elif answer is not None and "status_code" in answer:
                errors.append({"custom_id": key, "response": answer, "error": None})
            elif answer is not None:
                response = {"status_code": 200, "request_id": "r", "body": answer}
                replies.append({"custom_id": key, "response": response, "error": None})
        return {
            "id": batch["id"],
            "status": status or "in_progress",
            "output_file_id": self._kept(replies) if replies else None,
            "error_file_id": self._kept(errors) if errors else None,
            "errors": {"data": [self.failure]} if status == "failed" else None,
        }

    # --- Anthropic ---------------------------------------------------------------------------------------------

    def _anthropic(self, path: str, body: Any) -> Json | bytes | None:
        if body is not None:
            batch = self._batch("msgbatch_", {one["custom_id"]: one["params"] for one in body["requests"]})
            assert all(len(key) <= 64 for key in batch["calls"])
        elif (batch := self.batches.get(path.split("/")[4])) is None:
            return None
        if path.endswith("/results"):
            return b"\n".join(orjson.dumps(self._anthropic_row(batch, key)) for key in batch["calls"])
        return {"id": batch["id"], "processing_status": "in_progress" if batch["status"] is None else "ended"}

    def _anthropic_row(self, batch: Json, key: str) -> Json:
        answer = batch["answers"].get(key)
        if answer is None:
            return {"custom_id": key, "result": {"type": "canceled" if batch["status"] == "cancelled" else "expired"}}
        if answer["type"] == "error":
            return {"custom_id": key, "result": {"type": "errored", "error": answer}}
        return {"custom_id": key, "result": {"type": "succeeded", "message": answer}}


LINE = {"custom_id", "method", "url", "body"}
"""What a call in a file of OpenAI's has."""
