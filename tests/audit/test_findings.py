"""What the audit finds: blocks that only predict themselves, contradictions, length in disguise, and texts alone."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

from goldless.audit.peer_graph import graph_findings, peer_graph
from goldless.audit.scores import AuditedRanking, score_findings
from goldless.audit.texts import text_findings
from goldless.records import Response, Task
from goldless.studies import study_from_records
from tests.support.tickets import EMPTY, TICKETS, study


def pairs(shared, agents, *, tasks=12, seed=0):
    """Pair scores with a little noise around what two agents share."""
    noise = np.random.default_rng(seed)
    rows = [
        {"task": f"t{t}", "agent": a, "peer": b, "score": shared(a, b) + noise.normal(0, 0.5)}
        for t in range(tasks)
        for a, b in itertools.permutations(agents, 2)
    ]
    return pl.DataFrame(rows)


HONEST = ("a", "b", "c", "d")


def test_levels_of_agents_make_no_link_and_no_block():
    level = dict(zip(HONEST, (1.0, 4.0, 9.0, 16.0), strict=True))
    graph = peer_graph(pairs(lambda one, other: level[one] + level[other], HONEST), HONEST)
    assert (graph.links, graph.blocks) == ((), ())


def test_a_link_is_what_levels_leave_over_with_its_standard_error():
    """a and b share 21 and 19 on two tasks, all others nothing.

    By least squares the levels are 20/3 for a and b and -10/3 for c and d, so 20 - 40/3 is left over. The standard
    error is the root of 2 over the root of 2.
    """
    tables = [
        pl.DataFrame(
            [
                {"task": task, "agent": one, "peer": other, "score": shared if {one, other} == {"a", "b"} else 0.0}
                for one, other in itertools.permutations(HONEST, 2)
            ]
        )
        for task, shared in (("t", 21.0), ("u", 19.0))
    ]
    links = peer_graph(pl.concat(tables), HONEST).links
    (link,) = [link for link in links if (link.first, link.second) == ("a", "b")]
    assert (link.excess, link.standard_error) == pytest.approx((20 / 3, 1))


def test_two_that_predict_each_other_and_no_one_else_are_a_block():
    agents = (*HONEST, "x", "y")
    graph = peer_graph(
        pairs(
            lambda one, other: 80.0 if {one, other} == {"x", "y"} else 0.2 if {one, other} & {"x", "y"} else 20.0,
            agents,
        ),
        agents,
    )
    block = graph.blocks[0]
    assert block.agents == ("x", "y")
    assert block.inside == pytest.approx(80, abs=0.5)
    assert block.outside == pytest.approx(0.2, abs=0.4)
    assert (sorted(block.ranks), sorted(block.ranks_without)) == ([1, 2], [5, 6])
    assert (graph.links[0].first, graph.links[0].second) == ("x", "y")
    # the others are a block as well, and would not rank lower without it
    (finding,) = graph_findings("gem-raw", "nats", graph)
    assert (finding.kind, finding.agents) == ("link", ("x", "y"))
    assert "x and y share 80" in finding.message
    assert "They may have copied, colluded or come from one model." in finding.message


@pytest.mark.parametrize(
    ("agents", "camp", "between"),
    [(("a", "b", "x", "y"), "xy", 1.0), (("a", "b", "x", "y", "z"), "xyz", 15.0)],
    ids=["one of two halves", "three of five"],
)
def test_half_of_the_agents_or_more_may_just_agree_and_the_others_are_not_accused(agents, camp, between):
    """Those that share a code share 80, the others 40."""

    def shared(one, other):
        inside = {one, other} & {*camp}
        return 80.0 if len(inside) == 2 else between if inside else 40.0

    graph = peer_graph(pairs(shared, agents), agents)
    found = {finding.agents: finding.message for finding in graph_findings("gem-raw", "nats", graph)}
    (told,) = [message for names, message in found.items() if {*names} == {*camp}]
    assert "half of the agents or more, so this can be agreement as well as collusion" in told
    assert not [names for names in found if "copied" in found[names]]


def test_a_pair_that_shares_twice_what_others_share_is_told_with_its_ranks_without_it():
    """Their answers are as good as the others': 20 nats with anyone else."""
    level = {"a": 10.0, "b": 10.0, "c": 11.0, "d": 11.0}
    graph = peer_graph(
        pairs(lambda one, other: 40.0 if {one, other} == {"a", "b"} else level[one] + level[other], HONEST), HONEST
    )
    assert ("a", "b") in [(link.first, link.second) for link in graph.links]
    (finding,) = graph_findings("gem-raw", "nats", graph)
    assert set(finding.agents) == {"a", "b"}
    assert "instead of" in finding.message


def test_a_link_far_above_the_others_is_told_even_if_no_rank_depends_on_it():
    """x has careful's text: they share 165, the other pairs at most what their levels of 10 to 35 say."""
    level = {"careful": 20.0, "x": 20.0, "solid": 16.0, "clear": 12.0, "brief": 8.0, "vague": 4.0}
    agents = tuple(level)
    shared = lambda one, other: 165.0 if {one, other} == {"careful", "x"} else level[one] + level[other]  # noqa: E731
    graph = peer_graph(pairs(shared, agents), agents)
    (finding,) = graph_findings("shared-info", "nats", graph)
    assert (finding.kind, set(finding.agents)) == ("link", {"careful", "x"})
    assert (
        "Their ranks are the same without that. They may have copied, colluded or come from one model."
        in finding.message
    )


# --- metrics beside each other ---------------------------------------------------------------------------------------


def ranking(metric, values, better_than=None):
    return AuditedRanking(metric, np.asarray(values, float), better_than or {})


def opposite(metric):
    """What is found where a metric has the empty answers above the good ones, and mi has it the other way round."""
    values = np.zeros((6, 2))
    rankings = [ranking(metric, values, {"empty": ("good",)}), ranking("mi", values, {"good": ("empty",)})]
    return score_findings(study(good="good", empty="empty"), rankings)


def test_metrics_that_decide_a_pair_in_opposite_ways_contradict_each_other_but_for_length():
    (found,) = opposite("gem-raw")
    assert (found.kind, found.metrics) == ("contradiction", ("gem-raw", "mi"))
    assert "empty is significantly above good under gem-raw" in found.message
    assert opposite("length") == []


def lengths_study():
    noise = np.random.default_rng(1)
    tasks = [Task(f"t{i}") for i in range(10)]
    sizes = noise.integers(20, 400, (10, 4))
    responses = [Response(t.task, a, "x" * int(sizes[i, j])) for i, t in enumerate(tasks) for j, a in enumerate("abcd")]
    return study_from_records(tasks, responses), sizes


def test_a_metric_that_follows_length_within_tasks_is_named():
    made, sizes = lengths_study()
    (finding,) = score_findings(made, [ranking("rouge-l", np.log(sizes))])
    assert finding.kind == "only-length"
    assert "correlate 1.00" in finding.message


# --- texts alone -----------------------------------------------------------------------------------------------------


def found(**agents):
    return [(one.kind, one.agents) for one in text_findings(study(**agents))]


def test_an_honest_study_has_no_finding():
    plain = study_from_records(
        [Task(f"t{i}", prompt=ticket) for i, (ticket, _, _) in enumerate(TICKETS)],
        [
            Response(f"t{i}", agent, text)
            for i, (_, good, _) in enumerate(TICKETS)
            for agent, text in {"whole": good, "short": good[: good.index(";") if ";" in good else 60]}.items()
        ],
    )
    assert text_findings(plain) == []


def test_a_text_that_differs_in_a_word_per_task_is_nearly_the_same():
    texts = [Response(f"t{i}", "slot", f"{EMPTY} {i}") for i in range(6)]
    (finding,) = text_findings(study_from_records([Task(f"t{i}") for i in range(6)], texts))
    assert (finding.kind, finding.message) == ("same-text", "slot gives nearly the same text to 6 of 6 tasks.")


def test_agents_that_share_their_texts_are_one_group():
    assert ("near-identical", ("a", "b", "c")) in found(good="good", a="empty", b=EMPTY + " today", c=EMPTY + " now")


def test_a_copied_prompt_is_found_and_an_answer_that_quotes_a_little_of_it_is_not():
    assert found(good="good", copycat="copy") == [("copied-prompt", ("copycat",))]


def test_an_agent_in_another_language_than_its_peers_is_named_with_both():
    (finding,) = [
        one for one in text_findings(study(a="good", b="copy", german="german")) if one.kind == "other-language"
    ]
    assert finding.agents == ("german",)
    assert "on 6 of 6 tasks (mostly de, not en)" in finding.message


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("I'm sorry, but I can't assist with that request.", True),
        ("As an AI language model, I do not have access to your account.", True),
        ("I am unable to help with this.", True),
        ("I cannot provide an answer to that.", True),
        ("Sorry for the trouble: the refund is on its way, you cannot miss it.", False),
        ("The button stays grey until a filter is saved.", False),
    ],
)
def test_refusals_are_counted_and_apologies_are_not(text, refuses):
    kinds = [kind for kind, agents in found(good="good", other=text) if agents == ("other",)]
    assert ("refusals" in kinds) is refuses


def test_a_large_study_is_sampled_and_the_sample_does_not_change(monkeypatch):
    monkeypatch.setattr("goldless.audit.texts.RESPONSES", 40)
    tasks = [Task(f"t{i}") for i in range(500)]
    large = study_from_records(tasks, [Response(t.task, a, f"{EMPTY} {a}") for t in tasks for a in ("a", "b")])
    first = text_findings(large)
    assert first == text_findings(large)
    assert "of 20 tasks" in first[0].message
