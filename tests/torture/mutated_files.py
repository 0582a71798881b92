"""Damaged files over every verb that reads files: an answer or a refusal in words, never a traceback.

Each trial copies a sound folder, damages one file, and runs one command in this process as ``goldless`` does.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from random import Random

from tests.golden.studies import POINTS, SUBJECTS
from tests.support.commands import goldless, home
from tests.torture import sound_folders
from tests.torture.damages import damage
from tests.torture.sound_folders import QUICK
from tests.torture.tally import Tally

Words = tuple[str | Path, ...]

LEFT_ALONE = {".html", ".md", ".py", ".svg"}
"""Pages for people: no verb reads them."""
AGENT, PEER = list(POINTS)[:2]
NOWHERE = "http://127.0.0.1:9/v1#toy"
FORMATS: dict[str, Words] = {
    "eee": ("--organization", "us"),
    "dpo-pairs": ("--margin", "0.5"),
    **dict.fromkeys(("markdown", "csv", "jsonl", "parquet"), ()),
}
"""What runs are exported as, and how; Inspect's logs are read by what imports them."""


def of_study(study: Path, out: Path, script: str) -> list[Words]:
    """The commands that read a study, a file of responses, or a run folder."""
    recorded = ("--recorded", *QUICK)
    panel = (*recorded, "--reviewers", "honest,lazy")
    pair = ("--task", SUBJECTS[0], "--agent", AGENT, "--peer", PEER)
    return [
        ("study", "check", study),
        ("study", "show", study),
        *(("score", study, "--metric", name, *recorded) for name in ("gem-raw", "tvd-mi", "length,rouge-l")),
        ("score", study, "--metric", "length", *QUICK, "--out", out),
        ("review", study, *panel, "--exam", "none"),
        ("agree", study, *panel),
        ("agree", study, "--metric", "length", *QUICK),
        ("bias", study, *panel),
        ("audit", study),
        ("select", study, "--metric", "tvd-mi", "--recorded", "--format", "csv"),
        ("score", study, "--compare-groups", "honest", "deceptive", "--metric", "tvd-mi,gem-raw", "--recorded"),
        ("calibrate", study, "--metric", "length"),
        ("crashtest", study, "--metric", "length", "--perturbation", "null", *QUICK),
        *(("explain", study, *pair, "--scorer", script, "--text", text) for text in ("responses", "rewrites")),
        ("export", "csv", study, "--out", out),
        ("finetune", study, "--base", f"hf:{out}", "--out", out, "--raw", *QUICK),
        ("finetune", study, "--base", f"hf:{out}", "--out", out, *QUICK),
        ("study", "import", study, "--out", out),
        ("crashtest", study, "--perturbation", "null", "--write", out),
        ("plan", study, "--metric", "gem-raw,tvd-mi", "--scorer", NOWHERE, "--critic", NOWHERE),
        ("watch", out, "--anchors", study, "--metric", "gem-raw", "--scorer", script),
    ]


def of_run(run: Path, out: Path, sound: Path) -> list[Words]:
    """The commands that read a run folder, and only that."""
    return [
        ("compare", run, sound, "--agents", AGENT),
        ("compare", run, "--agents", f"{AGENT},{PEER}"),
        ("gate", run, "--baseline", AGENT, "--candidate", PEER, "--metric", "length", "--margin", "1", *QUICK),
        ("compare", "--rankings", run, sound),
        ("plan", "--cost", run),
        ("replay", run),
        ("agree", sound.parent / "study-jsonl", "--scores", run / "response_scores.csv"),
        *(("export", name, run, "--out", out, *how) for name, how in FORMATS.items()),
    ]


def of_edition(edition: Path, out: Path, script: str) -> list[Words]:
    """The commands that read an edition of GRE-bench."""
    return [
        *(("gre", verb, edition) for verb in ("run", "collect")),
        ("gre", "submit", edition, "--preregister"),
        ("gre", "submit", edition, edition / "submitted.jsonl", "--name", "second", "--team", "lab"),
        ("gre", "publish", edition, "--out", out),
        ("gre", "score", edition, "--scorer", script),
        ("gre", "review", edition, "--models", script),
        ("study", "check", edition / "study"),
    ]


def of_import(folder: Path, out: Path, form: str) -> list[Words]:
    """The commands that read another tool's results."""
    how = {"table": ("--columns", "task=id,agent=model,text=output"), "wide": ("--wide",)}.get(form, ())
    named = () if form == "wide" else (form,)
    found = list(folder.iterdir())
    paths = found if len(found) == 1 and found[0].is_file() else [folder]
    return [
        ("study", "import", *named, *paths, "--out", out, *how),
        ("study", "import", *paths, "--out", out, *how),
        ("study", "check", *paths, *how),
        ("score", *paths, *how, "--metric", "length", *QUICK),
    ]


def of_journal(journal: Path, out: Path) -> list[Words]:
    """The commands that read or change a journal."""
    this = ("--journal", journal)
    return [
        ("journal", "show", *this),
        ("journal", "show", "--check", *this),
        ("journal", "clear", "--older-than", "1", "--dry-run", *this),
        ("journal", "clear", "--model", "http:one", "--yes", *this),
        ("journal", "merge", journal, "--journal", f"{out}.sqlite"),
    ]


def of_settings(folder: Path, out: Path, script: str) -> list[Words]:
    """The commands that read settings, templates, licences and scripts, in their folder."""
    answers = folder / "answers.jsonl"
    return [
        *[("config", "show"), ("config", "show", "score"), ("score", answers)],
        ("score", answers, "--metric", "gem-raw", "--scorer", "toy", *QUICK, "--out", out),
        ("score", answers, "--metric", "gem-raw", "--template", folder / "words.toml", "--scorer", script),
        ("jury", folder / "licence.json"),
        ("doctor", script),
        *(("list", kind) for kind in ("metrics", "plugins", "models")),
        *[("list",), ("journal", "show"), ("config", "completion", "bash")],
        ("demo", "--study", out),
    ]


def of_watch(folder: Path, script: str, sound: Path) -> list[Words]:
    """The commands that read the occasions of a watch."""
    anchors = ("--anchors", sound / "models" / "answers.jsonl", "--metric", "gem-raw", "--scorer", script)
    return [
        ("watch", folder, "--show"),
        ("watch", folder, *anchors),
        ("watch", folder, *anchors, "--restart", "--stream", folder / "stream.csv"),
    ]


def commands(kind: str, at: Path, out: Path, sound: Path) -> list[Words]:
    """The commands that read such a folder, damaged at one place; what they write, and where sound ones lie."""
    script = f"scripted:{sound / 'models' / 'script.jsonl'}"
    if kind.startswith("import-"):
        return of_import(at, out, kind.removeprefix("import-"))
    return {
        "single": lambda: [words for words in of_study(at / "answers.jsonl", out, script) if "--recorded" not in words],
        "run": lambda: [*of_run(at, out, sound / "run"), *of_study(at, out, script)[:8]],
        "models": lambda: of_study(at / "answers.jsonl", out, f"scripted:{at / 'script.jsonl'}")[-5:],
        "settings": lambda: of_settings(at, out, f"scripted:{at / 'script.jsonl'}"),
        "papers": lambda: [("gre", "collect", out, "--from-folder", at)],
        "edition": lambda: of_edition(at, out, script),
        "journal": lambda: of_journal(at / "journal.sqlite", out),
        "watch": lambda: of_watch(at, script, sound),
    }.get(kind, lambda: of_study(at, out, script))()


KINDS = {"study-jsonl": 4, "study-csv": 4, "study-parquet": 4, "run": 8, "single": 2, "settings": 4, "models": 1}
KINDS |= {"edition": 4, "papers": 1, "journal": 2, "watch": 2}
KINDS |= {f"import-{name}": 1 for name in ("lm_eval", "promptfoo", "every_eval_ever", "inspect", "traces", "table")}
KINDS |= {f"import-{name}": 1 for name in ("wide", "alpaca_eval", "arena_votes", "mt_bench", "arena_hard", "helm")}
KINDS |= {"import-lighteval": 1}
"""How often each folder is damaged, in proportion."""


def run(count: int, seed: int) -> Tally:
    """Damage this many files, and read each by one command."""
    tally = Tally("mutated files")
    random = Random(seed)
    with tempfile.TemporaryDirectory(prefix="goldless-torture-") as name:
        place = Path(name).resolve()
        sound_folders.make(place)
        with home(place / "home"):
            for _ in range(count):
                _one(random.choices(list(KINDS), list(KINDS.values()))[0], place, random, tally)
    return tally


def _one(kind: str, sound: Path, random: Random, tally: Tally) -> None:
    with tempfile.TemporaryDirectory(dir=sound) as fresh:
        at = Path(fresh) / "damaged" / kind
        shutil.copytree(sound / kind, at)
        files = sorted(path for path in at.rglob("*") if path.is_file() and path.suffix not in LEFT_ALONE)
        how = damage(random.choice(files), random)
        words = random.choice(commands(kind, at, Path(fresh) / "out", sound))
        with contextlib.chdir(at):
            ran = goldless(*words)
        tally.tried += 1
        misused = "' for help" in ran.err and kind != "settings"  # then the file was not even read
        if ran.broke or misused:
            tally.tracebacks += 1
            said = f"code {ran.code}: {' / '.join(line.strip() for line in ran.err.strip().splitlines()[-4:])}"
            tally.notes.append(f"{' '.join(map(str, words)).replace(str(at), kind)} | {how} | {said}")
