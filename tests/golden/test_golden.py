"""What a user sees of every verb, pinned: these files say "unchanged", not "right". ``make golden`` rewrites them."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import typer

import goldless
from goldless.apps.watch import watch as watch_anchors
from goldless.cli.main import VERBS, app
from goldless.cli.trust import METRIC_FAILED
from goldless.plugins import plugins
from tests.golden import golden, studies
from tests.support.surface import leaf_commands

PLUGIN = Path(__file__).parent / "plugin"
MODELS = "--scorer toy:scorer --critic toy:related"
SERVER = "'http://127.0.0.1:9/v1#toy?price=1:2'"
ELSEWHERE = f"--scorer {SERVER} --critic {SERVER}"
"""Servers whose speed is not known: planning calls none."""
PANEL = "--reviewers toy:honest,toy:lazy,toy:coin"
PAST = "--recorded --reviewers honest,lazy,noisy"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    studies.make(folder)
    return folder


@pytest.fixture
def toy_models(monkeypatch) -> Iterator[None]:
    """The plugin with the models ``toy:NAME``, found as any installed package is."""
    monkeypatch.syspath_prepend(PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))
    plugins.cache_clear()
    yield
    plugins.cache_clear()


@pytest.fixture
def case(made, tmp_path, goldless, monkeypatch, toy_models) -> golden.Case:
    folder = tmp_path / "work"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    return golden.Case(folder, goldless, monkeypatch)


def score(case):
    case.everywhere("score answers.jsonl --scorer toy:scorer")
    case.prepare("score answers.jsonl --scorer toy:scorer --out run")
    case.files("run")


def media(case):
    """One command in every format, at another width, and as a page."""
    line = "score answers.jsonl --scorer toy:scorer"
    case.goldless(line, columns=120)
    for form in ("csv", "markdown", "latex"):
        case.goldless(f"{line} --format {form}")
    case.prepare(f"{line} --out run")
    case.page("run/report.html")


def score_metrics(case):
    metrics = "gem-raw,gem-raw+control+both,gem,gem-s[prompt],tvd-mi,mi,gppm,rouge-l,bleu,length"
    line = f"score study --metric {metrics} {MODELS} --rewriter toy:writer"
    case.goldless(line)
    case.goldless(f"{line} --format csv")
    case.sound(line)
    case.goldless(f"score study --metric gem-raw,tvd-mi {MODELS} --out run --level 0.9 --seed 3 --peers ann,bob")


def score_recorded(case):
    line = "score study --metric gem-raw,tvd-mi,length --recorded"
    case.goldless(f"{line} --format csv")
    case.sound(line)


def score_until(case):
    line = "score many.jsonl --metric gem-raw --scorer toy:scorer --until best"
    case.goldless(line)
    case.numbers(line)


def score_refusals(case):
    case.goldless("score bad.csv --metric length")
    case.goldless("score nowhere.csv --metric length")
    case.goldless("score answers.csv --metric gem-rwa")
    case.goldless("score answers.csv --level 2")
    case.goldless("score answers.csv --metric gem-raw --scorer toy:mute")
    case.goldless("score answers.csv --metric gem-raw --recorded")
    case.goldless("score answers.csv --metric gem-raw --scorer toy:scorer --budget 100tokens")
    case.goldless("scor answers.csv")
    case.goldless("score answers.csv --metrik gem")


def review(case):
    case.everywhere(f"review study {PANEL} --exam consistency")
    case.prepare(f"review study {PANEL} --exam consistency --out run")
    case.files("run")


def review_scales(case):
    case.goldless("review study --reviewers toy:honest,toy:mute --scale 5-level --exam none --format csv")
    case.goldless(f"review study {PAST} --exam consistency --format csv")
    case.goldless(f"review study {PANEL} --exam pertinence --chair autopre")


def compare(case):
    case.prepare("score study --metric gem-raw,length --recorded --out one")
    case.prepare(f"score study --metric gem-raw,length {MODELS} --out two")
    case.everywhere("compare one --agents ann,bob")
    case.goldless("compare one two --agents bob")
    case.prepare(f"score study --metric gem-raw,length {MODELS} --peers cy,dan --out three")
    case.numbers("compare two three --agents bob")
    case.everywhere("compare --rankings one two")


def gate(case):
    case.prepare(f"score many.jsonl --metric gem-raw,length {MODELS} --out run")
    case.everywhere("gate run --baseline bob --candidate ann --metric gem-raw --margin 0.5")
    case.numbers("gate run --baseline dan --candidate cy --metric gem-raw --margin 0.2sd --markdown m.md --junit j.xml")
    case.prepare(f"review study {PANEL} --out judged")
    case.numbers("gate judged --baseline bob --candidate cy --margin 0.05")


def select(case):
    case.everywhere("select study --metric tvd-mi --recorded")
    case.numbers(f"select answers.jsonl --metric gem-raw {MODELS}")


def explain(case):
    line = "explain answers.jsonl --task rivers --agent ann --peer bob --scorer toy:scorer"
    case.goldless(line)
    case.numbers(line)


def audit(case):
    case.everywhere("audit study")
    case.prepare("score study --metric gem-raw --recorded --out run")
    case.goldless("audit run")
    case.numbers("audit run")


def crashtest(case):
    line = f"crashtest answers.jsonl --metric gem-raw,length {MODELS} --references 2"
    case.everywhere(line)
    case.prepare(f"{line} --out run", exit_code=METRIC_FAILED)
    case.files("run")


def agree(case):
    case.everywhere(f"agree study {PAST}")
    case.goldless("agree study --metric gem-raw,length --recorded")
    case.sound("agree study --metric gem-raw,length --recorded")
    case.prepare(f"agree study {PAST} --out run")
    case.files("run")


def calibrate(case):
    case.everywhere("calibrate half --metric gem-raw,length --recorded")
    case.prepare("calibrate half --metric length --out run")
    case.files("run")


def bias(case):
    case.everywhere(f"bias study {PAST}")
    case.prepare(f"bias study {PAST} --out run")
    case.files("run")


def consistency(case):
    for name in ("scorer", "terse"):
        case.prepare(f"score answers.csv --metric gem-raw --scorer toy:{name} --out {name}")
    case.numbers("compare --rankings scorer terse")


def cost(case):
    case.prepare(f"score study --metric gem-raw,tvd-mi {MODELS} --out run")
    case.prepare(f"review study {PANEL} --out run")
    case.everywhere("plan --cost run")


def plan(case):
    case.everywhere(f"plan answers.jsonl {ELSEWHERE}")
    case.numbers(f"plan study --metric gem,tvd-mi {ELSEWHERE} --rewriter {SERVER}")


def watch(case):
    line = f"watch watched --anchors answers.jsonl --metric gem-raw {MODELS}"
    case.goldless(line)
    case.goldless(line)
    case.everywhere("watch watched --show")
    case.files("watched")


def perturb(case):
    line = "crashtest answers.jsonl --perturbation deletion,null,padding --write worse"
    case.goldless(line)
    case.numbers(line)
    case.files("worse")


def study(case):
    case.goldless("study check study")
    case.goldless("study check bad.csv")
    case.goldless("study show study")
    case.goldless("study show study --task rivers")
    case.goldless("study import wide.csv --wide --out taken")
    case.goldless("study import bad.csv --out none")
    case.goldless("study fetch samsum --out samsum")
    case.files("taken")


def export(case):
    case.prepare("score study --metric gem-raw,length --recorded --out run")
    for name in ("csv", "jsonl", "parquet", "markdown"):
        case.goldless(f"export {name} run --out out.{name}")
    case.goldless("export eee run --out eee --organization us")
    case.goldless("export dpo-pairs run --out pairs --margin 0.5")
    case.files(".", *(f"{made}/**/*" for made in ("out.csv", "out.jsonl", "out.parquet", "eee")))


def replay(case):
    case.prepare(f"score study --metric gem-raw,tvd-mi {MODELS} --out run")
    case.prepare(f"review study {PANEL} --out judged")
    case.everywhere("replay run")
    case.numbers("replay judged")


def gre(case):
    case.goldless("gre collect edition --from-folder papers")
    case.goldless("gre review edition --models toy:writer,toy:honest")
    case.goldless("gre score edition --scorer toy:scorer --metric gem-raw,gem-s[abstract]")
    case.goldless("gre publish edition --out site")
    case.files("edition")
    case.files("site")
    case.page("site/index.html")


def journal(case):
    case.goldless("score answers.jsonl --metric gem-raw --scorer toy:scorer --out run --journal journal.sqlite")
    for words in ("show --check", "clear --older-than 1 --dry-run"):
        case.goldless(f"journal {words} --journal journal.sqlite", columns=200, folded=True)
    case.goldless("journal show", columns=200, folded=True)


def config(case):
    case.goldless("config show")
    os.chdir("configured")
    case.goldless("config show")
    case.goldless("config show score")
    case.goldless("score answers.csv")


def about(case):
    case.goldless("--version")
    case.goldless("list")
    case.goldless("list metrics")
    case.goldless("list models")
    case.goldless("list importers")
    case.goldless("list plugins")
    case.goldless("doctor toy:scorer")
    case.goldless("doctor toy:honest")
    case.goldless("demo --study begun")
    case.files("begun")
    for shell in ("bash", "zsh", "fish"):
        case.goldless(f"config completion {shell}")


def help_texts(case):
    """Two pages as they are printed, and the text of every command."""
    case.goldless("--help")
    case.goldless("compare --help")
    for words, command in leaf_commands(typer.main.get_command(app)):
        case.lines(f"goldless {words}", command.help.replace("[dim]$[/]", "$").splitlines())


def help_options(case):
    """Every option's text once, with the commands that have it; those in brackets show it only in --help-all."""
    commands_of = {}
    for words, command in leaf_commands(typer.main.get_command(app)):
        for option in command.params:
            text = f"{option.opts[0]} {option.metavar or ''}: {option.help}"
            is_hidden = getattr(option, "hidden", False)
            commands_of.setdefault(text, []).append(f"({words})" if is_hidden else words)
    case.lines("options", [f"{text}\n  {', '.join(commands_of[text])}" for text in sorted(commands_of)])


def python(case):
    toy, critic = {"scorer": "toy:scorer"}, {"critic": "toy:related"}
    panel = {"reviewers": ["toy:honest", "toy:lazy"], "exams": "consistency"}
    past = {"reviewers": ["honest", "lazy", "noisy"], "recorded": True}
    frame = pl.DataFrame(studies.answers())
    scored = goldless.evaluate(frame, metrics=["gem-raw", "tvd-mi", "length"], **toy, **critic)
    case.fields("evaluate(frame).leaderboard(metric)", scored.leaderboard("gem-raw"))
    case.data(
        "evaluate(frame).leaderboard(metric).to_markdown()", scored.leaderboard("tvd-mi").to_markdown().splitlines()
    )
    case.data("evaluate(frame).findings", scored.findings)
    case.data("plan(frame)", goldless.plan(frame, metrics="gem-raw", scorer="http://127.0.0.1:9/v1#toy"))
    case.fields("select(frame)", goldless.select(frame, **toy))
    case.fields("explain(frame)", goldless.explain(frame, task="rivers", agent="ann", peer="cy", **toy))
    case.fields("crash_test(frame)", goldless.crash_test(frame, metrics="rouge-l", perturbations=["deletion", "null"]))
    case.fields("review(study)", goldless.review("study", **panel))
    case.fields("agree(study)", goldless.agree("study", **past))
    case.fields("bias(study)", goldless.bias("study", **past))
    case.fields("calibrate(half)", goldless.calibrate("half", metrics="gem-raw", recorded=True))
    case.data("watch(answers)", watch_anchors("answers.csv", "watched", metrics="gem-raw", **toy))
    goldless.save_run(scored, "run")
    goldless.save_run(goldless.evaluate(frame, metrics="gem-raw", scorer="toy:terse"), "terse")
    case.fields("consistency(runs)", goldless.consistency("run", "terse"))
    case.data("cost(run)", goldless.cost("run", tasks=500))
    case.fields("compare(run)", goldless.compare("run", agents=["ann", "bob"]))
    case.fields("gate(run)", goldless.gate("run", baseline="bob", candidate="ann", metric="gem-raw", margin=0.5))
    with goldless.reward("gem-raw", **toy) as reward:
        earned = reward(
            ["Tell of rivers please."] * 2, [studies.text("rivers", "ann"), "No."], reference=["The rivers sank."] * 2
        )
    case.data("reward(prompts, completions)", earned)
    case.data("read_study(study).fingerprint", goldless.read_study("study").fingerprint)
    case.data("goldless.__all__", goldless.__all__)


def studio(case):
    case.prepare(f"score study --metric gem-raw,tvd-mi {MODELS} --out runs/scored")
    command = [sys.executable, "-P", "-m", "goldless", "studio", "runs", "--no-browser"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+?token=\S+", process.stderr.readline())[0]
        opened = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(), urllib.request.ProxyHandler({}))
        root = address.partition("?")[0]
        for page in (
            address,
            "new",
            "paste",
            "compare",
            "runs/scored",
            "runs/scored/tasks",
            "runs/scored/tasks/0",
            "label",
        ):
            url = page if page == address else f"{root}{page}"
            try:
                text = opened.open(url).read().decode()
            except urllib.error.HTTPError as error:
                text = f"{error.code} {error.read().decode()}"
            case.web("/" if page == address else f"/{page}", text)
    finally:
        process.terminate()
        process.communicate()


CASES = [
    *(score, media, score_metrics, score_recorded, score_until, score_refusals, review, review_scales, compare, gate),
    *(select, explain, audit, crashtest, agree, calibrate, bias, consistency, cost, plan, watch, perturb, study),
    *(export, replay, gre, journal, about, config, help_texts, help_options, python, studio),
]


NOT_RUN = {"view": "a reader", "finetune": "torch", "jury": "licensed servers"}
"""Verbs of which only the help is pinned here, and what they need; each has tests of its own."""


def test_every_verb_is_pinned():
    steps = "".join(inspect.getsource(case) for case in CASES)
    assert [verb for verb in VERBS if not re.search(rf"[\"(]{verb}\b", steps)] == list(NOT_RUN)


@pytest.mark.parametrize("steps", CASES, ids=lambda steps: steps.__name__)
def test_output_is_unchanged(steps, case):
    steps(case)
    golden.check(steps.__name__, case.shown)


WITH_TABLES = [steps for steps in CASES if re.search(r"case\.(everywhere|sound)", inspect.getsource(steps))]


@pytest.mark.nightly
@pytest.mark.parametrize("steps", WITH_TABLES, ids=lambda steps: steps.__name__)
def test_tables_are_read_in_every_format(steps, case):
    case.every_format = True
    steps(case)


LARGEST_FILE, ALL_FILES = 40_000, 420_000
"""Bytes; a larger diff is not read."""


@pytest.mark.skipif(os.environ.get("GOLDLESS_GOLDEN") == "write", reason="other workers are writing them")
def test_golden_files_are_small_enough_to_be_read():
    sizes = {path.name: path.stat().st_size for path in golden.EXPECTED.iterdir()}
    assert {name: size for name, size in sizes.items() if size > LARGEST_FILE} == {}
    assert sum(sizes.values()) <= ALL_FILES
    assert sizes.keys() == {f"{steps.__name__}.txt" for steps in CASES}


def test_tables_of_most_verbs_are_read_in_every_format():
    steps = "".join(inspect.getsource(steps) for steps in CASES)
    read = set(re.findall(r"case\.(?:everywhere|sound)\(f?\"(\w+)", steps))
    assert len(read) >= 10, read
