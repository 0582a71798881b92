"""Makes the logs beside it with inspect_ai and its mock model; to be run in a folder outside of any checkout.

The texts are ours. Tracebacks are taken out, because they name the files of the machine.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, ProvenanceData, edit_score, read_eval_log, write_eval_log
from inspect_ai.model import ChatMessageAssistant, ContentReasoning, ContentText, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import ScoreEdit, match, model_graded_qa
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

QUESTIONS = {
    "q1": ("What turns leaves green?", "chlorophyll"),
    "q2": ("What holds planets near the sun?", "gravity"),
    "q3": ("What carries sound?", "air"),
}
ALPHA = ("chlorophyll absorbs red light", "gravity pulls planets inward", "air carries pressure waves")
BETA = ("leaves hold chlorophyll", "gravity of the sun pulls", "pressure waves in air")
OTHER = ("a nice question", "a nice question", "a nice question")
GRADE = "It says what was asked for.\n\nGRADE: C"


def output(model: str, text: str, *, reasoning: str = "", stop: str = "stop") -> ModelOutput:
    content = [ContentReasoning(reasoning=reasoning), ContentText(text=text)] if reasoning else text
    made = ModelOutput.from_message(ChatMessageAssistant(content=content), stop_reason=stop)  # type: ignore[arg-type]
    made.model, made.usage = model, ModelUsage(input_tokens=9, output_tokens=12, total_tokens=21, total_cost=0.001)
    return made


@solver
def failing(bad: str) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if state.sample_id == bad:
            raise RuntimeError("the tool is gone")
        return await generate(state)

    return solve


def run(name: str, outputs: list[ModelOutput], *, folder: str, scorer: object = None, **options: object) -> EvalLog:
    model = get_model(f"mockllm/{name}", custom_outputs=outputs)
    samples = [Sample(id=key, input=asked, target=target) for key, (asked, target) in QUESTIONS.items()]
    own = {key: options.pop(key) for key in ("solver", "token_limit") if key in options}
    task = Task(dataset=samples, name="facts", scorer=scorer or match(location="any"), **{"solver": generate(), **own})
    (log,) = eval(task, model=model, log_dir=folder, display="none", max_samples=1, **options)
    return read_eval_log(log.location)


def keep(log: EvalLog, place: Path) -> None:
    for sample in log.samples or ():
        if sample.error is not None:
            sample.error.traceback = sample.error.traceback_ansi = ""
        for event in sample.events:
            if event.event == "error":
                event.error.traceback = event.error.traceback_ansi = ""
    if log.error is not None:
        log.error.traceback = log.error.traceback_ansi = ""
    log.eval.task_file = None
    write_eval_log(log, str(place))


def main(place: Path) -> None:
    folder = tempfile.mkdtemp()
    grader = get_model("mockllm/grader", custom_outputs=[output("mockllm/grader", GRADE) for _ in ALPHA])
    outputs = [output("mockllm/alpha", text, reasoning="Let me think.") for text in ALPHA]
    alpha = run("alpha", outputs, folder=folder, scorer=[match(location="any"), model_graded_qa(model=grader)])
    edit = ScoreEdit(value="P", provenance=ProvenanceData(author="ann", reason="too short"))
    edit_score(alpha, "q2", "match", edit, recompute_metrics=False)
    keep(alpha, place / "alpha.eval")
    keep(run("beta", [output("mockllm/beta", text) for text in BETA], folder=folder), place / "beta.json")
    stops = ("content_filter", "max_tokens")
    outputs = [output("mockllm/gamma", text, stop=stop) for text, stop in zip(OTHER, stops, strict=False)]
    keep(run("gamma", outputs, folder=folder, solver=failing("q1"), fail_on_error=False), place / "gamma.eval")
    outputs = [output("mockllm/delta", text) for text in OTHER]
    keep(run("delta", outputs, folder=folder, token_limit=10), place / "delta.eval")
    outputs = [output("mockllm/epsilon", text) for text in (*ALPHA, *BETA)]
    twice = run("epsilon", outputs, folder=folder, epochs=2)
    keep(twice, place / "epsilon.eval")
    stopped = run("zeta", [output("mockllm/zeta", text) for text in BETA], folder=folder)
    stopped.status, stopped.samples = "cancelled", (stopped.samples or [])[:2]
    keep(stopped, place / "zeta.eval")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent))
