"""Boards of judged answers: MT-Bench as FastChat writes it, Arena-Hard, and people's votes in Arena."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goldless.studies.chats import said_by, turns
from goldless.studies.checking import Problems, Row
from goldless.studies.importers.log import Log, LogImporter, first_keys


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

    def add(self, kind: str, row: Row, log: Log, path: Path, number: int | None) -> None:
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


def _judge(row: Row) -> str:
    """The model that judged; FastChat writes it with the name of its prompt."""
    judge = row["judge"] if "judge" in row else row.get("g1_judge", "judge")
    return str(judge[0] if isinstance(judge, list) and judge else judge)


GAMES = {
    **dict.fromkeys(("A>>B", "A>B", "B<A", "B<<A"), 1.0),
    **dict.fromkeys(("A=B", "B=A"), 0.5),
    **dict.fromkeys(("B>A", "B>>A", "A<B", "A<<B"), 0.0),
}
"""Wins of A, by the labels of Arena-Hard's own ``show_result.py``."""
PREFERENCES = {"model_a": 1.0, "model_b": -1.0, "tie": 0.0, "both_bad": 0.0, "tie (bothbad)": 0.0}


class ArenaHard(LogImporter):
    """Answers to prompts, and a judge's games against a baseline; how clear a win was is not kept."""

    description = "Arena-Hard: question.jsonl, model_answer and model_judgment (.jsonl)"
    patterns = ("*.jsonl",)
    kinds: Mapping[str, set[str]] = {
        "answer": {"uid", "ans_id", "model", "messages"},
        "judgment": {"uid", "judge", "model", "baseline", "games"},
        "question": {"uid", "prompt"},
    }
    row_must = "a row must be a question, an answer or a judgment of Arena-Hard"
    task_columns = ("category",)

    def is_ours(self, path: Path) -> bool:
        """True if a file is in its format; questions of other tools may have the same keys, but no category."""
        return super().is_ours(path) and bool(first_keys(path) & {"ans_id", "games", "category"})

    def add(self, kind: str, row: Row, log: Log, path: Path, number: int | None) -> None:
        task = str(row["uid"])
        if kind == "question":
            log.about[task] = {"prompt": row["prompt"], "category": row.get("category")}
        elif kind == "answer":
            content = (row["messages"] or [{}])[-1].get("content")
            said = content.get("answer") if isinstance(content, dict) else content
            answer = {"task": task, "agent": str(row["model"]), "text": said if isinstance(said, str) else None}
            log.samples.append(answer | {"source": f"{path.name}:{number}"})
        else:
            sides = (str(row["baseline"]), str(row["model"]))  # in the first game, A is the baseline
            for game, (first, second) in zip(row["games"] or (), (sides, sides[::-1]), strict=False):
                won = GAMES.get(str((game or {}).get("score")))
                if won is None:
                    log.counted["games without a verdict are missing"] += 1
                else:
                    log.compared[str(row["judge"])].append((task, first, second, won))

    def finish(self, log: Log, problems: Problems) -> None:  # noqa: ARG002
        """Give each response its question, which may be in a later file."""
        for sample in log.samples:
            sample.update(log.about.get(sample["task"], {}))


class ArenaVotes(LogImporter):
    """Two responses a task, and which of them a person preferred; where both are bad, it is a tie."""

    description = "votes of Arena: model_a, model_b, winner and both conversations (.parquet, .jsonl, .json, .csv)"
    kinds: Mapping[str, set[str]] = {"vote": {"model_a", "model_b", "winner", "conversation_a", "conversation_b"}}
    row_must = "a vote must have conversation_a, conversation_b, model_a, model_b, winner"
    task_columns = ("language", "both_bad")

    def add(self, kind: str, row: Row, log: Log, path: Path, number: int | None) -> None:  # noqa: ARG002
        winner, place = str(row["winner"]), f"{path.name}:{number}"
        first, second = (str(row[f"model_{side}"]) for side in "ab")
        if first == second or winner not in PREFERENCES:
            what = "votes between a model and itself" if first == second else "votes without a winner"
            log.counted[f"{what} are left out"] += 1
            return
        task = str(row.get("id") or row.get("question_id") or place)
        talks = [turns(row[f"conversation_{side}"]) or [] for side in "ab"]
        about: dict[str, Any] = {"task": task, "prompt": said_by(talks[0], {"user"}), "language": row.get("language")}
        about |= {"both_bad": str("bad" in winner).lower(), "source": place}
        log.samples += [
            about | {"agent": model, "text": said_by(talk, {"assistant"})}
            for model, talk in zip((first, second), talks, strict=True)
        ]
        rater = str(row.get("evaluation_session_id") or row.get("judge") or "voter")
        given = {"task": task, "first": first, "second": second, "rater": rater}
        log.preferences.append(given | {"preference": PREFERENCES[winner]})

    def finish(self, log: Log, problems: Problems) -> None:  # noqa: ARG002
        if log.preferences:
            log.notes.append("two agents a task: use the labels, review and agree; metrics with peers need more")


MT_BENCH = FastChat()
ARENA_HARD = ArenaHard()
ARENA_VOTES = ArenaVotes()
