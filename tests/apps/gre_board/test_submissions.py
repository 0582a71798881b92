"""A public board: registered before there are reviews, and submitted to."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from goldless.apps.gre.collecting import collect_edition
from goldless.apps.gre.edition import open_edition, open_or_begin
from goldless.apps.gre.scoring import score_edition
from goldless.apps.gre_board.best_of import best_of
from goldless.apps.gre_board.preregistration import FILE, PAPERS, check_registration, preregister
from goldless.apps.gre_board.submissions import LOG, MOST_CHARACTERS, read_log, submit
from goldless.errors import StudyError, UserError
from goldless.models.scripted import ScriptedModel
from tests.apps.gre.edition_folders import QUICK, papers_folder, reviewed
from tests.support.study_files import write_rows

pytestmark = pytest.mark.anyio


def test_registering_twice_is_the_same_registration_and_reviewers_get_every_paper(edition):
    first = preregister(edition)
    assert preregister(edition) == first
    assert (first.changed, first.reviews_before) == ((), 0)
    rows = [json.loads(line) for line in (edition.folder / PAPERS).read_text().splitlines()]
    study = edition.study()
    assert {row["paper"]: row["text"] for row in rows} == {task: study.task(task).prompt for task in study.tasks}
    assert "human" not in rows[0]


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"score": {"scorer": "hf:other/model"}}, "scorer"),
        ({"score": {"metrics": ["gem"]}}, "metrics"),
        ({"score": {"rewriter": ["embedded"]}}, "preprocessing"),
        ({"score": {"level": 0.5}}, "statistics"),
        ({"score": {"template": ["general"]}}, "scorer"),
        ({"review": {"temperature": 1.0}}, "reviewing"),
    ],
)
def test_every_setting_that_numbers_depend_on_is_covered(edition, settings, part):
    preregister(edition)
    changed = edition.with_settings(settings)
    assert part in check_registration(changed).changed
    with pytest.raises(UserError, match=f"but changed since: .*{part}"):
        preregister(changed)


@pytest.mark.parametrize(
    ("table", "old", "new", "part"),
    [
        ("tasks", "word for word", "word by word", "draw"),
        ("responses", "zarn bluk", "zarn blok", "draw"),
    ],
)
def test_changed_papers_and_reviews_are_noticed(edition, table, old, new, part):
    preregister(edition)
    file = edition.study_folder / f"{table}.jsonl"
    before = file.read_text()
    assert old in before
    file.write_text(before.replace(old, new, 1))
    assert check_registration(edition).changed == (part,)


async def test_a_run_says_that_it_is_as_registered_or_what_was_changed(edition, asking, toy_scorer):
    edition = edition.with_settings({"score": QUICK})
    registered = preregister(edition)
    edition = await reviewed(edition, asking, wordy={})
    run = edition.folder / "run" / "gre_board.json"
    await score_edition(edition, {}, stand_ins={"scorer": toy_scorer()}, options=asking)
    noted = json.loads(run.read_text())["preregistered"]
    assert (noted["hash"], noted["matches"], noted["changed"]) == (registered.hash, True, [])
    _, scores, _ = await score_edition(edition, {"level": 0.5}, stand_ins={"scorer": toy_scorer()}, options=asking)
    noted = json.loads(run.read_text())["preregistered"]
    assert (noted["hash"], noted["matches"], noted["changed"]) == (registered.hash, False, ["statistics"])
    assert any("changed since: statistics" in note for note in scores.table().notes)
    (edition.folder / FILE).unlink()
    _, scores, _ = await score_edition(edition, {}, stand_ins={"scorer": toy_scorer()}, options=asking)
    assert not run.exists()
    assert not any("preregistered" in note for note in scores.table().notes)


@pytest.mark.parametrize(("file", "told"), [(FILE, "not a pre-registration"), (LOG, "not a submission")])
async def test_what_was_damaged_is_refused_before_anything_is_scored(edition, asking, file, told):
    edition = await reviewed(edition, asking, wordy={})
    (edition.folder / file).write_text("{}\n")
    requests = []
    silent = ScriptedModel(logprobs=lambda *request: requests.append(request), name="silent")
    with pytest.raises(UserError, match=told):
        await score_edition(edition, QUICK, stand_ins={"scorer": silent}, options=asking)
    assert requests == []


def test_a_registration_that_was_edited_says_so_and_one_that_is_none_is_an_error(edition):
    preregister(edition)
    file = edition.folder / FILE
    noted = json.loads(file.read_text())
    noted["parts"]["metrics"] = ["gem"]
    file.write_text(json.dumps(noted))
    assert check_registration(open_edition(edition.folder)).changed == (f"{FILE} itself",)
    for text in ("", "[]", "{}", json.dumps({**noted, "hashes": 3})):
        file.write_text(text)
        with pytest.raises(UserError, match="not a pre-registration"):
            check_registration(edition)


@pytest.fixture
def file(tmp_path):
    """Writes a submission."""

    def write(rows, name="mine.jsonl"):
        return write_rows(tmp_path / name, rows)

    return write


def reviews(text, papers=("p1", "p2")):
    return [{"paper": paper, "text": f"<summary>{text}</summary>"} for paper in papers]


def test_reviews_become_an_agent_and_the_log_has_the_hash_of_the_file(edition, file):
    found, of_team = submit(edition, file(reviews("zarn")), name="first", team="Lab A")
    assert (found.number, found.reviews, found.missing, of_team) == (1, 2, 0, 1)
    assert edition.study().response("p1", "first").text == "Summary:\n\nzarn"
    second, of_team = submit(edition, file(reviews("vors", ["p2"])), name="second", team="Lab A")
    assert (second.missing, of_team) == (1, 2)
    assert [one.name for one in read_log(edition.folder)] == ["first", "second"]
    kept = sorted(path.name for path in (edition.folder / "submissions").iterdir())
    assert kept == [f"1-{found.sha256[:12]}.jsonl", f"2-{second.sha256[:12]}.jsonl"]


def test_all_bad_lines_are_named_at_once_and_nothing_is_added(edition, file):
    rows = [
        {"paper": "p1", "text": "good"},
        {"paper": "p1", "text": "again"},
        {"paper": "nowhere", "text": "lost"},
        {"paper": "p2", "text": "x" * (MOST_CHARACTERS + 1)},
        {"paper": "p2", "text": " "},
        {"paper": 7.5, "text": "odd"},
        {"text": "whose?"},
        {"paper": "p2", "text": "rated", "score": 9},
    ]
    with pytest.raises(StudyError) as caught:
        submit(edition, file(rows), name="bad", team="Lab")
    said = str(caught.value)
    for part in (
        "paper 'p1' is listed twice; first on line 1",
        "'nowhere' is not in the edition's papers",
        "at most 50,000 characters, got 50,001",
        "text is blank",
        "paper must be a string",
        "paper and text only, got 'score'",
    ):
        assert part in said, part
    assert not (edition.folder / LOG).exists()
    assert [agent.agent for agent in edition.study().agents] == ["human", "reference1", "reference2"]


@pytest.mark.parametrize("name", ["", "human", "Reference1", "a/b", "<b>x</b>", "x" * 65, "a\nb", "\u202eevil", " x"])
def test_hostile_and_reserved_names_are_refused(edition, file, name):
    with pytest.raises(UserError, match=r"--name must be|reserved for human"):
        submit(edition, file(reviews("zarn")), name=name, team="Lab")


def test_a_name_a_file_and_another_spelling_of_a_team_are_taken_once(edition, file):
    mine = file(reviews("zarn"))
    submit(edition, mine, name="first", team="Lab")
    with pytest.raises(UserError) as caught:
        submit(edition, mine, name="FIRST", team="lab")
    assert "'FIRST' is taken" in str(caught.value)
    assert "known as 'Lab'" in str(caught.value)
    assert "submitted as first by Lab, with number 1" in str(caught.value)
    with pytest.raises(UserError, match="was submitted as first before"):
        submit(edition, mine, name="first", team="Lab")
    assert len(read_log(edition.folder)) == 1


async def test_a_model_cannot_replace_a_submission(edition, file, asking):
    submit(edition, file(reviews("zarn")), name="first", team="Lab")
    with pytest.raises(UserError, match="names of submissions: first"):
        await reviewed(edition, asking, first={})
    assert edition.study().response("p1", "first").text == "Summary:\n\nzarn"


def test_an_interrupted_submission_is_completed_by_the_same_command(edition, file, monkeypatch):
    def die(*_, **__):
        raise KeyboardInterrupt

    mine = file(reviews("zarn"))
    with monkeypatch.context() as patched:
        patched.setattr("goldless.apps.gre_board.submissions.add_reviews", die)
        with pytest.raises(KeyboardInterrupt):
            submit(edition, mine, name="first", team="Lab")
    found, of_team = submit(edition, mine, name="first", team="Lab")
    assert (found.number, of_team) == (1, 1)
    assert edition.study().response("p2", "first") is not None
    assert len(read_log(edition.folder)) == 1


def test_submissions_at_the_same_time_follow_each_other(edition, file):
    files = [file(reviews(f"zarn {number}"), f"{number}.jsonl") for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: submit(edition, files[n], name=f"n{n}", team="Lab"), range(4)))
    assert {one.name for one in read_log(edition.folder)} == {"n0", "n1", "n2", "n3"}
    assert {agent.agent for agent in edition.study().agents} >= {"n0", "n1", "n2", "n3"}


@pytest.mark.parametrize("change", ["drop", "edit", "damage"])
def test_a_log_that_was_changed_is_refused(edition, file, change):
    for number in range(3):
        submit(edition, file(reviews(f"zarn {number}")), name=f"n{number}", team="Lab")
    log = edition.folder / LOG
    lines = log.read_text().splitlines(keepends=True)
    if change == "drop":
        lines.pop(0)
    elif change == "edit":
        lines[1] = lines[1].replace('"Lab"', '"Lob"')
    else:
        lines[1] = lines[1][:20] + "\n"
    log.write_text("".join(lines))
    with pytest.raises(UserError, match=r"changed or removed|not a submission"):
        read_log(edition.folder)


async def test_the_best_of_a_team_is_shown_with_its_n_and_corrected(tmp_path, file, asking, toy_scorer):
    texts = {f"p{n}": (f"a{n}", f"b{n} c{n}", f"b{n} d{n}") for n in range(12)}
    papers_folder(tmp_path / "papers", texts)
    edition = collect_edition(open_or_begin(tmp_path / "e"), {"from_folder": str(tmp_path / "papers")})
    words = {"half": lambda n: f"b{n}" if n % 2 else "no", "third": lambda n: f"b{n}" if n % 3 == 0 else "no"}
    for name, word in words.items():
        rows = [{"paper": f"p{n}", "text": word(n)} for n in range(12)]
        submit(edition, file(rows), name=name, team="Lab")
    submit(edition, file([{"paper": "p1", "text": "b1 c1 d1"}]), name="picky", team="Lab")
    submit(edition, file([{"paper": "p1", "text": "b1 c1 d1"}, {"paper": "p2", "text": "no"}]), name="few", team="Own")
    edition, scores, evaluation = await score_edition(
        edition, QUICK, stand_ins={"scorer": toy_scorer()}, options=asking
    )
    lab, own = scores.added["board"].submissions.best
    # the one review of an easy paper has the best mean of all, and is not the best submission
    board = {row.agent: row.score for row in evaluation.leaderboard("gem-raw").rows}
    assert board["picky"] > board["half"] > board["third"]
    assert (lab.submissions, lab.best, lab.score.n) == (3, "half", 12)
    assert (own.submissions, own.best, own.corrected) == (1, None, None)
    frame = evaluation.outcomes["gem-raw"].responses
    table = [
        [frame.filter(task=f"p{n}", agent=name)["score"].item() for name in words]
        for n in [int(task[1:]) for task in edition.study().tasks]
    ]
    expected = best_of(table, 3, seed=0, resamples=200, level=0.9)
    assert (lab.corrected, lab.score) == (expected.corrected, expected.interval)
    assert lab.corrected < lab.score.value
    noted = json.loads((edition.folder / "run" / "gre_board.json").read_text())["submissions"]
    assert [one["name"] for one in noted["log"]] == ["half", "third", "picky", "few"]
    assert "review-prompt:submitted" in evaluation.leaderboard().signature
