"""The whole of ``goldless score`` beside the packed kernel alone, on the same requests.

    python benchmarks/speed/scoring_gpu.py --end-to-end
    python benchmarks/speed/scoring_end_to_end.py --stand-in 25000      # no card: one that only takes its time

A study made by seed is evaluated as the command does it, all pairs: texts are tokenised, packed, computed, journalled
and ranked. The model is loaded and its code compiled before the clock starts. Then the engine scores the very same
requests again, in the same calls, and nothing else: its pairs per second are what the whole is compared with.

Parts run side by side with the card and with each other: what counts is how long the card is idle. The canaries' report
is put into the journal beforehand: random weights read no context, and the check would rightly refuse them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import goldless
from goldless import scoring
from goldless.models import journalled
from goldless.models.canaries import CanaryReport
from goldless.models.interface import ModelIdentity, content_hash
from goldless.models.journal import Journal
from goldless.models.local_engine import LocalEngine
from goldless.models.local_model import LoadedModel, LocalModel
from goldless.models.local_weights import packed
from goldless.models.local_weights.engine import TorchEngine
from goldless.models.local_weights.packing import Lengths, Pack
from goldless.models.tokens import ChatLayout, KeptIds, fast_tokenizer
from goldless.records import Response, Task
from goldless.runs import pipeline
from goldless.studies import Study, study_from_records

WORDS, LONGEST_WORD = 4000, 4
SYNOPSIS_WORDS, RESPONSE_WORDS = 190, 200
SPREAD = 0.25
METRIC = "gem-s[prompt]"
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def made_study(tasks: int, agents: int, seed: int) -> Study:
    """Tasks and responses of made-up words, no text like another."""
    chance = np.random.default_rng(seed)
    syllables = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]
    words = ["".join(chance.choice(syllables, chance.integers(1, LONGEST_WORD))) for _ in range(WORDS)]

    def text(length: int) -> str:
        return " ".join(chance.choice(words, round(length * chance.uniform(1 - SPREAD, 1 + SPREAD))))

    names = [f"t{number:05}" for number in range(tasks)]
    return study_from_records(
        [Task(name, prompt=text(SYNOPSIS_WORDS)) for name in names],
        [Response(name, f"agent{place}", text(RESPONSE_WORDS)) for name in names for place in range(agents)],
    )


def trained_layout(study: Study) -> ChatLayout:
    """A chat layout with a byte-level tokenizer trained on the study's own first texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=3000, special_tokens=["<|start|>", "<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    texts = (response.text for _, responses in study for response in responses)
    tokenizer.train_from_iterator([text for text, _ in zip(texts, range(64), strict=False)], trainer)
    return ChatLayout(fast_tokenizer(tokenizer), TEMPLATE, begin="", end="<|end|>", add_begin=False)


TIMED = (
    (pipeline, "text_findings", "texts checked"),
    (ChatLayout, "read", "encode"),
    (LocalModel, "encode", "encode"),
    (Journal, "find", "journal"),
    (Journal, "_lease", "journal"),
    (journalled, "score_key", "journal"),
    (Journal, "record", "journal"),
    (scoring, "_row", "rows"),
    (scoring, "rows_frame", "rows"),
    (pipeline, "metric_outcome", "statistics"),
)
"""What is timed as which part."""
PARTS = ("texts checked", "encode", "plan", "read back", "journal", "rows", "statistics")


class Watch:
    """Seconds of each part, in all threads; what a part calls of itself counts once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._lock = threading.Lock()
        self._inside = threading.local()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the block."""
        inside = self._inside.__dict__.setdefault("names", [])
        begin = time.perf_counter()
        inside.append(name)
        try:
            yield
        finally:
            inside.pop()
            if not inside:
                with self._lock:
                    self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin

    def wrap(self, owner: Any, method: str, name: str) -> None:
        """Count all calls of a method."""
        original = getattr(owner, method)

        def timed(*arguments: Any, **options: Any) -> Any:
            with self.part(name):
                return original(*arguments, **options)

        setattr(owner, method, timed)

    def wrap_steps(self, owner: Any, method: str, name: str) -> None:
        """Count the steps of a generator."""
        original = getattr(owner, method)

        def timed(*arguments: Any, **options: Any) -> Iterator[Any]:
            steps = original(*arguments, **options)
            while True:
                with self.part(name):
                    try:
                        step = next(steps)
                    except StopIteration:
                        return
                yield step

        setattr(owner, method, timed)


class MadeModel(LocalModel):
    """A model in memory behind the interface of all local models; keeps the calls its engine gets."""

    def __init__(self, engine: Any, settings: dict[str, str], layout: ChatLayout) -> None:
        super().__init__()
        self._engine, self._settings, self._layout = engine, settings, layout
        self.calls: list[list[tuple[tuple[int, ...], tuple[int, ...]]]] = []
        inner = engine.score

        def score(requests: Any, **options: Any) -> Any:
            self.calls.append(list(requests))
            return inner(requests, **options)

        engine.score = score

    def forget(self) -> None:
        """Tokenise everything anew."""
        self._contexts = KeptIds()
        self._layout.tokenizer._kept = KeptIds()  # noqa: SLF001

    def _load(self) -> LoadedModel:
        identity = ModelIdentity("hf", "made", "0", "0", self._settings)
        return LoadedModel(identity, self._layout, None, self._layout.stop_tokens(), self._engine, together=True)


class Clock:
    """A card's busy time: from each sequence's first kernel to its last, as the card itself counts."""

    def __init__(self, network: Any, *, card: bool) -> None:
        self._marks: list[tuple[Any, Any]] = []
        self._network, self._card = network, card
        inner = network.logprobs

        def logprobs(pack: Pack) -> Any:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            values = inner(pack)
            end.record()
            self._marks.append((begin, end))
            return values

        if card:
            network.logprobs = logprobs

    def restart(self) -> None:
        """Count from here."""
        self._marks.clear()
        self._network.busy = 0.0

    @property
    def seconds(self) -> float:
        """Busy since then."""
        if not self._card:
            return float(self._network.busy)
        torch.cuda.synchronize()
        return sum(begin.elapsed_time(end) for begin, end in self._marks) / 1000


class StandIn(packed.PackedScorer):
    """A card that is none: it takes the time of so many tokens per second, and its values follow from the tokens."""

    def __init__(self, rate: float, lengths: Lengths) -> None:
        self.lengths = lengths
        self.busy = 0.0
        self._card = False
        self._rate, self._free_at = rate, 0.0

    def logprobs(self, pack: Pack) -> Any:
        """Values that are there when the time is over."""
        seconds = pack.length / self._rate
        self._free_at = ready = max(self._free_at, time.perf_counter()) + seconds
        self.busy += seconds
        values = -((pack.chosen * 7919 + pack.positions[pack.rows] * 104_729) % 1009) / np.float32(200)
        return _Later(torch.from_numpy(values.astype(np.float32)), ready)


class _Later:
    """A tensor that arrives at its time."""

    def __init__(self, values: Any, ready: float) -> None:
        self._values, self._ready = values, ready

    def to(self, *_device: Any, **_how: Any) -> Any:
        """The same, without waiting."""
        return self

    def numpy(self) -> Any:
        """The tensor as an array."""
        time.sleep(max(0.0, self._ready - time.perf_counter()))
        return self._values.numpy()


def stand_in_engine(rate: float, length: int) -> tuple[Any, dict[str, str]]:
    """An engine over a stand-in."""
    engine = object.__new__(TorchEngine)
    LocalEngine.__init__(engine, call_tokens=0)
    engine.packed = StandIn(rate, Lengths(length, min(length, 1024)))
    engine.weight_bytes = 0
    return engine, {"sharing": "packed prefix tree"}


def end_to_end(engine: Any, settings: dict[str, str], arguments: argparse.Namespace) -> None:
    """Measure and print."""
    watch = Watch()
    study = made_study(arguments.tasks, arguments.agents, arguments.seed)
    model = MadeModel(engine, settings, trained_layout(study))
    clock = Clock(engine.packed, card=torch.cuda.is_available())
    for owner, method, part in TIMED:
        if hasattr(owner, method):
            watch.wrap(owner, method, part)
    watch.wrap_steps(packed, "plan_packs", "plan")
    # everything is compiled by a first run under another journal
    _evaluate(made_study(arguments.tasks, arguments.agents, arguments.seed + 1), model)
    for number in range(arguments.repeats):
        model.calls.clear()
        watch.seconds.clear()
        clock.restart()
        begin = time.perf_counter()
        result = _evaluate(study, model)
        whole, busy = time.perf_counter() - begin, clock.seconds
        calls = [list(call) for call in model.calls]
        kernel = _kernel_seconds(engine, calls)
        pairs = sum(map(len, calls))
        tokens = sum(len(context) + len(target) for call in calls for context, target in call)
        model.forget()
        if not number:
            print(f"\n## end to end: {arguments.tasks} tasks x {arguments.agents} agents, {METRIC}: {pairs} requests")
            print(f"\n{tokens / pairs:.0f} tokens per request in {len(calls)} calls; sums {_digest(result)}\n")
            print("| | whole s | pairs/s | kernel s | pairs/s | ratio | card busy | idle | " + " | ".join(PARTS) + " |")
            print("|---|---|---|---|---|---|---|---|" + "---|" * len(PARTS))
        parts = " | ".join(f"{watch.seconds.get(part, 0.0):.2f}" for part in PARTS)
        print(
            f"| run {number + 1} | {whole:.2f} | {pairs / whole:.1f} | {kernel:.2f} | {pairs / kernel:.1f} | "
            f"{kernel / whole:.3f} | {busy:.2f} | {whole - busy:.2f} | {parts} |",
            flush=True,
        )


def _evaluate(study: Study, model: MadeModel) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        anyio.run(model.prepare)
        journal = Journal(path)
        passed = CanaryReport(tokens_counted=True, copied_nats=-1.0, shuffled_nats=-2.0, noise_nats=0.0)
        journal.keep_canary_report(model.identity, json.dumps(asdict(passed)))
        journal.close()
        return goldless.evaluate(study, metrics=METRIC, scorer=model, journal=path)


def _kernel_seconds(engine: Any, calls: Sequence[Any]) -> float:
    begin = time.perf_counter()
    for call in calls:
        engine.score(call)
    return time.perf_counter() - begin


def _digest(result: Any) -> str:
    """The sums in one word: two versions that print the same computed the same."""
    sums = result.evidence.logprobs.sort("task", "target", "given")["sum_logprob_nats"].to_list()
    return content_hash(sums)[:12]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stand-in", type=float, default=25_000, help="tokens per second of the stand-in")
    parser.add_argument("--length", type=int, default=65_536)
    add_options(parser)
    given = parser.parse_args(arguments)
    engine, settings = stand_in_engine(given.stand_in, given.length)
    end_to_end(engine, settings, given)
    return 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the study."""
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--agents", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)


if __name__ == "__main__":
    sys.exit(main())
