"""Law of all exporters: what is exported are the values of the result, or a message says what is left out.

The runs are those where values are not simply there: agents with several samples, reviewers that may not judge their
own family, and verdicts and scores that are missing.
"""

from __future__ import annotations

import csv
import functools
import itertools
import json
import re
import warnings
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import polars as pl
import pytest

import goldless
from goldless.errors import UserError
from goldless.exporting.scored_run import scored_run
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.runs.store import save_review, save_run
from tests.support.study_files import study_folder

TASKS = ("dogs", "cats", "boats", "rivers")
FAMILIES = {"ann": "red", "bob": "red", "cy": "blue", "dan": "green"}
WORTH = {"ann": 9, "bob": 5, "cy": 2, "dan": 7}
WORDS = {"ann": "zarn bluk mipo", "bob": "zarn bluk", "cy": "quex", "dan": "mipo zarn quex"}


def study(*, samples: bool = False) -> goldless.Study:
    rows = [
        {"task": task, "agent": agent, "text": f"{WORDS[agent]} {task} {WORTH[agent]} points"}
        for task in TASKS
        for agent in WORTH
    ]
    if samples:
        again = [{**row, "text": row["text"] + " vond", "sample": "2"} for row in rows if row["agent"] == "ann"]
        rows = [{**row, "sample": "1" if row["agent"] == "ann" else None} for row in rows] + again
    return goldless.study_from_frame(
        pl.DataFrame(rows),
        tasks=pl.DataFrame([{"task": task, "prompt": f"Tell of {task}"} for task in TASKS]),
        agents=pl.DataFrame([{"agent": agent, "family": family} for agent, family in FAMILIES.items()]),
    )


def reviewer(name: str, *, refuses: tuple[str, ...] = ()) -> ScriptedModel:
    """Prefers more points, rates by them, and says nothing of use about some tasks."""

    def answer(request):
        text = request.messages[-1].content
        points = [int(number) for number in re.findall(r"(\d+) points", text)]
        if any(f" {task} " in text for task in refuses):
            return "I would rather not say."
        if len(points) == 1:
            return str(points[0] // 2 + 1)
        return "one" if points[0] > points[1] else "two"

    return ScriptedModel(answers=answer, name=name)


def panel(*, refuses: tuple[str, ...] = ()) -> dict[str, ScriptedModel]:
    names = {"j1": (), "j2": refuses, "j3": refuses}
    return {name: reviewer(name, refuses=tasks) for name, tasks in names.items()}


OF_FAMILIES = {"families": {"j1": "red", "j2": "blue", "j3": "violet"}}


def scored(toy_scorer, folder: Path, *, samples: bool = False, missing: bool = False) -> Path:
    def broken(_candidate, target):
        return CallFailure("refused", "no") if missing and "dogs 2 points" in target else None

    result = goldless.evaluate(study(samples=samples), metrics=["gem-raw", "length"], scorer=toy_scorer(broken=broken))
    return save_run(result, folder)


def reviewed(folder: Path, *, scale: str = "pairwise", refuses: tuple[str, ...] = (), **options: object) -> Path:
    result = goldless.review(study(), reviewers=panel(refuses=refuses), scale=scale, exams=["none"], **options)
    return save_review(result, folder)


RUNS = {
    "samples": lambda toy, folder: scored(toy, folder, samples=True),
    "missing scores": lambda toy, folder: scored(toy, folder, missing=True),
    "families": lambda _, folder: reviewed(folder, **OF_FAMILIES),
    "families, ratings": lambda _, folder: reviewed(folder, scale="5-level", fusion="raw", **OF_FAMILIES),
    "missing verdicts": lambda _, folder: reviewed(folder, refuses=("dogs",)),
    "families and missing verdicts": lambda _, folder: reviewed(folder, refuses=("dogs", "cats"), **OF_FAMILIES),
}
Values = dict[tuple[str, ...], float]


# --- what each format says, read back --------------------------------------------------------------------------------


def in_csv(path: Path) -> Values:
    rows = list(csv.DictReader(path.read_text().splitlines()))
    metrics = [name.removesuffix(" signature") for name in rows[0] if name.endswith(" signature")]
    assert all(row["text"] for row in rows if row["agent"] != "ann")
    return {(name, row["task"], row["agent"]): float(row[name]) for row in rows for name in metrics if row[name]}


def in_eee(path: Path) -> Values:
    values = {}
    for file in path.rglob("*.json*"):
        for line in file.read_text().splitlines() if file.suffix == ".jsonl" else ():
            row = json.loads(line)
            metric = row["evaluation_result_id"].removeprefix("goldless.")
            values[metric, row["sample_id"], row["model_id"]] = row["evaluation"]["score"]
        if file.suffix == ".json":
            data = json.loads(file.read_text())
            for result in data["evaluation_results"]:
                name = result["metric_config"]["metric_name"]
                values[name, data["model_info"]["name"]] = result["score_details"]["score"]
    return values


def in_pairs(path: Path) -> Values:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["task"], row["chosen_agent"], row["rejected_agent"]): row["difference"] for row in rows}


# --- what the result has ---------------------------------------------------------------------------------------------


def response_values(run: Path, *metrics: str) -> Values:
    rows = csv.DictReader((run / "response_scores.csv").read_text().splitlines())
    names = ((row["metric"], row["task"], row["agent"], row["score"]) for row in rows)
    return {(m, t, a): float(score) for m, t, a, score in names if score and (not metrics or m in metrics)}


def agent_values(run: Path) -> dict[str, dict[str, float]]:
    folder = scored_run(run)
    return {name: {row.agent: row.score for row in board.rows} for name, board in folder.ranked.items()}


def verdict_differences(run: Path) -> Values:
    """By hand from the judgements: a reviewer's mean over its orders, if all are there; the mean over the reviewers."""
    table = pl.read_parquet(list((run / "judgements").glob("*.parquet")) or run / "judgements.parquet")
    said = defaultdict(list)
    for row in table.iter_rows(named=True):
        one, other = sorted((row["first"], row["second"]))
        value = row["value"]
        lean = None if value is None else (2 * value - 1) * (1 if one == row["first"] else -1)
        said[row["task"], one, other, row["reviewer"]].append(lean)
    votes = defaultdict(list)
    for (task, one, other, _), leans in said.items():
        if None not in leans:
            votes[task, one, other].append(fmean(leans))
    return {
        (task, one, other) if fmean(leans) >= 0 else (task, other, one): abs(fmean(leans))
        for (task, one, other), leans in votes.items()
    }


def over_tasks(pairs: Values) -> Values:
    """The mean difference of every two agents, where each task has a pair of theirs."""
    differences = defaultdict(list)
    for (_, chosen, rejected), difference in pairs.items():
        sign = 1 if chosen < rejected else -1
        differences[min(chosen, rejected), max(chosen, rejected)].append(sign * difference)
    return {agents: fmean(each) for agents, each in differences.items()}


def score_differences(run: Path) -> Values:
    values = {(task, agent): score for (_, task, agent), score in response_values(run, "gem-raw").items()}
    pairs = itertools.permutations(values, 2)
    return {
        (t, a, b): values[t, a] - values[u, b] for (t, a), (u, b) in pairs if t == u and values[t, a] > values[u, b]
    }


# --- the law ---------------------------------------------------------------------------------------------------------


def check(values: Values, expected: Values, messages: str) -> None:
    """Every value is the result's, and what is left out is told."""
    assert {place: values[place] for place in values} == pytest.approx({place: expected[place] for place in values})
    assert values.keys() == expected.keys() or re.search("left out|missing|are means over", messages), messages


@pytest.fixture(scope="module")
def run_folder(toy_scorer, tmp_path_factory):
    """The folder of a run, made once for all formats."""
    return functools.cache(lambda name: RUNS[name](toy_scorer, tmp_path_factory.mktemp("runs") / "run"))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("exporter", ["csv", "eee", "dpo-pairs", "markdown"])
def test_exported_values_are_those_of_the_result_or_a_message_says_what_is_left_out(
    run_folder, tmp_path, exporter, name
):
    run = run_folder(name)
    options = {"margin": 1e-9} if exporter == "dpo-pairs" else {}
    if exporter == "csv" and (run / "review.json").exists():
        with pytest.raises(UserError, match="has no scores of single responses"):
            goldless.export(run, tmp_path / "made", exporter=exporter)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = goldless.export(run, tmp_path / "made", exporter=exporter, **options)
    messages = "\n".join(str(warning.message) for warning in caught)
    boards = agent_values(run)
    if exporter == "csv":
        check(in_csv(made), response_values(run), messages)
        assert ("column text is empty" in messages) == (name == "samples"), messages
    elif exporter == "eee":
        boards.pop("length", None)
        single = response_values(run, *boards) if (run / "response_scores.csv").exists() else {}
        of_agents = {(metric, agent): score for metric, rows in boards.items() for agent, score in rows.items()}
        check(in_eee(made), single | of_agents, messages)
    elif exporter == "markdown":
        text = made.read_text()
        shown = {float(number) for number in re.findall(r"^\| \d+ \| \w+ \| (\S+) \|", text, re.MULTILINE)}
        for score in itertools.chain.from_iterable(rows.values() for rows in boards.values()):
            assert any(abs(number - score) <= 0.05 for number in shown)
    elif "ratings" in name:
        (means,) = boards.values()
        expected = {(one, other): means[one] - means[other] for one, other in itertools.combinations(sorted(WORTH), 2)}
        check(over_tasks(in_pairs(made)), expected, messages)
    elif (run / "review.json").exists():
        check(in_pairs(made), verdict_differences(run), messages)
    else:
        check(in_pairs(made), score_differences(run), messages)


def test_reviewers_of_the_agents_families_make_pairs_of_all_that_they_may_judge(tmp_path):
    """j1 may not judge ann and bob, j2 not cy; j3 judges all six pairs of every task, so none is without a verdict."""
    run = reviewed(tmp_path / "run", **OF_FAMILIES)
    made = goldless.export(run, tmp_path / "pairs.jsonl", exporter="dpo-pairs", margin=1.0)
    pairs = in_pairs(made)
    assert len(pairs) == 6 * len(TASKS)
    assert all(WORTH[chosen] > WORTH[rejected] for _, chosen, rejected in pairs)


def test_of_a_study_judgements_on_a_reviewers_own_family_make_no_pairs(tmp_path):
    """ann judges that ann is better than all, and cy that the others are: only what cy says of ann, bob, dan counts."""
    rows = [
        {"reviewer": "ann", "format": "pairwise", "task": "dogs", "first": a, "second": b, "output": "one"}
        for a, b in (("ann", "cy"), ("ann", "bob"))
    ]
    rows += [
        {"reviewer": "cy", "format": "pairwise", "task": "dogs", "first": a, "second": b, "output": output}
        for a, b, output in (("bob", "ann", "one"), ("ann", "bob", "two"), ("cy", "ann", "one"))
    ]
    made = study()
    tables = {"tasks": made.task_table, "responses": made.response_table, "agents": pl.DataFrame(made.rows("agents"))}
    folder = study_folder(
        tmp_path / "study", **{name: table.to_dicts() for name, table in tables.items()}, judgements=rows
    )
    made = goldless.export(folder, tmp_path / "pairs.jsonl", exporter="dpo-pairs", margin=0.5)
    assert in_pairs(made) == {("dogs", "bob", "ann"): 1.0}


def test_missing_verdicts_are_counted_in_a_message(tmp_path):
    run = reviewed(tmp_path / "run", refuses=("dogs",), families={"j1": "red"})
    with pytest.warns(UserWarning, match=r"5 of 24 pairs have no verdict in every order that was asked"):
        goldless.export(run, tmp_path / "pairs.jsonl", exporter="dpo-pairs", margin=0.1)


def test_an_export_without_content_is_an_error_that_says_why(toy_scorer, tmp_path):
    result = goldless.evaluate(study(), metrics="length", scorer=toy_scorer())
    run = save_run(result, tmp_path / "run")
    with pytest.raises(UserError, match=r"no scores but those of length.* add --metric length"):
        goldless.export(run, tmp_path / "eee", exporter="eee")
    assert not (tmp_path / "eee").exists()
