"""Arena: files of Arena-Hard, and votes of people between two anonymous models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from goldless.studies.checking import Problems
from goldless.studies.importers.comparisons import Votes
from goldless.studies.importers.files import first_line, log_files, numbered_rows
from goldless.studies.importers.log import Log, samples_frame
from goldless.studies.tables import FORMATS, Source

ANSWER = {"uid", "ans_id", "model", "messages"}
JUDGMENT = {"uid", "judge", "model", "baseline", "games"}
QUESTION = {"uid", "prompt"}
GAMES = {"A>>B": 1.0, "A>B": 1.0, "A=B": 0.5, "B>A": 0.0, "B>>A": 0.0}
VOTE = {"model_a", "model_b", "winner", "conversation_a", "conversation_b"}
PREFERENCES = {"model_a": 1.0, "model_b": -1.0, "tie": 0.0, "both_bad": 0.0, "tie (bothbad)": 0.0}
BOTH_BAD = ("both_bad", "tie (bothbad)")


class ArenaHard:
    """Answers to prompts, and a judge's games against a baseline."""

    description = "Arena-Hard: question.jsonl, model_answer and model_judgment (.jsonl)"

    def recognises(self, path: Path) -> bool:
        """Whether it is such a file, or a folder with one."""
        found = (first_line(file).keys() for file in log_files([path], "*.jsonl"))
        return any(keys >= ANSWER or keys >= JUDGMENT or keys >= {*QUESTION, "category"} for keys in found)

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        """Responses, and a table ``judge_NAME`` per judge; how clear a win was is not kept."""
        prompts: dict[str, Mapping[str, Any]] = {}
        samples, votes, lost = [], Votes(), 0
        for path in log_files(paths, "*.jsonl"):
            for number, row in numbered_rows(path, problems):
                if row.keys() >= ANSWER:
                    answer = {"task": str(row["uid"]), "agent": str(row["model"]), "text": _answer(row)}
                    samples.append(answer | {"source": f"{path.name}:{number}"})
                elif row.keys() >= JUDGMENT:
                    lost += _games(row, votes)
                elif row.keys() >= QUESTION:
                    prompts[str(row["uid"])] = row
                else:
                    problems.add("a row must be a question, an answer or a judgment of Arena-Hard", path.name, number)
        for sample in samples:
            question = prompts.get(str(sample["task"]), {})
            sample |= {"prompt": question.get("prompt"), "category": question.get("category")}
        notes = [f"{lost} games without a verdict are missing"] * bool(lost)
        return Log(samples_frame(samples), task_columns=("category",), tables=votes.tables(), notes=notes)


def _answer(row: Mapping[str, Any]) -> str | None:
    """The last message's answer."""
    content = (row["messages"] or [{}])[-1].get("content")
    found = content.get("answer") if isinstance(content, dict) else content
    return found if isinstance(found, str) else None


def _games(row: Mapping[str, Any], votes: Votes) -> int:
    """Add both games; the number of them without a verdict. In the first, A is the baseline."""
    sides = (str(row["baseline"]), str(row["model"]))
    lost = 0
    for game, (first, second) in zip(row["games"] or (), (sides, sides[::-1]), strict=False):
        won = GAMES.get(str((game or {}).get("score")))
        if won is None:
            lost += 1
        else:
            votes.add(str(row["judge"]), str(row["uid"]), first, second, won)
    return lost


class ArenaVotes:
    """Votes: two responses a task, and which of them a person preferred."""

    description = "votes of Arena: model_a, model_b, winner and both conversations (.parquet, .jsonl, .json, .csv)"

    def recognises(self, path: Path) -> bool:
        """Whether it is a table of votes."""
        if not path.is_file() or path.suffix.lower() not in FORMATS:
            return False
        first = next(Source(path, path.name).chunks(Problems()), None)
        return first is not None and first.rows[0].keys() >= VOTE

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        """Responses and people's preferences; where both are bad, it is a tie, and ``both_bad`` of the task is true."""
        samples: list[dict[str, Any]] = []
        labels: list[dict[str, Any]] = []
        skipped: Counter[str] = Counter()
        for place, row in _votes(paths, problems):
            winner, models = str(row["winner"]), [str(row[f"model_{side}"]) for side in "ab"]
            if models[0] == models[1]:
                skipped["votes between a model and itself"] += 1
                continue
            if winner not in PREFERENCES:
                skipped["votes without a winner"] += 1
                continue
            task = str(row.get("id") or row.get("question_id") or place)
            talks = [_messages(row[f"conversation_{side}"]) for side in "ab"]
            about = {"prompt": _said(talks[0], "user"), "language": row.get("language")}
            about |= {"both_bad": str(winner in BOTH_BAD).lower(), "source": place}
            samples += [
                {"task": task, "agent": model, "text": _said(talk, "assistant"), **about}
                for model, talk in zip(models, talks, strict=True)
            ]
            rater = str(row.get("evaluation_session_id") or row.get("judge") or "voter")
            labels.append(
                {"task": task, "first": models[0], "second": models[1], "rater": rater}
                | {"preference": PREFERENCES[winner]}
            )
        notes = [f"{count:,} {what} are left out" for what, count in skipped.items()]
        notes += ["two agents a task: use the labels, review and agree; metrics with peers need more"] * bool(labels)
        return Log(
            samples_frame(samples),
            task_columns=("language", "both_bad"),
            tables={"labels": pl.DataFrame(labels)} if labels else {},
            notes=notes,
        )


def _votes(paths: Sequence[Path], problems: Problems) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in paths:
        for number, row in numbered_rows(path, problems):
            if row.keys() >= VOTE:
                yield f"{path.name}:{number}", row
            else:
                problems.add(f"a vote must have {', '.join(sorted(VOTE))}", path.name, number)


def _messages(conversation: Any) -> list[Mapping[str, Any]]:
    if isinstance(conversation, str):
        try:
            conversation = orjson.loads(conversation)
        except orjson.JSONDecodeError:
            return []
    return [one for one in conversation or () if isinstance(one, dict)]


def _said(messages: Sequence[Mapping[str, Any]], role: str) -> str:
    """Everything that one side said, turn by turn; parts that are no text are left out."""
    turns = []
    for one in messages:
        if one.get("role") == role:
            content = one.get("content")
            parts = content if isinstance(content, list) else [content]
            texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
            turns.append("".join(text for text in texts if isinstance(text, str)))
    return "\n\n".join(turns)
