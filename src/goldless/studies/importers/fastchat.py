"""MT-Bench as FastChat writes it: ``question.jsonl``, ``model_answer/*.jsonl`` and judgments, single or of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goldless.studies.checking import Problems
from goldless.studies.importers.log import Found, LogImporter, first_line, numbered_rows

KINDS: Mapping[str, set[str]] = {
    "answer": {"question_id", "model_id", "choices"},
    "single": {"question_id", "model", "judge", "score", "turn"},
    "pair": {"question_id", "model_1", "model_2", "g1_winner", "g2_winner"},
    "question": {"question_id", "turns"},
}
"""The keys by which a row is known."""
LEVELS = "10-level"


class FastChat(LogImporter):
    """Answers to questions of one or more turns, a task each, with judges' ratings and comparisons."""

    description = "MT-Bench of FastChat: questions, model_answer and model_judgment (.jsonl)"
    patterns = ("*.jsonl",)
    task_columns = ("category",)

    def is_ours(self, path: Path) -> bool:
        return _kind(first_line(path)) is not None

    def read_file(self, path: Path, found: Found, problems: Problems) -> None:
        for number, row in numbered_rows(path, problems):
            kind = _kind(row)
            if kind == "question":
                found.questions[str(row["question_id"])] = row
            elif kind == "answer":
                found.samples += _samples(row, f"{path.name}:{number}")
            elif kind == "pair":
                _compare(row, found)
            elif kind == "single":
                found.judgements.append(row)
            else:
                problems.add("a row must be a question, an answer or a judgment of MT-Bench", path.name, number)

    def finish(self, found: Found, problems: Problems) -> None:  # noqa: ARG002
        """Give responses their questions, and ratings their responses."""
        for sample in found.samples:
            question, turn = found.questions.get(sample.pop("question"), {}), sample.pop("turn")
            asked, references = list(question.get("turns") or ()), list(question.get("reference") or ())
            # the prompt of a later turn has what the user said before
            sample["prompt"] = "\n\n".join(map(str, asked[:turn])) if len(asked) >= turn else None
            sample["reference"] = str(references[turn - 1]) if len(references) >= turn else None
            sample["category"] = question.get("category")
        place_of = {(one["task"], one["agent"]): i for i, one in reversed(list(enumerate(found.samples)))}
        rated, found.judgements = found.judgements, []
        for row in rated:
            place = place_of.get((f"{row['question_id']}/{row['turn']}", str(row["model"])))
            if place is None or not isinstance(row["score"], int | float) or row["score"] < 0:
                found.counted["ratings without a result are missing"] += 1
                continue
            said = {"output": str(row.get("judgment") or ""), "value": float(row["score"])}
            found.judgements.append({"row": place, "reviewer": _judge(row), "format": LEVELS, **said})


def _kind(row: Mapping[str, Any]) -> str | None:
    return next((kind for kind, keys in KINDS.items() if row.keys() >= keys), None)


def _judge(row: Mapping[str, Any]) -> str:
    """The model that judged; FastChat writes it with the name of its prompt."""
    judge = row["judge"] if "judge" in row else row.get("g1_judge", "judge")
    return str(judge[0] if isinstance(judge, list) and judge else judge)


def _samples(row: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Each turn of each choice."""
    question = str(row["question_id"])
    return [
        {"task": f"{question}/{turn}", "agent": str(row["model_id"]), "text": text, "source": place}
        | {"question": question, "turn": turn}
        for choice in row["choices"]
        for turn, text in enumerate(choice.get("turns") or (), 1)
    ]


def _compare(row: Mapping[str, Any], found: Found) -> None:
    """Add both orders; in the second game, model_2 is shown first."""
    one, two = str(row["model_1"]), str(row["model_2"])
    task = f"{row['question_id']}/{row.get('turn', 1)}"
    for winner, first, second in ((row["g1_winner"], one, two), (row["g2_winner"], two, one)):
        won = 0.5 if winner == "tie" else {"model_1": one, "model_2": two}.get(str(winner))
        if won is None:
            found.counted["comparisons without a result are missing"] += 1
        else:
            found.compared[_judge(row)].append((task, first, second, won if won == 0.5 else float(won == first)))
