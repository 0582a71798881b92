"""Options are declared once; what is derived from the declarations agrees with what they are declared for."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import goldless as package
from goldless.cli.main import app
from goldless.errors import GoldlessError, UserError
from goldless.judging.judges import JUDGES
from goldless.judging.review_stages import CATALOGUE
from goldless.metrics.catalogue import METRICS
from goldless.reports.document import Result
from goldless.runs.option_forms import REMOVED, check_each, declared, group_classes
from goldless.runs.options import TRAITS, Options, ScoringOptions
from goldless.templates import TEMPLATES
from goldless.user_metrics import metric_forms
from tests.support.paths import DOCS, ROOT
from tests.support.surface import leaf_commands

OPTIONS = declared(Options)


# --- declarations and what they name ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("templates", TEMPLATES),
        ("scale", JUDGES),
        ("debate", CATALOGUE.all()),
        ("exams", TRAITS),
    ],
)
def test_the_help_lists_what_there_is(field, names):
    listed = OPTIONS[field].help.split(": ", 1)[1]
    assert [name for name in names if not re.search(rf"(^|[ ,]){re.escape(name)}([,.]|$)", listed)] == []


def test_the_help_names_metrics_that_there_are_and_the_verb_that_lists_all(goldless, monkeypatch):
    named = OPTIONS["metrics"].help.split("such as ")[1].split(" or ")[0].split(", ")
    assert [name for name in named if name not in METRICS] == []
    monkeypatch.setenv("COLUMNS", "200")
    listed = goldless("list", "metrics").out
    assert [name for name in (*METRICS, *metric_forms()) if name not in listed] == []


ELSEWHERE = """
import importlib.util, sys
from pathlib import Path
spec = importlib.util.find_spec("goldless.runs.options")
changed = Path(spec.origin).read_text().replace('"embedded", "Model that gives', '"hf:other", "Model that tells')
sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
exec(compile(changed, spec.origin, "exec"), vars(module))
sys.argv = ["goldless", *sys.argv[1:]]
if sys.argv[1] == "python":
    import goldless.runs.pipeline as pipeline
    async def evaluate_study(study, options):
        print(options.scoring.scorer)
    pipeline.evaluate_study = evaluate_study
    goldless = importlib.import_module("goldless")
    goldless.evaluate("sample")
elif sys.argv[1] == "docs":
    sys.path.insert(0, sys.argv[2])
    print(importlib.import_module("site_files").options_page())
elif sys.argv[1] == "studio":
    from goldless.apps.studio import new_run, site
    studio = site.Studio(Path(sys.argv[2]), journal=Path(sys.argv[2]) / "journal.sqlite")
    (studio.folder / "files" / ("0" * 16)).mkdir(parents=True)
    (studio.folder / "files" / ("0" * 16) / "a.csv").write_text("task,agent,text\\nt,ann,x\\nt,bob,y\\n")
    from multidict import MultiDict
    print(new_run.checked_page(studio, MultiDict(), "0" * 16))
else:
    importlib.import_module("goldless.cli.main").main()
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("score --help-all", ("[default: hf:other]", "Model that tells")),
        ("config show score --format json", ('"value": "hf:other"',)),
        ("python", ("hf:other",)),
        (f"docs {DOCS}", ("hf:other", "Model that tells")),
        ("studio .", ('value="hf:other"', "Model that tells")),
    ],
)
def test_what_is_changed_in_one_place_is_changed_everywhere(words, said, tmp_path):
    if words.startswith("docs"):
        pytest.importorskip("mkdocs")
    command = [sys.executable, "-c", ELSEWHERE, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, cwd=tmp_path)
    assert [text for text in said if text not in done.stdout] == []


@pytest.mark.parametrize("name", REMOVED)
def test_an_option_that_was_removed_names_the_new_way(name, goldless, tmp_path, monkeypatch):
    ended = goldless("score", "sample", f"--{name}")
    assert (ended.code, f"It was removed. {REMOVED[name]}" in ended.err) == (2, True)
    (tmp_path / "goldless.toml").write_text(f"{name} = 1\n")
    monkeypatch.setenv("GOLDLESS_CONFIG", str(tmp_path / "goldless.toml"))
    assert f"It was removed. {REMOVED[name]}" in goldless("score", "sample").err
    keywords = {*OPTIONS, *(option.keyword for option in OPTIONS.values())}
    if (argument := name.replace("-", "_")) not in keywords:
        with pytest.raises(UserError, match=r"It was removed\."):
            package.evaluate("sample", **{argument: 1})


# --- the Python functions --------------------------------------------------------------------------------------------


def test_the_stubs_that_type_checkers_read_are_those_of_the_declarations(tmp_path):
    home = Path(package.__file__).parent
    before = [(home / name).read_text() for name in ("__init__.pyi", "api.pyi")]
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import stubs; print(stubs.init() + stubs.functions(), end='')"
    )
    folder = ROOT / "tests" / "typing"
    made = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True)
    assert made.stdout == "".join(before)


def test_an_argument_of_another_verb_is_refused_with_the_nearest_of_its_own():
    with pytest.raises(UserError, match=r"unknown argument 'exams'.* evaluate takes .*"):
        package.evaluate("sample", exams=("x",))
    with pytest.raises(UserError, match=r"unknown argument 'metrix'\. Did you mean 'metrics'\?"):
        package.evaluate("sample", metrix="gem")


def options_of(monkeypatch, **given):
    """The run options that ``evaluate`` makes of its arguments."""
    seen = []

    async def evaluate_study(_, options):
        seen.append(options)

    monkeypatch.setattr("goldless.runs.pipeline.evaluate_study", evaluate_study)
    package.evaluate("sample", **given)
    return seen[0]


def test_arguments_may_be_one_or_several_and_are_made_what_a_run_needs(monkeypatch, tmp_path):
    given = {"metrics": "gem-raw,mi", "template": "plain", "rewriter": "embedded", "peers": "ann, the first"}
    found = options_of(monkeypatch, **given, journal=str(tmp_path / "j"), price_usd_per_million=(1, 2))
    scoring, models = found.scoring, found.models
    assert (scoring.metrics, scoring.templates, scoring.rewriters) == (("gem-raw", "mi"), ("plain",), ("embedded",))
    assert (scoring.peers, models.journal) == (("ann, the first",), tmp_path / "j")
    assert (models.price.input_usd, models.price.output_usd) == (1, 2)


def test_python_reads_any_columns_as_the_command_line_does(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("id,model,output\nq,ann,one two\nq,bob,one\n")
    columns = {"task": "id", "agent": "model", "text": "output"}
    board = package.evaluate(path, metrics="length", columns=columns).leaderboard()
    assert [(row.agent, row.score) for row in board.rows] == [("ann", 2), ("bob", 1)]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("seed", -1, "seed must be a whole number of at least 0, got -1"),
        ("resamples", 99, "resamples must be a whole number of at least 100, got 99"),
        ("level", 1, "level must be a number between 0 and 1, got 1"),
        ("on_too_long", "cut", "on_too_long must be one of error, skip, got 'cut'"),
        ("scorer", 3, "scorer must be a model specification or a model object, got 3"),
        ("compare_groups", ("a", "a"), "compare_groups must be two different groups, got ('a', 'a')"),
        ("thresholds", {"consistency": float("nan")}, "thresholds must be limits that are finite numbers"),
        ("exam_items", 2.5, "exam_items must be a whole number of at least 1, got 2.5"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_what_it_must_be(field, value, message):
    with pytest.raises(UserError) as refused:
        check_each(Options.of(**{field: value}))
    assert message in str(refused.value)


def test_options_by_name_are_put_into_their_groups_and_into_nothing_else():
    values = {name: object() for name in declared(Options)} | {"metrics": ("length",)}
    options = Options.of(**values)
    assert options.subset(*values) == values
    assert Options().changed(**values) == options
    assert {name for part in group_classes(Options).values() for name in declared(part)} == set(declared(Options))
    assert sum(len(declared(part)) for part in group_classes(Options).values()) == len(declared(Options))
    with pytest.raises(TypeError, match="no_option"):
        Options.of(no_option=1)


def test_what_one_metric_reads_is_in_its_name():
    found = ScoringOptions(metrics=("tvd-mi[given,shuffles=2]", "length", "peer-prediction[examples=0]"))
    assert found.metrics == ("tvd-mi[given]", "length", "peer-prediction")
    assert (found.shuffles, found.examples) == (2, 0)
    assert ScoringOptions(metrics=("tvd-mi[prompt=three-level]",)).critic_prompt == "three-level"
    jurors = ScoringOptions(metrics=("peer-prediction[topic,juror=hf:A,juror=http://h:1/v1#m?a=b,family=hf:A=llama]",))
    assert jurors.metrics == ("peer-prediction[topic]",)
    assert jurors.jurors == ("hf:A", "http://h:1/v1#m?a=b")
    assert jurors.juror_families == {"hf:A": "llama"}
    written = ScoringOptions(
        metrics=("gem-s[assw,writer=openai:o3?effort=low,control=3]+control", "mi[control=3]", "gem-raw")
    )
    assert written.metrics == ("gem-s[assw]+control", "mi", "gem-raw")
    assert (written.synopsis_writer, written.control_tasks) == ("openai:o3?effort=low", 3)
    assert ScoringOptions(metrics=("tvd-mi[calls=40]",)).budget_calls == 40


@pytest.mark.parametrize(
    ("metric", "name", "seconds"),
    [
        ("python:m.py:f?timeout=60", "python:m.py:f", 60.0),
        ("command:jq '.x' ?timeout=0.5", "command:jq '.x'", 0.5),
        ("command:curl http://h/?timeout=60", "command:curl http://h/?timeout=60", None),
    ],
)
def test_a_custom_metric_has_its_time_limit_behind_its_name(metric, name, seconds):
    options = Options.of(metrics=(metric,))
    assert (options.scoring.metrics, options.scoring.metric_timeout_seconds) == ((name,), seconds)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (("peer-prediction[examples=few]",), "examples in the name of a metric must be a whole number, got 'few'"),
        (("peer-prediction[examples=1,examples=2]",), "examples must be given once in the name of a metric"),
        (("peer-prediction[juror=a]", "peer-prediction[topic,juror=b]"), "juror must be the same for all metrics"),
        (("peer-prediction[family=llama]",), "family in the name of a metric must be NAME=FAMILY, got 'llama'"),
        (("peer-prediction[jurror=a]",), "peer-prediction has no option 'jurror'"),
        (("gem-raw[control=all]+control",), "control in the name of a metric must be a whole number, got 'all'"),
        (("python:m.py:f?timeout=1", "python:m.py:g?timeout=2"), "timeout must be the same for all metrics"),
    ],
)
def test_a_setting_in_a_name_that_cannot_be_used_is_refused(metrics, message):
    with pytest.raises(GoldlessError, match=re.escape(message)):
        Options.of(metrics=metrics)


def returned_class(verb):
    """The class that a verb's function says it returns; None if it prints by itself."""
    name = verb.work.__annotations__["return"]
    module = inspect.getmodule(verb.work)
    nodes = [*ast.walk(ast.parse(inspect.getsource(module)))]
    # in the module of GRE-bench: an edition, its result, and the evaluation behind it
    aliases = {
        node.targets[0].id: node.value.slice.elts[1].id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript) and name == node.targets[0].id
    }
    name = aliases.get(name, name)
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return getattr(importlib.import_module(node.module), name)
    return None if name == "None" else getattr(module, name)


VERBS = {words: command.verb for words, command in leaf_commands(typer.main.get_command(app))}


@pytest.mark.parametrize("words", sorted(VERBS))
def test_every_verb_prints_by_itself_or_returns_a_result(words):
    result_class = returned_class(VERBS[words])
    if words != "explain":  # its map of a pair is a value of metrics, which know no reports
        assert result_class is None or issubclass(result_class, Result)
