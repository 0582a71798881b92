"""Agreement with a public leaderboard that a constant text wins: AlpacaEval 2 and NullModel.

    python benchmarks/method/alpaca_board.py --instructions 8 --peers 4                  # a sample on the processor
    python benchmarks/method/alpaca_board.py --scorer hf:FOLDER --sums sums.jsonl        # all of it, on a GPU
    python benchmarks/method/alpaca_board.py --sums sums.jsonl                           # the tables again, no model
    python benchmarks/method/alpaca_board.py --data samsum_peer_prediction         # summaries in good faith or not

Reads the folder alpaca_eval in GOLDLESS_RECORDED or ../shared/data: 80 instructions, the answers of 22 models and of
NullModel, and each model's length-controlled win rate under the board's GPT-4 judge. Every answer, cut at --words, is
scored against the other models' answers to the same instruction and to --control-tasks others, once given nothing and
once given the instruction.

For each variant the table gives Spearman's correlation with the win rates of the 22 models, with a 95 % interval over
instructions; the partial correlation given the mean number of words; and the place and score of NullModel among the
23. All variants are listed. The last two columns are the partial correlation in each of two halves of the models, each
scored with its own half as peers: a variant is chosen on the first half and checked on the second.

--data samsum_peer_prediction or reddit_peer_prediction reads summaries by agents in good faith and by problematic ones
instead, without what they summarise: the table has the share of pairs of one each, of the same text, in which the one
in good faith has the higher score, with a 95 % interval over texts.

A machine without this project's packages: scoring needs numpy, anyio and what the scorer needs (torch, transformers and
safetensors for hf:FOLDER, onnxruntime for embedded and gguf:FILE). Write the texts to a file here, score there, read
the sums here; --sums is appended to after every instruction, so a run that is stopped goes on:

    python benchmarks/method/alpaca_board.py --export board.json
    PYTHONPATH=src python3 benchmarks/method/alpaca_board.py --board board.json --scorer hf:FOLDER --sums sums.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from goldless.judging.critic_questions import other_tasks
from goldless.models.catalogue import open_model
from goldless.models.interface import Message, content_hash
from goldless.records import CallFailure
from goldless.templates import find_template

Numbers = npt.NDArray[np.float64]
NULL = "NullModel"
RESAMPLES = 400
TRIMMED = 0.2


# --- the board -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Board:
    """Instructions, answers and what the public board says of each model."""

    prompts: Mapping[str, str]
    answers: Mapping[str, Mapping[str, str]]
    """By instruction and model."""
    win_rates: Mapping[str, float]
    """Length-controlled, in percent; of --data with groups 1 for good faith, 0 for problematic, 0.5 for neither."""

    def mean_words(self, agent: str) -> float:
        """Mean length of a model's answers."""
        return float(np.mean([len(by[agent].split()) for by in self.answers.values() if agent in by]))


def recorded_board(data: str) -> Board:
    """The board in the folder of recorded data."""
    import polars as pl  # noqa: PLC0415 - a machine that only scores has none

    root = Path(os.environ.get("GOLDLESS_RECORDED", Path(__file__).parents[3] / "shared" / "data")) / data
    if not root.is_dir():
        sys.exit(f"{root} is not a folder. Set GOLDLESS_RECORDED to the folder that has {data}")
    if data != "alpaca_eval":
        return grouped_board(root)
    agents = pl.read_csv(root / "agents.csv")
    answers: dict[str, dict[str, str]] = {}
    for row in pl.read_parquet(root / "responses.parquet").iter_rows(named=True):
        answers.setdefault(row["task"], {})[row["agent"]] = row["text"]
    return Board(
        dict(pl.read_parquet(root / "tasks.parquet").select("task", "prompt").iter_rows()),
        answers,
        dict(agents.select("agent", "length_controlled_winrate").iter_rows()),
    )


def grouped_board(root: Path) -> Board:
    """Summaries of agents in good faith and of problematic ones; what they summarise is not recorded."""
    rows = [json.loads(line) for line in (root / "agents.jsonl").read_text(encoding="utf-8").splitlines()]
    known = {"good faith": 1.0, "problematic": 0.0}
    answers: dict[str, dict[str, str]] = {}
    for line in (root / "responses.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        answers.setdefault(row["task"], {})[row["agent"]] = row["text"]
    return Board(dict.fromkeys(answers, ""), answers, {row["agent"]: known.get(row["group"], 0.5) for row in rows})


def cut(text: str, words: int) -> str:
    """The first words of a text, its line breaks kept."""
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    return text if len(ends) <= words else text[: ends[words - 1]]


# --- what is scored ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """Which log-probabilities are asked for."""

    board: Board
    tasks: Sequence[str]
    agents: Sequence[str]
    others: Mapping[tuple[str, str], Sequence[str]]
    """Other instructions for each answer that is predicted, by instruction and model."""
    words: int
    peers: int | None
    seed: int

    def text(self, task: str, agent: str) -> str:
        """An answer as it is scored."""
        return cut(self.board.answers[task][agent], self.words)

    def pairs(self, task: str) -> list[tuple[str, str]]:
        """Candidates and their peers: all ordered pairs, or as many peers of each as are asked for."""
        there = [agent for agent in self.agents if agent in self.board.answers[task]]
        steps = range(1, len(there))
        if self.peers is not None and self.peers < len(steps):
            drawn = np.random.default_rng(int(content_hash("rings", self.seed, task), 16)).permutation(len(steps))
            steps = [int(step) + 1 for step in drawn[: self.peers]]  # type: ignore[assignment]
        return [(a, there[(i + step) % len(there)]) for step in steps for i, a in enumerate(there)]

    def questions(self, task: str) -> Iterator[tuple[bool, str | None, str, str]]:
        """(under the prompt, candidate or none, peer, instruction of the peer's answer), each once."""
        pairs = self.pairs(task)
        peers = list(dict.fromkeys(peer for _, peer in pairs))
        for prompted in (False, True) if self.board.prompts[task] else (False,):
            for peer in peers:
                yield prompted, None, peer, task
            for peer in peers:
                # without a prompt an answer alone is the same whatever the instruction
                yield from ((True, None, peer, other) for other in self.others[task, peer] if prompted)
            for agent, peer in pairs:
                yield from ((prompted, agent, peer, other) for other in (task, *self.others[task, peer]))


def planned(board: Board, arguments: argparse.Namespace) -> Work:
    """The instructions that the most models answered first, in their own order."""
    agents = list(board.win_rates)
    full = sorted(board.answers, key=lambda task: -len(board.answers[task]))[: arguments.instructions]
    tasks = [task for task in board.prompts if task in set(full)]
    others: dict[tuple[str, str], Sequence[str]] = {}
    for agent in agents:
        own = [task for task in tasks if agent in board.answers[task]]
        drawn = other_tasks(own, arguments.control_tasks, content_hash("control", arguments.seed, agent))
        others |= {(task, agent): found for task, found in drawn.items()}
    return Work(board, tasks, agents, others, arguments.words, arguments.peers, arguments.seed)


async def score(work: Work, arguments: argparse.Namespace, sums: Path, done: set[str]) -> None:
    """Append the sums of every instruction that the file does not have."""
    template = find_template(arguments.template)
    model: Any = open_model(arguments.scorer, say=lambda said: print(said, file=sys.stderr))
    await model.prepare()
    begin, scored = time.perf_counter(), 0
    with sums.open("a", encoding="utf-8") as file:
        if not done:
            file.write(json.dumps(settings(arguments)) + "\n")
        for number, task in enumerate(work.tasks, 1):
            if task in done:
                continue
            asked = list(work.questions(task))
            requests = [
                await model.encode(
                    (
                        Message("system", template.predict),
                        Message(
                            "user",
                            template.question(
                                work.board.prompts[task] if prompted else None,
                                work.text(task, agent) if agent else None,
                            ),
                        ),
                    ),
                    work.text(other, peer),
                )
                for prompted, agent, peer, other in asked
            ]
            replies: dict[int, Any] = {}
            await model.score(requests, replies.update)
            rows = [(*question, *_sum(replies.get(i))) for i, question in enumerate(asked)]
            file.write(json.dumps({"task": task, "rows": rows}) + "\n")
            file.flush()
            scored += sum(request.tokens for request in requests)
            seconds = time.perf_counter() - begin
            print(
                f"{number} of {len(work.tasks)}: {scored:,} tokens asked, {seconds:.0f} s", file=sys.stderr, flush=True
            )
    await model.aclose()


def _sum(reply: Any) -> tuple[float | None, int]:
    if reply is None or isinstance(reply, CallFailure):
        return None, 0
    return float(sum(reply.logprobs)), len(reply.logprobs)


def settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the sums depend on."""
    names = ("scorer", "template", "words", "control_tasks", "peers", "seed")
    return {name: getattr(arguments, name) for name in names}


def read_sums(sums: Path, arguments: argparse.Namespace | None = None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The settings and the rows of a file of sums; refuses one made with other settings."""
    first, *rest = [json.loads(line) for line in sums.read_text(encoding="utf-8").splitlines()]
    if arguments is not None and first != settings(arguments):
        sys.exit(f"{sums} was made with {first}; got {settings(arguments)}. Name another file with --sums")
    return first, rest


# --- variants ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sums:
    """Pointwise mutual information [instructions, candidates, peers], NaN where it was not asked for."""

    matched: Numbers
    elsewhere: Numbers
    """Mean over the other instructions."""
    matched_per_token: Numbers
    elsewhere_per_token: Numbers

    @property
    def controlled(self) -> Numbers:
        """Less what is shared on other instructions."""
        return self.matched - self.elsewhere

    @property
    def controlled_per_token(self) -> Numbers:
        """The same per token of the peer's answer."""
        return self.matched_per_token - self.elsewhere_per_token


def tabulated(rows: Sequence[Mapping[str, Any]], agents: Sequence[str]) -> dict[bool, Sums]:
    """Without and with the prompt."""
    place = {agent: i for i, agent in enumerate(agents)}
    alone: dict[tuple[bool, str, str, str], float] = {}
    for row in rows:
        for prompted, agent, peer, other, total, _ in row["rows"]:
            if agent is None and total is not None:
                alone[prompted, row["task"], peer, other] = total
    found = {}
    for prompted in (False, True):
        shape = (len(rows), len(agents), len(agents))
        sums, counts = np.zeros((4, *shape)), np.zeros((2, *shape))
        for t, row in enumerate(rows):
            for asked, agent, peer, other, total, tokens in row["rows"]:
                own = (prompted, row["task"] if prompted else other, peer, other)
                if asked != prompted or agent is None or total is None or own not in alone:
                    continue
                shuffled = int(other != row["task"])
                at = t, place[agent], place[peer]
                information = total - alone[own]
                sums[(shuffled, *at)] += information
                sums[(2 + shuffled, *at)] += information / tokens
                counts[(shuffled, *at)] += 1
        with np.errstate(invalid="ignore"):
            found[prompted] = Sums(*(sums[i] / counts[i % 2] for i in range(4)))
    return found


def plain_mean(values: Numbers) -> Numbers:
    """Over peers, of those that are there."""
    return np.nanmean(values, axis=-1)


def median(values: Numbers) -> Numbers:
    """Over peers."""
    return np.nanmedian(values, axis=-1)


def trimmed(values: Numbers) -> Numbers:
    """Mean over peers without the largest and smallest fifth."""
    low, high = np.nanquantile(values, [TRIMMED, 1 - TRIMMED], axis=-1, keepdims=True)
    return np.nanmean(np.where((values >= low) & (values <= high), values, np.nan), axis=-1)


def by_quality(values: Numbers) -> Numbers:
    """Mean over the better half of the peers, by their own scores against all."""
    own = np.nanmean(values, axis=(0, 2))
    better = own >= np.median(own)
    return np.nanmean(np.where(better, values, np.nan), axis=-1)


def both_ways(values: Numbers) -> Numbers:
    """Mean of what an answer says of the peers' and theirs of it."""
    return np.nanmean(np.stack([np.nanmean(values, axis=2), np.nanmean(values, axis=1)]), axis=0)


def without_strongest(values: Numbers) -> Numbers:
    """Mean of both directions over peers without the one that an answer shares most with."""
    both = np.nanmean(np.stack([values, values.transpose(0, 2, 1)]), axis=0)
    counts = (~np.isnan(both)).sum(axis=2)
    return np.asarray((np.nansum(both, axis=2) - np.nanmax(both, axis=2)) / np.where(counts > 1, counts - 1, np.nan))


Of = Callable[[Numbers], Numbers]
VARIANTS: Mapping[str, tuple[bool, str, Of]] = {
    "gem-raw": (False, "matched", plain_mean),
    "gem-raw+control": (False, "controlled", plain_mean),
    "gem-s[prompt]": (True, "matched", plain_mean),
    "gem-s[prompt]+control": (True, "controlled", plain_mean),
    "gem-raw+control, per token": (False, "controlled_per_token", plain_mean),
    "gem-s[prompt]+control, per token": (True, "controlled_per_token", plain_mean),
    "gem-s[prompt]+control, median over peers": (True, "controlled", median),
    "gem-s[prompt]+control, trimmed mean over peers": (True, "controlled", trimmed),
    "gem-s[prompt]+control, better half of the peers": (True, "controlled", by_quality),
    "gem-s[prompt]+control, both directions": (True, "controlled", both_ways),
    "gem-raw+control, both directions": (False, "controlled", both_ways),
    "shared-info": (False, "controlled", without_strongest),
    "shared-info[prompt]": (True, "controlled", without_strongest),
}
"""Under the prompt or not, what of it, and how it is averaged over peers. --words and --template make two more."""


# --- agreement -----------------------------------------------------------------------------------------------------


def ranks(values: Numbers) -> Numbers:
    """From 1, equal values share their mean rank."""
    order = np.sort(values)
    return (np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right") + 1) / 2


def spearman(x: Numbers, y: Numbers) -> float:
    """Correlation of ranks."""
    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def partial(x: Numbers, y: Numbers, z: Numbers) -> float:
    """Spearman's correlation of x and y given z."""
    xy, xz, yz = spearman(x, y), spearman(x, z), spearman(y, z)
    return (xy - xz * yz) / float(np.sqrt((1 - xz**2) * (1 - yz**2)))


def agreement(scores: Numbers, wins: Numbers, lengths: Numbers) -> tuple[float, float]:
    """Of instructions by models: Spearman of the means with the win rates, and the same given length."""
    means = np.nanmean(scores, axis=0)
    return spearman(means, wins), partial(means, wins, lengths)


def report(board: Board, sums: Path) -> None:
    """Print the table of all variants."""
    made, rows = read_sums(sums)
    agents = list(board.win_rates)
    if NULL not in agents:
        report_groups(rows, board)
        return
    null = agents.index(NULL)
    models = np.array([i for i in range(len(agents)) if i != null])
    wins = np.array([board.win_rates[agent] for agent in agents])
    lengths = np.array([board.mean_words(agent) for agent in agents])
    tables = tabulated(rows, agents)
    order = models[np.argsort(wins[models])]
    halves = order[::2], order[1::2]
    random = np.random.default_rng(0)
    draws = random.integers(0, len(rows), (RESAMPLES, len(rows)))
    print(
        f"{len(rows)} instructions; {', '.join(f'{key} {value}' for key, value in made.items() if value is not None)}"
    )
    length = spearman(lengths[models], wins[models])
    print(f"Mean words alone: Spearman {length:.2f} with the win rates of the {len(models)} models.\n")
    print("| variant | Spearman | given length | NullModel's place | its score | first half | second half |")
    print("|---|---|---|---|---|---|---|")
    for name, (prompted, what, over) in VARIANTS.items():
        values = getattr(tables[prompted], what)
        scores = over(values)
        found = agreement(scores[:, models], wins[models], lengths[models])
        drawn = np.array([agreement(scores[draw][:, models], wins[models], lengths[models]) for draw in draws])
        low, high = np.nanquantile(drawn, [0.025, 0.975], axis=0)
        means = np.nanmean(scores, axis=0)
        place = 1 + int((means > means[null]).sum())
        error = float(np.nanstd(scores[:, null], ddof=1) / np.sqrt(len(rows)))
        split = [
            agreement(over(values[np.ix_(range(len(rows)), half, half)]), wins[half], lengths[half])[1]
            for half in halves
        ]
        cells = [f"{x:.2f} ({a:.2f} … {b:.2f})" for x, a, b in zip(found, low, high, strict=True)]
        print(
            f"| {name} | {cells[0]} | {cells[1]} | {place} of {len(agents)} | {means[null]:.2f} ± {error:.2f} "
            f"| {split[0]:.2f} | {split[1]:.2f} |"
        )


def report_groups(rows: Sequence[Mapping[str, Any]], board: Board) -> None:
    """Print how often an agent in good faith is above a problematic one on the same text, under each variant."""
    agents, group = list(board.win_rates), np.array(list(board.win_rates.values()))
    tables = tabulated(rows, agents)
    draws = np.random.default_rng(0).integers(0, len(rows), (RESAMPLES, len(rows)))
    print(f"{len(rows)} texts, {int((group == 1).sum())} agents in good faith, {int((group == 0).sum())} problematic\n")
    print("| variant | good faith above problematic |")
    print("|---|---|")
    for name, (prompted, what, over) in VARIANTS.items():
        if prompted:
            continue
        scores = over(getattr(tables[False], what))
        apart = scores[:, group == 1][:, :, None] - scores[:, group == 0][:, None, :]
        by_text = np.where(apart > 0, 1.0, np.where(apart == 0, 0.5, 0.0)).mean(axis=(1, 2))
        low, high = np.quantile(by_text[draws].mean(axis=1), [0.025, 0.975])
        print(f"| {name} | {by_text.mean():.2f} ({low:.2f} … {high:.2f}) |")


def main() -> None:
    """Export the board, score it, or print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scorer", default="embedded", help="embedded, gguf:FILE or hf:FOLDER_OR_NAME[?dtype=…].")
    parser.add_argument("--instructions", type=int, default=80, help="Number of instructions (default: 80, all).")
    parser.add_argument("--words", type=int, default=200, help="Cut answers at this many words (default: 200).")
    parser.add_argument("--control-tasks", type=int, default=1, help="Other instructions per answer (default: 1).")
    parser.add_argument("--peers", type=int, help="Peers per answer, drawn anew for each instruction (default: all).")
    parser.add_argument("--template", default="general", help="Prompt wording: general, plain or peer-review.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the draws (default: 0).")
    parser.add_argument("--sums", type=Path, help="File of sums to go on with, or to print the tables from.")
    parser.add_argument("--data", default="alpaca_eval", help="Folder of recorded data (default: alpaca_eval).")
    parser.add_argument("--board", type=Path, help="A file that --export wrote, instead of the folder.")
    parser.add_argument("--export", type=Path, help="Write texts and win rates to this file, and stop.")
    arguments = parser.parse_args()
    read = arguments.board and Board(**json.loads(arguments.board.read_text(encoding="utf-8")))
    board = read or recorded_board(arguments.data)
    if arguments.export:
        arguments.export.write_text(json.dumps(asdict(board), ensure_ascii=False), encoding="utf-8")
        return
    scoring = "--scorer" in " ".join(sys.argv) or not (arguments.sums and arguments.sums.exists())
    sums = arguments.sums or Path(f"alpaca_sums_{content_hash(settings(arguments), arguments.instructions)[:8]}.jsonl")
    warnings.filterwarnings("ignore", "Mean of empty slice")  # an answer without a peer of the kind is missing
    if scoring:
        done = {row["task"] for row in read_sums(sums, arguments)[1]} if sums.exists() else set()
        asyncio.run(score(planned(board, arguments), arguments, sums, done))
    report(board, sums)


if __name__ == "__main__":
    main()
