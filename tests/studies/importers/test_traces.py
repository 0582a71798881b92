"""Importer of traces.

``otel_otlp.json`` and ``otel_console.jsonl`` were written by opentelemetry-sdk 1.45.2 (OTLP encoder and ``to_json`` of
five calls with the GenAI conventions, in spans of an application). OpenInference and Langfuse rows follow their
published fields: those services cannot run here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import goldless
from goldless.errors import StudyError
from tests.support.study_files import write_rows

FILES = Path(__file__).parent / "files"


def texts(study):
    return {(study.task(r.task).prompt, r.agent): r.text for task in study.tasks for r in study.responses(task)}


@pytest.mark.parametrize("name", ["otel_otlp.json", "otel_console.jsonl"])
def test_opentelemetry_spans_are_grouped_by_identical_input(name):
    study = goldless.read_study(FILES / name)
    assert texts(study) == {
        ("Name a fruit.", "small-1"): "An apple.",
        ("Name a fruit.", "large-1"): "A ripe pear.",
        ("Name a colour.", "small-1"): "Blue.",
        ("Name a colour.", "large-1"): "Deep green.",
    }
    assert {(r.agent, r.rater, r.score) for r in study.ratings()} == {
        ("small-1", "helpful", 0.5),
        ("large-1", "helpful", 1.0),
    }
    missing = study.table("imported").filter(~study.table("imported")["missing"].is_null())
    assert missing.select("agent", "missing").rows() == [("small-1", "error")]


def test_whole_numbers_of_otlp_json_are_text_and_are_read_as_numbers(tmp_path):
    """Protocol Buffers' JSON mapping writes an int64 as a string: {"intValue": "4"}."""

    def span(model):
        texts = {"gen_ai.request.model": model, "input.value": "Say hello.", "output.value": f"Hello from {model}."}
        attributes = [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()]
        score = {"key": "annotation.tone.score", "value": {"intValue": "4"}}
        kind = {"key": "annotation.tone.annotator_kind", "value": {"stringValue": "HUMAN"}}
        return {"traceId": "t", "spanId": model, "name": "chat", "attributes": [*attributes, score, kind]}

    spans = [{"scopeSpans": [{"spans": [span("small"), span("large")]}]}]
    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"resourceSpans": spans}))
    study = goldless.read_study(path)
    assert {(r.agent, r.rater, r.score) for r in study.ratings()} == {("small", "tone", 4.0), ("large", "tone", 4.0)}


def test_openinference_spans_and_their_annotations(tmp_path):
    def span(model, text):
        return {
            "context.span_id": "1",
            "attributes.llm.model_name": model,
            "attributes.input.value": "Say hello.",
            "attributes.output.value": json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}),
            "attributes.evaluation.tone.score": 0.5,
            "attributes.evaluation.tone.annotator_kind": "LLM",
        }

    path = write_rows(tmp_path / "spans.jsonl", [span("m-1", "Hello."), span("m-2", "Hi.")])
    study = goldless.read_study(path)
    assert texts(study) == {("Say hello.", "m-1"): "Hello.", ("Say hello.", "m-2"): "Hi."}
    assert study.n_ratings == 0
    assert study.table("scores").select("agent", "metric", "score").rows() == [
        ("m-1", "tone", 0.5),
        ("m-2", "tone", 0.5),
    ]


def test_items_of_a_langfuse_experiment(tmp_path):
    def item(name, text, source):
        scores = [{"name": "good", "value": 1, "source": source}]
        given = {"experiment_item_id": "i1", "experiment_name": name, "input": {"q": 1}, "output": text}
        return given | {"expected_output": "2", "scores": scores}

    path = tmp_path / "items.json"
    path.write_text(json.dumps({"data": [item("first run", "two", "ANNOTATION"), item("second run", "2", "EVAL")]}))
    study = goldless.read_study(path)
    assert {(r.task, r.agent, r.text) for task in study.tasks for r in study.responses(task)} == {
        ("i1", "first run", "two"),
        ("i1", "second run", "2"),
    }
    assert study.task("i1").reference == "2"
    assert [(r.agent, r.score) for r in study.ratings()] == [("first run", 1.0)]
    assert study.table("scores")["agent"].to_list() == ["second run"]


def test_traces_without_a_shared_input_are_refused_with_the_count(tmp_path):
    named = {"request.model": "m", "input.messages": "q", "output.messages": "a"}
    spans = [{"attributes": {f"gen_ai.{key}": f"{of}-{i}" for key, of in named.items()}} for i in range(3)]
    path = write_rows(tmp_path / "spans.jsonl", spans)
    with pytest.raises(StudyError, match="none of 3 inputs was given to two models"):
        goldless.read_study(path)
