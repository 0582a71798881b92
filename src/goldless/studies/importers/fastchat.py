"""MT-Bench as FastChat writes it: ``question.jsonl``, ``model_answer/*.jsonl`` and judgments, single or of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from goldless.studies.checking import Problems
from goldless.studies.importers.comparisons import Votes
from goldless.studies.importers.files import first_line, log_files, numbered_rows
from goldless.studies.importers.log import Log, samples_frame

KINDS: Mapping[str, set[str]] = {
    "answer": {"question_id", "model_id", "choices"},
    "single": {"question_id", "model", "judge", "score", "turn"},
    "pair": {"question_id", "model_1", "model_2", "g1_winner", "g2_winner"},
    "question": {"question_id", "turns"},
}
"""The keys by which a row is known."""
LEVELS = "10-level"


class FastChat:
    """Answers to questions of one or more turns, a task each, with what judges said of them."""

    description = "MT-Bench of FastChat: questions, model_answer and model_judgment (.jsonl)"

    def recognises(self, path: Path) -> bool:
        """Whether it is such a file, or a folder with one."""
        return any(_kind(first_line(file)) for file in log_files([path], "*.jsonl"))

    def read(self, paths: Sequence[Path], problems: Problems, **_options: Any) -> Log:
        """Responses by question and turn; a judge's ratings are judgements, its comparisons a table ``judge_NAME``."""
        rows: dict[str, list[tuple[str, Mapping[str, Any]]]] = {kind: [] for kind in KINDS}
        for path in log_files(paths, "*.jsonl"):
            for number, row in numbered_rows(path, problems):
                if (kind := _kind(row)) is None:
                    problems.add("a row must be a question, an answer or a judgment of MT-Bench", path.name, number)
                else:
                    rows[kind].append((f"{path.name}:{number}", row))
        questions = {str(row["question_id"]): row for _, row in rows["question"]}
        samples = [sample for place, row in rows["answer"] for sample in _samples(row, place, questions)]
        votes, lost = Votes(), Counter[str]()
        lost["comparisons"] = sum(_compare(row, votes) for _, row in rows["pair"])
        place_of = {(one["task"], one["agent"]): i for i, one in reversed(list(enumerate(samples)))}
        judgements = []
        for _, rated in rows["single"]:
            place = place_of.get((_task(rated, rated["turn"]), str(rated["model"])))
            if place is None or not isinstance(rated["score"], int | float) or rated["score"] < 0:
                lost["ratings"] += 1
                continue
            said = {"output": str(rated.get("judgment") or ""), "value": float(rated["score"])}
            judgements.append({"row": place, "reviewer": _judge(rated), "format": LEVELS, **said})
        notes = [f"{count} {what} without a result are missing" for what, count in lost.items() if count]
        return Log(
            samples_frame(samples),
            task_columns=("category",),
            judgements=pl.DataFrame(judgements) if judgements else None,
            tables=votes.tables(),
            notes=notes,
        )


def _kind(row: Mapping[str, Any]) -> str | None:
    return next((kind for kind, keys in KINDS.items() if row.keys() >= keys), None)


def _task(row: Mapping[str, Any], turn: Any) -> str:
    return f"{row['question_id']}/{turn}"


def _judge(row: Mapping[str, Any]) -> str:
    """The model that judged; FastChat writes it with the name of its prompt."""
    judge = row["judge"] if "judge" in row else row.get("g1_judge", "judge")
    return str(judge[0] if isinstance(judge, list) and judge else judge)


def _samples(row: Mapping[str, Any], place: str, questions: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each turn of each choice; the prompt of a later turn has what the user said before."""
    question = questions.get(str(row["question_id"]), {})
    asked, references = list(question.get("turns") or ()), list(question.get("reference") or ())
    return [
        {
            "task": _task(row, turn),
            "agent": str(row["model_id"]),
            "text": text,
            "prompt": "\n\n".join(map(str, asked[:turn])) if len(asked) >= turn else None,
            "reference": str(references[turn - 1]) if len(references) >= turn else None,
            "category": question.get("category"),
            "source": place,
        }
        for choice in row["choices"]
        for turn, text in enumerate(choice.get("turns") or (), 1)
    ]


def _compare(row: Mapping[str, Any], votes: Votes) -> int:
    """Add both orders; the number of them without a winner. In the second game, model_2 is shown first."""
    one, two = str(row["model_1"]), str(row["model_2"])
    task, lost = _task(row, row.get("turn", 1)), 0
    for winner, first, second in ((row["g1_winner"], one, two), (row["g2_winner"], two, one)):
        result = 0.5 if winner == "tie" else {"model_1": one, "model_2": two}.get(str(winner))
        if result is None:
            lost += 1
        else:
            votes.add(_judge(row), task, first, second, result if result == 0.5 else float(result == first))
    return lost
