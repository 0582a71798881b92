"""Results as MT-Bench, Arena-Hard, HELM and lighteval write them, made after their published schemas.

FastChat 0e6d3e4, Arena-Hard 196f6b8, HELM 63754d0, lighteval 3fd1526.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tests.support.study_files import write_rows


def mt_bench(folder: Path) -> Path:
    """Two turns of two models, graded one by one and compared; the second grade and a second game failed."""
    question = {"question_id": 81, "category": "writing", "turns": ["Write.", "Shorter."], "reference": ["Done.", "D."]}
    write_rows(folder / "question.jsonl", [question])
    for model, turns in {"m-1": ["A long text.", "Text."], "m-2": ["Another.", "An."]}.items():
        answer = {"question_id": 81, "answer_id": "x", "model_id": model, "tstamp": 1.0}
        write_rows(folder / "model_answer" / f"{model}.jsonl", [answer | {"choices": [{"index": 0, "turns": turns}]}])
    single = {"question_id": 81, "model": "m-1", "judge": ["gpt-4", "single-v1"], "judgment": "[[7]]"}
    write_rows(
        folder / "model_judgment" / "gpt-4_single.jsonl",
        [single | {"score": 7, "turn": 1}, single | {"score": -1, "turn": 2}],
    )
    pair = {"question_id": 81, "model_1": "m-1", "model_2": "m-2", "judge": ["gpt-4", "pair-v2"]}
    write_rows(
        folder / "model_judgment" / "gpt-4_pair.jsonl",
        [
            pair | {"g1_winner": "model_1", "g2_winner": "model_2", "turn": 1},
            pair | {"g1_winner": "tie", "g2_winner": "error", "turn": 2},
        ],
    )
    return folder


def arena_hard(folder: Path) -> Path:
    """Answers of two models and both games between them; in the first the baseline is A."""
    write_rows(folder / "question.jsonl", [{"uid": "u1", "category": "hard", "prompt": "Prove it."}])
    for model in ("base", "new"):
        content = {"answer": f"{model} proof"}
        messages = [{"role": "user", "content": "Prove it."}, {"role": "assistant", "content": content}]
        row = {"uid": "u1", "ans_id": "x", "model": model, "messages": messages, "metadata": {}}
        write_rows(folder / "model_answer" / f"{model}.jsonl", [row])
    games = [{"score": "A>>B", "judgment": "…"}, {"score": "A=B", "judgment": "…"}]
    judged = {"uid": "u1", "judge": "gpt", "model": "new", "baseline": "base", "games": games}
    write_rows(folder / "model_judgment" / "gpt.jsonl", [judged])
    return folder


def helm_run(folder: Path, model: str, completions: Sequence[str | None]) -> None:
    """A run of HELM; a completion of None failed, and the last instance is a perturbed one."""
    folder.mkdir(parents=True)
    (folder / "run_spec.json").write_text(json.dumps({"name": f"open_qa:subset=a,model={model.replace('/', '_')}"}))
    states = []
    for i, text in enumerate(completions):
        right = {"output": {"text": f"answer {i}"}, "tags": ["correct"]}
        instance = {"id": f"id{i}", "input": {"text": f"Q{i}"}, "references": [right]}
        result = {"success": text is not None, "completions": [{"text": text}] if text else [], "error": "down"}
        states.append({"instance": instance, "train_trial_index": 0, "request": {"prompt": f"P{i}"}, "result": result})
    states.append({"instance": {"id": "id0", "input": {"text": "q"}, "perturbation": {"name": "typos"}}})
    whole = {"adapter_spec": {"model": model}, "request_states": states}
    (folder / "scenario_state.json").write_text(json.dumps(whole))
    stats = [{"name": {"name": "f1_score", "split": "test"}, "count": 1, "mean": 0.25}]
    scores = [{"instance_id": "id0", "train_trial_index": 0, "stats": stats}]
    (folder / "per_instance_stats.json").write_text(json.dumps(scores))


def lighteval(folder: Path) -> Path:
    """Details of two models that answered one question twice."""
    doc = {"query": "Is it?", "choices": ["true", "false"], "gold_index": [1], "id": "0", "task_name": "custom|ask|0"}
    for model, said in {"org/m-1": ["yes", "yes."], "m-2": ["no", "no."]}.items():
        details = folder / "details" / model / "2026-08-01T00-00-00"
        details.mkdir(parents=True)
        response = {"text": said, "text_post_processed": None, "logprobs": []}
        rows = [{"doc": doc, "model_response": response, "metric": {"exact": 0.5}}]
        pl.DataFrame(rows).write_parquet(details / "details_custom|ask|0_2026-08-01T00-00-00.parquet")
    return folder
