"""How fast pairwise judgements go through goldless, and through other clients, against one server on this machine.

    python benchmarks/speed/judging.py [--calls 5000] [--concurrency 256] [--providers]

The server is a process of its own and answers every call after one second (then: at once). *goldless* is the whole
product path: prompts made, calls sent, replies read, counted, and written to a new journal before they are used.
*openai* is ``AsyncOpenAI`` with ``asyncio.gather`` and a semaphore, given the same prompts ready-made; its replies are
not read. ``--providers``: goldless through each provider's wire format, and of litellm and the providers' SDKs, in the
same way, those that are installed. Each runs in a process of its own. Calls a second are counted by the client from its
first question to its last answer, and by the server between the same two events. With a last wave that is not full the
best possible rate is a little below concurrency / delay; it is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from goldless.judging.asking import ReviewQuestion, ReviewStage
from goldless.judging.scales import find_scale
from goldless.models.catalogue import ANY_SERVER, SERVICES
from goldless.models.http_api import CallSettings, service_model
from goldless.models.journal import Journal
from goldless.models.journalled import JournalledModel
from goldless.models.usage import Ledger

MODEL = "loopback"
PROMPT_WORDS, ANSWER_WORDS = 300, 40
"""About the size of a news article and a summary of it."""
DESCRIPTION = "Each answer is a summary of the text that the question gives."


def workload(calls: int) -> tuple[list[ReviewQuestion], dict[tuple[str, str], str], dict[str, str | None]]:
    """Two answers a task, each pair asked in both orders; all texts differ."""
    chance = random.Random(0)

    def text(words: int) -> str:
        return " ".join(f"w{chance.randrange(10_000)}" for _ in range(words))

    tasks = [f"task {number}" for number in range(math.ceil(calls / 2))]
    texts = {(task, agent): text(ANSWER_WORDS) for task in tasks for agent in ("ann", "bob")}
    orders = (("ann", "bob"), ("bob", "ann"))
    questions = [ReviewQuestion(task, first, second) for task in tasks for first, second in orders]
    return questions[:calls], texts, {task: f"Summarise this text: {text(PROMPT_WORDS)}" for task in tasks}


class Stopwatch:
    """Wall and processor seconds of this process."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self, calls: int) -> dict[str, float]:
        """What it took, and the most memory the process had at any time."""
        seconds, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"calls": calls, "seconds": seconds, "cpu_seconds": cpu, "peak_mib": peak_kib / 1024}


async def through_goldless(url: str, calls: int, concurrency: int, provider: str = "") -> dict[str, float]:
    """The product's own path."""
    questions, texts, prompts = workload(calls)
    os.environ |= dict.fromkeys(KEYS, "none") | {name: address(url) for name, address in ADDRESSES.items()}
    calling = CallSettings(concurrency=concurrency)
    if provider:
        model = service_model(SERVICES[provider], MODEL, use="chat", calling=calling)
    else:
        model = service_model(ANY_SERVER, f"{url}#{MODEL}", use="chat", calling=calling)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(Journal(Path(folder) / "journal")) as journal:
        await model.prepare()
        read_stats(url)  # the probe is not part of it
        chat = JournalledModel(model, journal, Ledger(MODEL, None))
        stage = ReviewStage(chat, find_scale("pairwise"), task_description=DESCRIPTION)
        watch = Stopwatch()
        found = await stage.review(questions, texts, prompts, at_once=concurrency)
        measured = watch.read(calls)
        await model.aclose()
        kept = journal.rows("select count(*) from calls")[0][0]
    if any(judgement.value is None for judgement in found) or kept != calls:
        raise SystemExit(f"{calls} judgements were wanted; {kept} replies are in the journal: {found[0].failure}")
    return measured


KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY", "MISTRAL_API_KEY")


def root(url: str) -> str:
    """The address without its version."""
    return url.removesuffix("/v1")


ADDRESSES: dict[str, Callable[[str], str]] = {
    "OPENAI_BASE_URL": str,
    "MISTRAL_BASE_URL": str,
    "ANTHROPIC_BASE_URL": root,
    "GOOGLE_GEMINI_BASE_URL": root,
    "AZURE_OPENAI_ENDPOINT": root,
}


async def gathered(
    calls: int, concurrency: int, ask: Callable[[list[dict[str, str]]], Awaitable[object]]
) -> dict[str, float]:
    """Another client's calls, as its users do it; prompts are ready-made and replies are not read."""
    questions, texts, prompts = workload(calls)
    scale = find_scale("pairwise")
    asked = []
    for question in questions:
        first, second = texts[question.task, question.first], texts[question.task, str(question.second)]
        messages = scale.messages(first, second, prompt=prompts[question.task], task_description=DESCRIPTION)
        asked.append([{"role": message.role, "content": message.content} for message in messages])
    allowed = asyncio.Semaphore(concurrency)

    async def one(messages: list[dict[str, str]]) -> object:
        async with allowed:
            return await ask(messages)

    watch = Stopwatch()
    await asyncio.gather(*(one(messages) for messages in asked))
    return watch.read(calls)


async def through_openai(url: str, calls: int, concurrency: int) -> dict[str, float]:
    """OpenAI's SDK."""
    from openai import AsyncOpenAI  # noqa: PLC0415 - for this comparison only

    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        how: dict[str, Any] = {"model": MODEL, "max_tokens": 16, "temperature": 0}
        return await gathered(calls, concurrency, lambda asked: client.chat.completions.create(messages=asked, **how))  # type: ignore[arg-type]


async def through_anthropic(url: str, calls: int, concurrency: int) -> dict[str, float]:
    """Anthropic's SDK."""
    from anthropic import AsyncAnthropic  # noqa: PLC0415 - for this comparison only

    async with AsyncAnthropic(base_url=root(url), api_key="none", max_retries=0) as client:
        how: dict[str, Any] = {"model": MODEL, "max_tokens": 16}
        turns = _turns
        return await gathered(calls, concurrency, lambda asked: client.messages.create(messages=turns(asked), **how))


async def through_google(url: str, calls: int, concurrency: int) -> dict[str, float]:
    """Google's SDK."""
    from google import genai  # noqa: PLC0415 - for this comparison only

    client = genai.Client(api_key="none", http_options={"base_url": root(url), "api_version": "v1beta"})
    how = {"max_output_tokens": 16, "temperature": 0}

    def ask(asked: list[dict[str, str]]) -> Awaitable[object]:
        text = "\n\n".join(one["content"] for one in asked)
        return client.aio.models.generate_content(model=MODEL, contents=text, config=how)  # type: ignore[no-any-return]

    return await gathered(calls, concurrency, ask)


async def through_mistral(url: str, calls: int, concurrency: int) -> dict[str, float]:
    """Mistral's SDK."""
    from mistralai.client import Mistral  # noqa: PLC0415 - for this comparison only

    client = Mistral(api_key="none", server_url=root(url))
    how: dict[str, Any] = {"model": MODEL, "max_tokens": 16, "temperature": 0}
    return await gathered(calls, concurrency, lambda asked: client.chat.complete_async(messages=asked, **how))


async def through_litellm(url: str, calls: int, concurrency: int, provider: str = "openai") -> dict[str, float]:
    """Litellm, in a provider's wire format."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would download its prices when it is imported
    import litellm  # noqa: PLC0415 - for this comparison only

    litellm.telemetry = False
    base = {"openai": url, "anthropic": root(url), "gemini": f"{root(url)}/v1beta"}[provider]
    how: dict[str, Any] = {"model": f"{provider}/{MODEL}", "api_base": base, "api_key": "none"}
    how |= {"max_tokens": 16, "temperature": 0, "num_retries": 0}
    return await gathered(calls, concurrency, lambda asked: litellm.acompletion(messages=asked, **how))


def _turns(asked: list[dict[str, str]]) -> list[Any]:
    """The messages as one turn: not every format has a system message among the turns."""
    return [{"role": "user", "content": "\n\n".join(one["content"] for one in asked)}]


WAYS: dict[str, tuple[Callable[..., Awaitable[dict[str, float]]], str]] = {
    "goldless": (through_goldless, "goldless"),
    "openai": (through_openai, "openai"),
}
PROVIDER_WAYS: dict[str, tuple[Callable[..., Awaitable[dict[str, float]]], str]] = {
    "goldless openai:": (partial(through_goldless, provider="openai"), "goldless"),
    "openai": (through_openai, "openai"),
    "litellm openai": (through_litellm, "litellm"),
    "goldless azure:": (partial(through_goldless, provider="azure"), "goldless"),
    "goldless anthropic:": (partial(through_goldless, provider="anthropic"), "goldless"),
    "anthropic": (through_anthropic, "anthropic"),
    "litellm anthropic": (partial(through_litellm, provider="anthropic"), "litellm"),
    "goldless google:": (partial(through_goldless, provider="google"), "goldless"),
    "google-genai": (through_google, "google.genai"),
    "goldless mistral:": (partial(through_goldless, provider="mistral"), "goldless"),
    "mistralai": (through_mistral, "mistralai.client"),
}
"""Each with the module that it needs."""


@contextlib.contextmanager
def running_server(delay: float) -> Iterator[str]:
    """The server in a process of its own; its address."""
    command = [sys.executable, str(Path(__file__).with_name("judging_server.py")), "--delay", str(delay)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def read_stats(url: str) -> dict[str, float]:
    """What the server counted since it was last asked."""
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/stats") as reply:  # noqa: S310 - our own server
        return json.load(reply)  # type: ignore[no-any-return]


def measure(way: str, url: str, calls: int, concurrency: int) -> dict[str, float]:
    """One way in a process of its own, with what the server saw of it."""
    command = [sys.executable, __file__, "--way", way, "--url", url]
    command += ["--calls", str(calls), "--concurrency", str(concurrency)]
    read_stats(url)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])  # some clients print before it
    seen = read_stats(url)
    if seen["answered"] != calls:
        raise SystemExit(f"{way}: the server answered {seen['answered']} calls, not {calls}")
    return measured | {
        "server_seconds": seen["seconds"],
        "answering_seconds": seen["answering_seconds"],
        "most_at_once": seen["most_at_once"],
    }


def show(way: str, found: dict[str, float]) -> None:
    calls = found["calls"]
    print(
        f"  {way:19} {calls / found['seconds']:7.1f} calls/s   server's clock {calls / found['server_seconds']:7.1f}   "
        f"CPU {1e3 * found['cpu_seconds'] / calls:6.3f} ms a call   peak memory {found['peak_mib']:4.0f} MiB   "
        f"most at once {found['most_at_once']:.0f}"
    )


def compare(delay: float, calls: int, concurrency: int) -> None:
    """Both ways against a server of this delay."""
    print(f"\nserver answers {f'after {delay:g} s' if delay else 'at once'}:")
    found = {}
    with running_server(delay) as url:
        for way in WAYS:
            found[way] = measure(way, url, calls, concurrency)
            show(way, found[way])
    ours, theirs = found["goldless"], found["openai"]
    if delay:
        ideal = concurrency / delay
        best = calls / (math.ceil(calls / concurrency) * delay)
        rate = calls / ours["seconds"]
        for way, one in found.items():
            answering = (calls - 1) / one["answering_seconds"]
            share = f"{answering / ideal:.1%} of {ideal:.0f} calls/s (goal: at least 95 %)"
            print(f"  {way}, from the first to the last answer: {share}")
        print(
            f"  goldless, from the first question to the last judgement: {rate / ideal:.1%}; "
            f"{calls:,} calls can reach {best / ideal:.1%} at best"
        )
    print(
        f"  CPU a call, goldless / openai: {ours['cpu_seconds'] / theirs['cpu_seconds']:.3f} (goal: at most 0.333)   "
        f"calls/s, goldless / openai: {theirs['seconds'] / ours['seconds']:.2f}"
    )


def compare_providers(delay: float, calls: int, concurrency: int) -> None:
    """All that is installed, against a server of this delay, in the order of wire formats."""
    print(f"\nserver answers {f'after {delay:g} s' if delay else 'at once'}:")
    print(f"  {'':19} calls/s   share of ideal   CPU ms a call   peak MiB")
    with running_server(delay) as url:
        for way, (_, module) in PROVIDER_WAYS.items():
            if not _installed(module):
                print(f"  {way:19} not installed")
                continue
            one = measure(way, url, calls, concurrency)
            rate = calls / one["server_seconds"]
            best = calls / (math.ceil(calls / concurrency) * delay) if delay else 0.0
            share = f"{rate / best:14.1%}" if delay else f"{'':14}"
            cpu = 1e3 * one["cpu_seconds"] / calls
            print(f"  {way:19} {rate:7.1f}   {share}   {cpu:13.3f}   {one['peak_mib']:8.0f}", flush=True)


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--delay", type=float, nargs="+", default=(1.0, 0.0), help="seconds before each answer")
    parser.add_argument("--providers", action="store_true", help="goldless and other clients by wire format")
    parser.add_argument("--way", choices=WAYS | PROVIDER_WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        way = (WAYS | PROVIDER_WAYS)[arguments.way][0]
        print(json.dumps(anyio.run(way, arguments.url, arguments.calls, arguments.concurrency)))
        return 0
    print(f"{arguments.calls:,} pairwise judgements, {arguments.concurrency} at once")
    print(f"{os.cpu_count()} cores, load before: {os.getloadavg()[0]:.1f}")
    for delay in arguments.delay:
        (compare_providers if arguments.providers else compare)(delay, arguments.calls, arguments.concurrency)
    print(f"\nload after: {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
