"""MT-Bench as FastChat writes it: questions of several turns, answers, and judges' ratings and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goldless.studies.checking import Problems
from goldless.studies.importers.log import Log, LogImporter


class FastChat(LogImporter):
    """Answers to questions of one or more turns, a task each, with judges' ratings and comparisons."""

    description = "MT-Bench of FastChat: questions, model_answer and model_judgment (.jsonl)"
    patterns = ("*.jsonl",)
    kinds: Mapping[str, set[str]] = {
        "answer": {"question_id", "model_id", "choices"},
        "single": {"question_id", "model", "judge", "score", "turn"},
        "pair": {"question_id", "model_1", "model_2", "g1_winner", "g2_winner"},
        "question": {"question_id", "turns"},
    }
    row_must = "a row must be a question, an answer or a judgment of MT-Bench"
    task_columns = ("category",)

    def add(self, kind: str, row: Mapping[str, Any], log: Log, path: Path, number: int | None) -> None:
        question = str(row["question_id"])
        if kind == "question":
            log.about[question] = row
        elif kind == "answer":
            log.samples += [
                {"task": f"{question}/{turn}", "agent": str(row["model_id"]), "text": text}
                | {"source": f"{path.name}:{number}", "question": question, "turn": turn}
                for choice in row["choices"]
                for turn, text in enumerate(choice.get("turns") or (), 1)
            ]
        elif kind == "single":
            log.judgements.append(row)
        else:
            one, two = str(row["model_1"]), str(row["model_2"])
            won = {"model_1": (1.0, 0.0), "model_2": (0.0, 1.0), "tie": (0.5, 0.5)}
            # in the second game, model_2 is shown first
            for winner, first, second in ((row["g1_winner"], one, two), (row["g2_winner"], two, one)):
                if str(winner) in won:
                    wins = won[str(winner)][0 if first is one else 1]
                    log.compared[_judge(row)].append((f"{question}/{row.get('turn', 1)}", first, second, wins))
                else:
                    log.counted["comparisons without a result are missing"] += 1

    def finish(self, log: Log, problems: Problems) -> None:  # noqa: ARG002
        """Give responses their questions, and ratings their responses."""
        for sample in log.samples:
            question, turn = log.about.get(sample.pop("question"), {}), sample.pop("turn")
            asked, references = list(question.get("turns") or ()), list(question.get("reference") or ())
            # the prompt of a later turn has what the user said before
            sample["prompt"] = "\n\n".join(map(str, asked[:turn])) if len(asked) >= turn else None
            sample["reference"] = str(references[turn - 1]) if len(references) >= turn else None
            sample["category"] = question.get("category")
        place_of = {(one["task"], one["agent"]): i for i, one in reversed(list(enumerate(log.samples)))}
        rated, log.judgements = log.judgements, []
        for row in rated:
            place = place_of.get((f"{row['question_id']}/{row['turn']}", str(row["model"])))
            if place is None or not isinstance(row["score"], int | float) or row["score"] < 0:
                log.counted["ratings without a result are missing"] += 1
                continue
            said = {"output": str(row.get("judgment") or ""), "value": float(row["score"])}
            log.judgements.append({"row": place, "reviewer": _judge(row), "format": "10-level", **said})


def _judge(row: Mapping[str, Any]) -> str:
    """The model that judged; FastChat writes it with the name of its prompt."""
    judge = row["judge"] if "judge" in row else row.get("g1_judge", "judge")
    return str(judge[0] if isinstance(judge, list) and judge else judge)


MT_BENCH = FastChat()
