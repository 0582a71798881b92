"""Sections: what they make of documents, in numbers chosen in the documents or reckoned by hand."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import polars as pl
import pytest
from report_folders import (
    THREE,
    agreement,
    bias,
    board,
    consistency,
    cost,
    crash_test,
    leaderboard,
    review,
    write_folder,
)

from goldless.reports.documents.meta_evaluation import BiasNote
from goldless.reports.html import write_report
from goldless.reports.html.blocks import Code, Figure, Fold, Switched, Table, Term, html_cells
from goldless.reports.html.page import report_page
from goldless.reports.html.run_results import read_run
from goldless.reports.html.sections.asked import asked_section
from goldless.reports.html.sections.leaderboard import leaderboard_section, sizes_section
from goldless.reports.html.sections.meta_evaluation import _gap, bias_section, cost_section, crash_test_section
from goldless.reports.html.sections.review import agreement_section, review_section
from goldless.reports.html.sections.scores import comparisons_section, pair_scores_section, task_scores_section
from goldless.reports.html.sections.verdict import verdict_blocks
from goldless.reports.html.words import TERMS
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.store import save_run
from goldless.studies import read_study


def run_of(folder: Path, documents, **more):
    return read_run(write_folder(folder, documents, **more))


def inside(blocks):
    """The blocks, and those in folds and of metrics that are not switched on."""
    for block in blocks:
        yield block
        if isinstance(block, Fold | Switched):
            yield from inside(block.blocks)


def figures(section) -> list[Figure]:
    return [block for block in inside(section.blocks) if isinstance(block, Figure)]


def rows(table: Table) -> list[dict[str, str]]:
    return [{column.name: cell.text for column, cell in html_cells(table.columns, row)} for row in table.rows]


# --- scores ---------------------------------------------------------------------------------------------------------


def test_a_leaderboard_has_a_figure_for_each_metric(tmp_path):
    run = run_of(tmp_path, {"leaderboard": leaderboard(one=board(THREE), two=board(THREE))})
    assert [figure.title[-1].text for figure in figures(leaderboard_section(run))] == ["one", "two"]


def test_scores_under_several_wordings_are_shown_side_by_side(tmp_path):
    by_wording = {"general": {"ann": 12.0, "bob": 7.0, "cy": None}, "plain": {"ann": 13.0, "bob": 7.5, "cy": -2.0}}
    run = run_of(tmp_path, {"leaderboard": leaderboard(m=board(THREE, by_wording=by_wording))})
    table = next(block for block in inside(leaderboard_section(run).blocks) if isinstance(block, Table))
    assert [column.heading for column in table.columns] == ["agent", "general", "plain"]
    assert rows(table)[2] == {"agent": "cy", "w0": "missing", "w1": "\u22122.00"}


def test_a_comparison_below_the_level_is_decided_and_one_above_is_not(tmp_path):
    one = board(THREE)
    one["comparisons"][1]["p_holm"] = 0.05
    run = run_of(tmp_path, {"leaderboard": leaderboard(m=one)})
    (figure,) = figures(comparisons_section(run))
    told = [(row["first"], row["second"], row["decided"]) for row in rows(figure.data[0])]
    assert told == [("ann", "bob", "first is better"), ("ann", "cy", "no"), ("bob", "cy", "first is better")]


@pytest.mark.parametrize(("n", "said"), [(0, "no common task"), (1, "one common task")])
def test_two_agents_without_a_test_are_told_how_many_tasks_they_share(tmp_path, n, said):
    one = board(THREE)
    one["comparisons"][1] |= {"difference": 1.0 if n else None, "p": None, "p_holm": None, "n": n}
    (figure,) = figures(comparisons_section(run_of(tmp_path, {"leaderboard": leaderboard(m=one)})))
    assert rows(figure.data[0])[1]["decided"] == said


@pytest.mark.parametrize(
    ("more", "counted"),
    [
        ({}, "pairs of responses"),
        ({"signature": "length|against:nothing"}, "responses"),
        ({"signature": "rouge-l[reference]|against:reference"}, "responses"),
        ({"matrix": {"agents": list(THREE), "means": [[None] * 3] * 3}}, "responses"),
    ],
)
def test_a_leaderboard_says_whether_pairs_or_responses_are_counted(tmp_path, more, counted):
    one = board(THREE, **more)
    one["rows"][0] |= {"used": 7, "missing": 1}
    run = run_of(tmp_path, {"leaderboard": leaderboard(m=one)})
    (figure,) = figures(leaderboard_section(run))
    assert f"missing count {counted};" in figure.data[0].caption[1]
    lead = "".join(part for part in verdict_blocks(run)[0].parts if isinstance(part, str))
    assert f"1 of 24 {'pair scores' if 'pairs' in counted else 'scores'} are" in lead


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ((9, 9, 9), "by Student's t over tasks (fewer than 10)"),
        ((10, 10, 10), "from resampling tasks."),
        ((10, 9, 10), "from resampling tasks."),
    ],
)
def test_intervals_of_fewer_than_ten_tasks_are_said_to_be_students(tmp_path, tasks, said):
    one = board(THREE)
    for row, n in zip(one["rows"], tasks, strict=True):
        row["n"] = n
    (figure,) = figures(leaderboard_section(run_of(tmp_path, {"leaderboard": leaderboard(m=one)})))
    assert said in "".join(part for part in figure.caption if isinstance(part, str))


def test_the_pair_matrix_stands_in_the_order_of_the_leaderboard(tmp_path):
    one = board(THREE)
    one["matrix"] = {"agents": ["cy", "bob", "ann"], "means": [[None, 1.0, 2.0], [3.0, None, 4.0], [5.0, 6.0, None]]}
    run = run_of(tmp_path, {"leaderboard": leaderboard(m=one)})
    (figure,) = figures(pair_scores_section(run))
    assert [(row["agent"], row["peer"], float(row["score"])) for row in rows(figure.data[0])] == [
        ("ann", "bob", 6.0),
        ("ann", "cy", 5.0),
        ("bob", "ann", 4.0),
        ("bob", "cy", 3.0),
        ("cy", "ann", 2.0),
        ("cy", "bob", 1.0),
    ]


def scores_of(values: dict[str, list[float | None]], metric: str = "m"):
    return [(metric, f"t{i}", agent, value) for agent, found in values.items() for i, value in enumerate(found)]


def test_quantiles_over_tasks_are_those_between_neighbouring_scores(tmp_path):
    # of 0, 1, …, 20: the 5 % quantile is 1, the quartiles 5 and 15, the median 10
    scores = scores_of({"ann": [float(i) for i in range(21)], "bob": [1.0, None], "cy": []})
    run = run_of(tmp_path, {"leaderboard": leaderboard(m=board(THREE))}, scores=scores)
    (figure,) = figures(task_scores_section(run))
    ann, bob, cy = rows(figure.data[-1])
    assert [float(ann[key]) for key in ("least", "q0", "q1", "q2", "q3", "q4", "most")] == [0, 1, 5, 10, 15, 19, 20]
    assert (bob["n"], bob["missing"]) == ("1", "1")
    assert cy["q2"] == "-"


def test_a_task_far_out_is_named(tmp_path):
    # quartiles of 0 … 8 and 100 are 2.25 and 6.75: beyond 6.75 + 1.5 · 4.5 = 13.5 lies only 100
    scores = scores_of({"ann": [*map(float, range(9)), 100.0]})
    run = run_of(tmp_path, {"leaderboard": leaderboard(m=board(THREE))}, scores=scores)
    (figure,) = figures(task_scores_section(run))
    assert [(row["agent"], row["task"], row["score"]) for row in rows(figure.data[-1])] == [("ann", "t9", "100.00")]


@pytest.mark.parametrize(("tasks", "points"), [(200, 600), (201, 0)])
def test_points_of_more_than_two_hundred_tasks_are_not_embedded(tmp_path, tasks, points):
    scores = scores_of({agent: [float(i % 10) for i in range(tasks)] for agent in THREE})
    run = run_of(tmp_path, {"leaderboard": leaderboard(m=board(THREE))}, scores=scores)
    (figure,) = figures(task_scores_section(run))
    assert str(figure.pictures[0]).count("h0") == points


def test_the_task_that_moves_a_mean_most_is_numbered_in_the_chart_and_named_in_the_table(tmp_path):
    row = {"agent": "ann", "task": "t3", "change": -2.5, "rank": 1, "rank_without": 2, "ranking_changes": True}
    scores = scores_of({"ann": [10.0, 11.0, 12.0, 20.0]})
    run = run_of(tmp_path, {"leaderboard": leaderboard(m=board(THREE, influence=[row]))}, scores=scores)
    (figure,) = figures(task_scores_section(run))
    (told,) = rows(figure.data[0])
    assert (told["place"], told["task"], told["score"], told["ranks"]) == ("1", "t3", "20.00", "1 → 2")
    assert 'class="number" text-anchor="middle">1</text>' in str(figure.pictures[0])


# --- size -----------------------------------------------------------------------------------------------------------

SIZES = [
    {"agent": "ann", "parameters": 7e9, "family": "letters"},
    {"agent": "bob", "parameters": 7e10, "family": "letters"},
    {"agent": "cy", "group": "Human"},
]


def test_agents_with_a_size_are_drawn_against_it(tmp_path):
    run = run_of(tmp_path, {"leaderboard": leaderboard(m=board(THREE))}, agents=SIZES)
    (figure,) = figures(sizes_section(run))
    assert [(row["agent"], row["parameters"]) for row in rows(figure.data[0])] == [("ann", "7B"), ("bob", "70B")]


def test_one_agent_with_a_size_is_no_figure(tmp_path):
    assert sizes_section(run_of(tmp_path, {"leaderboard": leaderboard(m=board(THREE))}, agents=SIZES[1:])) is None


def test_people_among_the_agents_are_a_band_at_their_mean(tmp_path):
    # Student's t interval of 1, 2 and 3: 2 ± 4.3027 · 1 / √3 (t quantile of 2 degrees of freedom, 97.5 %)
    scores = scores_of({"cy": [1.0, 2.0, 3.0], "ann": [12.5] * 3})
    run = run_of(tmp_path, {"leaderboard": leaderboard(m=board(THREE))}, scores=scores, agents=SIZES)
    (figure,) = figures(sizes_section(run))
    svg = str(figure.pictures[0])
    line = float(re.search(r'<line [^>]*y1="([\d.]+)"[^>]*class="band-line"', svg)[1])
    band = re.search(r'<rect x="[\d.]+" y="([\d.]+)" width="[\d.]+" height="([\d.]+)" class="band"', svg)
    ticks = {
        float(y): float(t.replace("\u2212", "-"))
        for y, t in re.findall(r'y="([\d.]+)" class="tick" text-anchor="end">([^<]+)<', svg)
        if t != "people"
    }
    (y0, v0), (y1, v1) = sorted(ticks.items())[:2]
    a_unit = (y0 - y1) / (v0 - v1)
    assert v0 + (line - (y0 - 4)) / a_unit == pytest.approx(2.0, abs=0.05)
    assert float(band[2]) / abs(a_unit) == pytest.approx(2 * 4.3027 / 3**0.5, abs=0.05)
    people = rows(figure.data[0])[-1]
    # 2 ± 2.4842
    assert [people[key] for key in ("agent", "parameters", "score", "low", "high", "n")] == [
        "people (mean)",
        "-",
        "2.00",
        "\u22120.48",
        "4.48",
        "3",
    ]


def test_people_on_one_task_are_a_line_without_an_interval(tmp_path):
    run = run_of(tmp_path, {"leaderboard": leaderboard(m=board(THREE))}, scores=scores_of({"cy": [2.0]}), agents=SIZES)
    (figure,) = figures(sizes_section(run))
    assert 'class="band-line"' in str(figure.pictures[0])
    assert 'class="band"' not in str(figure.pictures[0])
    assert [rows(figure.data[0])[-1][key] for key in ("low", "high")] == ["none", "none"]


# --- review, crash test, agreement, bias, cost ----------------------------------------------------------------------


def test_a_reviewer_is_held_against_its_limit_in_words(tmp_path):
    section = review_section(run_of(tmp_path, {"review": review()}))
    exam = figures(section)[0]
    told = {(row["reviewer"], row["trait"]): row["outcome"] for row in rows(exam.data[0])}
    assert told == {
        ("judge-a", "consistency"): "above",
        ("judge-a", "pertinence"): "above",
        ("judge-b", "consistency"): "not above",
        ("judge-b", "pertinence"): "missing",
    }


def test_the_report_says_what_a_panel_is_worth_and_how_far_its_order_can_be_trusted(tmp_path):
    document = review()
    document["settings"] = {"orders": "one-random"}
    document["reviewers"][0]["first_shown"] = {"value": 0.75, "low": 0.5, "high": 1.0, "n": 16}
    document["panel"]["worth"] = {
        "reviewers": ["judge-a", "judge-b", "judge-c"],
        "by_errors": {"judges": 3, "votes": 1.5, "low": 1.25, "high": 1.75, "correlation": 0.5, "n": 40},
        "by_votes": {"judges": 3, "votes": 1.2, "correlation": 0.75, "n": 60},
        "peers": [{"reviewer": "judge-a", "accuracy": 0.9, "low": 0.8, "high": 0.95, "n": 60, "discrimination": 2.0}],
        "claimed": 0.97,
        "right": 0.73,
        "n_claimed": 40,
        "notes": ["on a scale of three or more levels votes do not identify accuracy"],
    }
    page = report_page(run_of(tmp_path, {"review": document}))
    for words in (
        "The 3 reviewers are worth 1.50 (1.25 … 1.75) independent votes: their errors correlate at 0.500 on 40",
        "claims to be right on 0.970 of the pairs and is right on 0.730 of 40 labelled ones",
        "three or more levels",
        "Position bias",
        "judge-aware d",
    ):
        assert words in page


def test_a_rating_is_told_by_word_and_shape_and_not_by_colour_alone(tmp_path):
    (figure,) = figures(crash_test_section(run_of(tmp_path, {"crash_test": crash_test()})))
    svg = str(figure.pictures[0])
    for shape, word in (
        ("dot blue", "✓\u00a0pass"),
        ("cross vermilion", "✕\u00a0fail"),
        ("ring muted", "○\u00a0not\u00a0shown"),
    ):
        assert f'class="{shape}"' in svg
        assert word in svg


def test_how_far_people_agree_is_a_band(tmp_path):
    section = agreement_section(run_of(tmp_path, {"agreement": agreement()}))
    accuracy, spearman = figures(section)
    assert 'class="band"' in str(accuracy.pictures[0])
    assert "one person vs the others" in str(spearman.pictures[0])
    assert [row["judge"] for row in rows(accuracy.data[0])][:2] == ["judge-a", "gem-raw"]


def test_how_far_people_agree_stands_in_the_table_too(tmp_path):
    accuracy, spearman = figures(agreement_section(run_of(tmp_path, {"agreement": agreement()})))
    told = [rows(figure.data[0])[-1] for figure in (accuracy, spearman)]
    assert [row["judge"] for row in told] == ["one person vs the others"] * 2
    assert [told[0][key] for key in ("accuracy", "low", "high", "asked")] == ["0.688", "0.656", "0.719", "-"]
    assert [told[1][key] for key in ("value", "low", "high")] == ["0.438", "0.375", "0.500"]


def test_how_far_people_agree_is_a_line_where_it_has_no_interval(tmp_path):
    document = agreement()
    document["criteria"][0]["ceiling"]["accuracy"] = {"value": 0.6875, "low": None, "high": None}
    accuracy = figures(agreement_section(run_of(tmp_path, {"agreement": document})))[0]
    svg = str(accuracy.pictures[0])
    assert 'class="band-line"' in svg
    assert 'class="band"' not in svg
    assert [rows(accuracy.data[0])[-1][key] for key in ("low", "high")] == ["none", "none"]


def test_a_bias_is_shown_only_where_the_interval_lies_beside_the_neutral_value(tmp_path):
    section = bias_section(run_of(tmp_path, {"bias": bias()}))
    position, flips, gaps = figures(section)
    # 0.625 ± 0.0625 lies above 0.5; 0.53125 ± 0.0625 holds it; of flips nothing is known
    assert [row["said"] for row in rows(position.data[0])] == ["yes", "no"]
    assert [row["said"] for row in rows(flips.data[0])] == ["undecidable"]
    assert str(gaps.pictures[0]).count("+0.13") + str(gaps.pictures[0]).count("+0.12") >= 2


def gap(value: float, *, shown: bool):
    return _gap(BiasNote(bias="self-preference", judge="ann, bob", value=value, shown=shown), 0.5)


def test_a_preference_gap_that_is_not_shown_has_no_colour():
    assert gap(0.5, shown=False).strength == 0.0
    assert gap(0.5, shown=True).strength == 1.0
    assert gap(-0.5, shown=True).strength == -1.0


@pytest.mark.parametrize("name", ["mean", "win rate", "bradley-terry"])
def test_a_ranking_is_captioned_by_what_it_ranks_by(tmp_path, name):
    document = review()
    document["rankings"] = {name: {"unit": "rating", "agents": document["ranking"], "notes": []}}
    ranking = figures(review_section(run_of(tmp_path, {"review": document})))[-1]
    (term,) = (part for part in ranking.caption if isinstance(part, Term))
    assert term.key == ("mean of ratings" if name == "mean" else name)
    assert term.key in TERMS


def test_panels_on_the_frontier_are_joined_and_the_others_are_not(tmp_path):
    (figure,) = figures(cost_section(run_of(tmp_path, {"cost": cost()})))
    table = {row["panel"]: (row["usd"], row["accuracy"], row["edge"]) for row in rows(figure.data[0])}
    assert table == {
        "judge-b": ("0.00", "0.562", "yes"),
        "judge-a + judge-b": ("8.00", "0.750", "yes"),
        "judge-a": ("8.00", "0.688", "no"),
    }
    path = re.search(r'<path d="([^"]+)" class="frontier"', str(figure.pictures[0]))[1]
    assert len(re.findall("[ML]", path)) == 2


# --- what was asked, and the verdict -----------------------------------------------------------------------------


def test_a_wording_of_the_users_is_shown_where_the_run_holds_it(tmp_path):
    held = {"rewrite": "Rewrite it.", "predict": "Predict it.", "synopsis_heading": "S:", "candidate_heading": "C:"}
    document = leaderboard() | {"models": {"scorer": {"name": "toy"}}, "settings": {"template": "mine@0123,lost@4567"}}
    run = run_of(tmp_path, {"leaderboard": document | {"templates": {"mine@0123": held}}})
    text = str(asked_section(run).blocks)
    assert "Predict it." in text
    assert text.count("whose text is not stored with the run") == 1


def test_signatures_of_scorers_that_were_compared_are_shown(tmp_path):
    document = consistency() | {"signatures": {"gem-raw by small": "gem-raw|scorer:small"}}
    blocks = asked_section(run_of(tmp_path, {"consistency": document})).blocks
    assert Code("gem-raw|scorer:small") in blocks


def test_the_judge_that_agrees_most_is_named_with_interval_pairs_and_tasks(tmp_path):
    (lead,) = verdict_blocks(run_of(tmp_path, {"agreement": agreement()}))
    text = "".join(part.word if isinstance(part, Term) else str(part) for part in lead.parts)
    assert "agrees most with people: on 0.750 (0.700 to 0.800) of 198 pairs with a clear human preference." in text


# --- with results as a run writes them ------------------------------------------------------------------------------


def test_a_run_of_this_version_is_reported_with_every_number_of_its_leaderboard(tmp_path, toy_scorer, study_file):
    options = Options(scorer=toy_scorer(), metrics=("gem-raw",), journal=tmp_path / "j.sqlite", resamples=200)
    evaluation = anyio.run(evaluate_study, read_study(study_file()), options)
    folder = save_run(evaluation, tmp_path / "run")
    text = write_report(folder).read_text(encoding="utf-8")
    assert "another shape" not in text
    kept = {float(value) for value in re.findall(r'data-v="([^"]+)"', text)}
    scores = pl.read_csv(folder / "leaderboard.csv")
    assert {value for column in ("score", "low", "high") for value in scores[column].to_list()} <= kept
