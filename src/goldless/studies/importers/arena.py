"""Arena: files of Arena-Hard, and votes of people between two anonymous models."""

from __future__ import annotations

from pathlib import Path

from goldless.studies.chats import said_by, turns
from goldless.studies.checking import Problems
from goldless.studies.importers.log import Found, LogImporter, first_line, numbered_rows
from goldless.studies.tables import FORMATS, Source

ANSWER = {"uid", "ans_id", "model", "messages"}
JUDGMENT = {"uid", "judge", "model", "baseline", "games"}
QUESTION = {"uid", "prompt"}
GAMES = {"A>>B": 1.0, "A>B": 1.0, "A=B": 0.5, "B>A": 0.0, "B>>A": 0.0}
VOTE = {"model_a", "model_b", "winner", "conversation_a", "conversation_b"}
PREFERENCES = {"model_a": 1.0, "model_b": -1.0, "tie": 0.0, "both_bad": 0.0, "tie (bothbad)": 0.0}
BOTH_BAD = ("both_bad", "tie (bothbad)")


class ArenaHard(LogImporter):
    """Answers to prompts, and a judge's games against a baseline; how clear a win was is not kept."""

    description = "Arena-Hard: question.jsonl, model_answer and model_judgment (.jsonl)"
    patterns = ("*.jsonl",)
    task_columns = ("category",)

    def is_ours(self, path: Path) -> bool:
        keys = first_line(path).keys()
        return keys >= ANSWER or keys >= JUDGMENT or keys >= {*QUESTION, "category"}

    def read_file(self, path: Path, found: Found, problems: Problems) -> None:
        for number, row in numbered_rows(path, problems):
            if row.keys() >= ANSWER:
                content = (row["messages"] or [{}])[-1].get("content")
                said = content.get("answer") if isinstance(content, dict) else content
                text = said if isinstance(said, str) else None
                answer = {"task": str(row["uid"]), "agent": str(row["model"]), "text": text}
                found.samples.append(answer | {"source": f"{path.name}:{number}"})
            elif row.keys() >= JUDGMENT:
                sides = (str(row["baseline"]), str(row["model"]))  # in the first game, A is the baseline
                for game, (first, second) in zip(row["games"] or (), (sides, sides[::-1]), strict=False):
                    won = GAMES.get(str((game or {}).get("score")))
                    if won is None:
                        found.counted["games without a verdict are missing"] += 1
                    else:
                        found.compared[str(row["judge"])].append((str(row["uid"]), first, second, won))
            elif row.keys() >= QUESTION:
                found.questions[str(row["uid"])] = {"prompt": row["prompt"], "category": row.get("category")}
            else:
                problems.add("a row must be a question, an answer or a judgment of Arena-Hard", path.name, number)

    def finish(self, found: Found, problems: Problems) -> None:  # noqa: ARG002
        """Give each response its question, which may be in a later file."""
        for sample in found.samples:
            sample.update(found.questions.get(sample["task"], {}))


class ArenaVotes(LogImporter):
    """Two responses a task, and which of them a person preferred; where both are bad, it is a tie."""

    description = "votes of Arena: model_a, model_b, winner and both conversations (.parquet, .jsonl, .json, .csv)"
    patterns = ()
    task_columns = ("language", "both_bad")

    def is_ours(self, path: Path) -> bool:
        known = path.is_file() and path.suffix.lower() in FORMATS
        return known and Source(path, path.name).first_row().keys() >= VOTE

    def read_file(self, path: Path, found: Found, problems: Problems) -> None:
        for number, row in numbered_rows(path, problems):
            if not row.keys() >= VOTE:
                problems.add(f"a vote must have {', '.join(sorted(VOTE))}", path.name, number)
                continue
            winner, place = str(row["winner"]), f"{path.name}:{number}"
            first, second = (str(row[f"model_{side}"]) for side in "ab")
            if first == second or winner not in PREFERENCES:
                what = "votes between a model and itself" if first == second else "votes without a winner"
                found.counted[f"{what} are left out"] += 1
                continue
            task = str(row.get("id") or row.get("question_id") or place)
            talks = [turns(row[f"conversation_{side}"]) or [] for side in "ab"]
            about = {"task": task, "prompt": said_by(talks[0], {"user"}), "language": row.get("language")}
            about |= {"both_bad": str(winner in BOTH_BAD).lower(), "source": place}
            found.samples += [
                about | {"agent": model, "text": said_by(talk, {"assistant"})}
                for model, talk in zip((first, second), talks, strict=True)
            ]
            rater = str(row.get("evaluation_session_id") or row.get("judge") or "voter")
            given = {"task": task, "first": first, "second": second, "rater": rater}
            found.preferences.append(given | {"preference": PREFERENCES[winner]})

    def finish(self, found: Found, problems: Problems) -> None:  # noqa: ARG002
        """Say what can be done with two agents a task."""
        if found.preferences:
            found.notes.append("two agents a task: use the labels, review and agree; metrics with peers need more")
