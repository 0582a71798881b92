"""A model on a server: how it is called, who it is, and what it was found to be able to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypedDict, Unpack

import anyio
import anyio.to_thread

from goldless.errors import (
    CapabilityError,
    ModelSpecError,
    PrerequisiteError,
    nearest,
)
from goldless.models.http_api.calls import Answer, Calls, RetryPolicy
from goldless.models.http_api.client import ApiKey, AttemptError, Client, Timeouts
from goldless.models.http_api.dialects import WORDINGS, Dialect, stable_fingerprint
from goldless.models.http_api.formats import ChatFormat, OpenAiFormat, Wording
from goldless.models.http_api.pacing import DEFAULT_MAXIMUM, DEFAULT_START, Limiter, Pace
from goldless.models.http_api.probing import (
    Finding,
    Listing,
    find_dialect,
    list_models,
    not_ready,
    require_affordable,
    sglang_weights,
)
from goldless.models.http_api.reading import reading
from goldless.models.http_api.tokenizing import LocalTokenizer, ServerTokenizer
from goldless.models.http_api.turns import Turns
from goldless.models.interface import (
    Capabilities,
    ChatRequest,
    Message,
    ModelIdentity,
    content_hash,
)
from goldless.models.provider import Use
from goldless.models.usage import Ledger, most_chat_usage

_CHAT_PROBE = ChatRequest(
    (Message("user", "Answer with yes or no: is water wet?"),),
    max_tokens=16,
    seed=0,
    choices=("yes", "no"),
    logprobs=True,
)
REVISION_DIGITS = 16
_YES_NO = {True: "yes", False: "no"}


class HttpOptions(TypedDict, total=False):
    """How to call a server."""

    use: Use
    """What ``prepare`` probes; both by default."""
    dialects: Sequence[str]
    """Scoring dialects to try; all by default."""
    concurrency: int | None
    """Maximum concurrent calls, used from the start; by default start with 8 and adapt to the server."""
    max_concurrency: int
    """Maximum concurrent calls when adapting to the server's replies."""
    retry: RetryPolicy | None
    own_retries: bool
    """Whether the specification says how often a call is sent again."""
    timeouts: Timeouts | None
    tokenizer: str
    """A tokenizer on this machine, for a server that shows none; empty: the server's own."""


class ProbedModel:
    """One model on one server.

    ``prepare`` connects and probes what the model is needed for (``use``): chat by one short question, scoring by
    trying each dialect on a few words. ``capabilities`` then says what was found; what was not probed
    counts as absent until ``probe``, ``encode`` or ``score`` has checked. ``identity`` is complete after ``prepare``.
    """

    def __init__(
        self,
        *,
        provider: str,
        base_url: str,
        name: str = "",
        key: ApiKey | None = None,
        key_variable: str = "GOLDLESS_HTTP_API_KEY",
        settings: Mapping[str, str] | None = None,
        chat_format: ChatFormat | None = None,
        wording: Wording | None = None,
        **options: Unpack[HttpOptions],
    ) -> None:
        """Nothing is sent yet.

        ``name``: empty takes the server's only model. ``settings``: what the address says about the model.
        ``chat_format``: OpenAI's if not given; ``wording``: the format's own if not given.
        """
        self._provider = provider
        self._name = name
        self._key_variable = key_variable
        self._settings = dict(settings or {})
        self._use = options.get("use", "both")
        self._dialects = options.get("dialects", tuple(WORDINGS))
        self._tokenizer_given = options.get("tokenizer", "")
        self._tokenizer: LocalTokenizer | None = None
        self._format = chat_format or OpenAiFormat()
        self._client = Client(base_url, key or ApiKey(), timeouts=Timeouts(), headers=self._format.headers)
        self._options = options
        self._set_limits(options)
        self._lock = anyio.Lock()
        self._wording = wording or self._format.wording
        self._listing: Listing | None = None
        self._dialect: Dialect | None = None
        self._rejection: AttemptError | None = None
        self._scoring_probed = False
        self._server_tokenizer: ServerTokenizer | None = None
        """Of a server that looks as if it showed one."""
        self._counts_tokens = self._names_tokens = True
        """Whether its tokenizer knows chats, and whether tokens may be named by their ids; not if it failed once."""
        self._weights: str | None = None
        """The weights behind the name, as the server calls them."""
        self._fingerprint = ""
        self.capabilities = Capabilities()
        """What was found so far."""
        self.findings: tuple[Finding, ...] = ()
        """The finding of each probe, in order."""

    def __repr__(self) -> str:
        """Provider, address and name; never the key."""
        return f"HttpModel({self._provider!r}, {self._client.base_url!r}, {self._name!r})"

    @property
    def identity(self) -> ModelIdentity:
        """The name, what the server reports about itself, and the dialect if scoring was probed.

        A server that says which weights it has is identified by them and not by its address: it may move, and its
        replicas are the same model.
        """
        settings = dict(self._settings)
        if "server" in settings and self._weights is not None:
            settings["server"] = "own"
        usual = self._format.wording.settings()  # what no model of this format takes says nothing about this one
        settings |= {name: value for name, value in self._wording.settings().items() if name not in usual}
        if self._dialect is not None:
            settings |= {"dialect": self._dialect.name, "layout": self._dialect.layout}
        tokenizer = self._tokenizer.digest if self._tokenizer else ""
        return ModelIdentity(self._provider, self._name, self._revision(), tokenizer, settings)

    def _revision(self) -> str:
        """A hash of what the server says beyond the name: its weights, version and configuration."""
        said = ("" if self._weights == self._name else self._weights or "", self._fingerprint)
        return content_hash(*said)[:REVISION_DIGITS] if any(said) else ""

    @property
    def thinking_tokens(self) -> int:
        """Tokens that a call may be charged for beyond its ``max_tokens``; known after ``prepare``."""
        return self._wording.thinking_tokens

    def _set_limits(self, options: HttpOptions) -> None:
        timeouts, policy = options.get("timeouts") or Timeouts(), options.get("retry") or RetryPolicy()
        fixed, most = options.get("concurrency"), options.get("max_concurrency", DEFAULT_MAXIMUM)
        self._adapts = fixed is None
        self._client.timeouts = timeouts
        self._limiter = Limiter(Pace(start=fixed or DEFAULT_START, maximum=fixed or most))
        turns = Turns(timeouts.total_seconds)
        self._calls = Calls(self._client, self._limiter, policy, turns)
        self._hasty_calls = Calls(self._client, self._limiter, policy.hasty(), turns)

    def limit_calls(self, timeout_seconds: float | None, max_retries: int | None, max_in_flight: int | None) -> None:
        """Set limits before anything is sent; None, or a limit in the model's specification: it stays as it is."""
        given = self._options.copy()
        if timeout_seconds is not None and given.get("timeouts") is None:
            given["timeouts"] = Timeouts(min(Timeouts().connect_seconds, timeout_seconds), timeout_seconds)
        if max_retries is not None and not given.get("own_retries"):
            given["retry"] = replace(given.get("retry") or RetryPolicy(), attempts=max_retries + 1)
        if max_in_flight is not None:
            given["max_concurrency"] = max_in_flight
        self._set_limits(given)

    def charge_to(self, purse: Ledger) -> None:
        """Let the ledger pay for probes, and for attempts that fail before another one succeeds."""
        self._calls.purse = self._hasty_calls.purse = purse

    async def prepare(self) -> None:
        """Connect, and probe what the model is needed for. Raises a UserError if it cannot be used."""
        await self._connect()
        if self._use != "scoring":
            await self._probe_chat()
        if self._use != "chat":
            await self._probe_scoring()
        if self._dialect is not None and self._dialect.layout == "plain":
            await self._probe_chat()  # whether a chat template is left out
        self._require_known_model()

    async def probe(self) -> tuple[Finding, ...]:
        """Probe everything, needed or not, and return the findings."""
        await self._connect()
        await self._probe_chat()
        await self._probe_scoring()
        return self.findings

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    # --- probing -----------------------------------------------------------------------------------------------

    async def _ask(self, request: ChatRequest) -> Answer:
        """The server's reply, with the parameters it accepts; those that work are kept for the next call."""
        wording = self._wording
        while True:
            try:
                answer = await self._calls.post(
                    self._format.route(self._name),
                    self._format.body(request, model=self._name, wording=wording),
                    most_chat_usage(self, request),
                )
            except AttemptError as failure:
                other = wording.after(failure)
                if other is None:
                    raise
                wording = other
            else:
                self._wording = wording
                return answer

    async def _connect(self) -> None:
        """Connect to the server, list its models, and determine the name."""
        async with self._lock:
            if self._listing is not None:
                return
            listing = await list_models(
                self._hasty_calls,
                self._format,
                url=self._client.base_url,
                key_variable=self._key_variable,
                named=bool(self._name),
            )
            if not self._name:
                self._name = listing.only_model(self._client.base_url)
            self._weights = listing.weights(self._name)
            if listing.has_tokenizer(self._name):
                self._server_tokenizer = ServerTokenizer(self._name)
                self.capabilities = replace(self.capabilities, keeps_prefixes=True)
            if listing.is_sglang(self._name):
                with suppress(AttemptError):
                    self._weights = await sglang_weights(self._hasty_calls)
            self._listing = listing

    async def _probe_chat(self) -> None:
        async with self._lock:
            if any(finding.ability == "chat" for finding in self.findings):
                return
            tokens = choice = False
            try:
                ask, most = partial(self._ask, _CHAT_PROBE), most_chat_usage(self, _CHAT_PROBE)
                data = (await self._calls.paid(most, ask, lambda answer: self._format.usage(answer.data))).data
                self._fingerprint = stable_fingerprint(data)
                with reading():
                    written = self._format.read(data)
            except AttemptError as failure:
                require_affordable(failure)
                self._require_key(failure)
                self._rejection = failure
                # A failure that a retry may mend, or a limit met while thinking, is no proof of inability.
                works = not failure.is_answer or "limit was reached" in failure.message
                answer = failure.message
            else:
                works, tokens = True, bool(written.steps)
                choice = any(len(step.alternatives) > 1 for step in written.steps)
                if not written.text.strip() and written.finish == "length":
                    self._wording = replace(self._wording, seen_thinking=True)
                answer = f"log-probabilities of what it writes: {_YES_NO[tokens]}; with alternatives: {_YES_NO[choice]}"
            self.findings += (Finding("chat", works=works, answer=answer),)
            self.capabilities = replace(
                self.capabilities, chat=works, choice=choice, one_call_choice=choice, token_logprobs=tokens
            )

    async def _probe_scoring(self) -> None:
        async with self._lock:
            if self._scoring_probed:
                return
            if self._tokenizer_given and self._tokenizer is None:
                from goldless.models.http_api.tokenizer_files import open_tokenizer  # noqa: PLC0415 - seldom needed

                self._tokenizer = await anyio.to_thread.run_sync(open_tokenizer, self._tokenizer_given)
            self._dialect, weights, findings = await find_dialect(
                self._hasty_calls, self._name, self._dialects, self._tokenizer
            )
            if self._dialect is not None:
                self._weights = self._weights if weights is None else weights
                self._fingerprint = self._fingerprint or self._dialect.fingerprint
                if self._adapts and self._dialect.most_at_once is not None:
                    self._limiter.pace.maximum = min(self._limiter.pace.maximum, self._dialect.most_at_once)
            self.findings += findings
            self.capabilities = replace(self.capabilities, scoring=self._dialect is not None)
            self._scoring_probed = True

    async def _scoring_dialect(self) -> Dialect:
        if not self._scoring_probed:
            await self._connect()
            await self._probe_scoring()
        if self._dialect is None:
            raise CapabilityError(self._no_scoring())
        return self._dialect

    def _no_scoring(self) -> str:
        asked = "\n".join(f"  {finding.ability}: {finding.answer}" for finding in self.findings if not finding.works)
        return (
            f"{self._client.base_url} returns no log-probabilities of a given text for {self._name}. It was "
            "probed:\n"
            f"{asked}\n"
            "Scorers that can: embedded, gguf:…, hf:…, or a vLLM or SGLang server (http://host:port/v1#MODEL)"
        )

    def _require_key(self, failure: AttemptError) -> None:
        if failure.bad_key:
            raise PrerequisiteError(f"{failure.message}\nSet {self._key_variable} to a key that may use {self._name}")

    def _require_known_model(self) -> None:
        """Raise if the server is not ready, or the name is not listed, or nothing is, and the server rejects it."""
        names = self._listing.names if self._listing else ()
        broken = self._listing.failure if self._listing else None
        answered = self.capabilities.scoring or (self.capabilities.chat and self._rejection is None)
        if broken is not None and not answered:
            raise not_ready(broken)
        works = self.capabilities.chat or self.capabilities.scoring
        if works or self._name in names:
            return
        if not names:
            if self._format.listing is None and self._rejection is not None:
                raise ModelSpecError(f"{self._provider}:{self._name} cannot be used: {self._rejection.message}")
            return
        answers = "; ".join(finding.answer for finding in self.findings[:1])
        raise ModelSpecError(
            f"{self._client.base_url} has no model {self._name!r}{nearest(self._name, names)} ({answers})\n"
            f"It has: {', '.join(names[:20])}"
        )
