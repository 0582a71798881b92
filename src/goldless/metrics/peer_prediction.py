"""Peer prediction with a juror: how much an agent's answer helps a model to predict another agent's second answer.

Qiu, Carroll and Allen, arXiv 2601.20299. The juror sees worked examples, which are other tasks with the responses of
informant and defendant, then the task and the informant's response, and predicts the defendant's response. Without the
informant it sees the same except for the informant's responses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from goldless.errors import MetricError, listed
from goldless.metrics.likelihood import pair_scores, wordings
from goldless.metrics.metric import LogprobNeed, MetricInput, Needs, Scores, mean_over_variants, scores_over_peers
from goldless.models.interface import content_hash
from goldless.records import Agent, Task

PROMPT = "prompt"
"""The synopsis that is shown: the question itself."""


@dataclass(frozen=True)
class Roles:
    """The part that each sample of an agent plays."""

    informants: frozenset[str]
    """The first sample of each agent, or its only one: it informs, and is shown in worked examples."""
    examples: Mapping[str, str]
    """The samples that are predicted, the second of each agent or its only one, with the first of the same agent."""

    @classmethod
    def of(cls, agents: Sequence[Agent]) -> Roles:
        """The parts of these agents' samples; a third sample has none."""
        samples: dict[str, list[str]] = {}
        for agent in agents:
            samples.setdefault(agent.sample_of or agent.agent, []).append(agent.agent)
        predicted = {names[min(1, len(names) - 1)]: names[0] for names in samples.values()}
        return cls(frozenset(predicted.values()), predicted)

    @property
    def single(self) -> list[str]:
        """The agents with one sample, which both informs and is predicted."""
        return [name for name, first in self.examples.items() if name == first]


def example_order(tasks: Iterable[Task], same: str | None, seed: int) -> Callable[[str], Iterator[str]]:
    """A function that gives, for a task, the others from which worked examples are taken, in order; of the same kind.

    ``same``: the column that says of which kind a task is. Tasks are put in a ring by their hashes and each is followed
    by its neighbours, so that all are shown about equally often and the order of the study does not matter.
    """
    kinds: dict[str, list[str]] = {}
    for task in tasks:
        kinds.setdefault("" if same is None else _kind(task, same), []).append(task.task)
    if same is not None and (bad := kinds.get("")):
        raise MetricError(
            f"peer-prediction[{same}] takes worked examples from tasks with the same {same}, but {listed(bad)} "
            f"{'has' if len(bad) == 1 else 'have'} none. Fill in this column of the tasks table, or use peer-prediction"
        )
    rings = [sorted(names, key=lambda name: content_hash("examples", seed, name)) for names in kinds.values()]
    places = {name: (ring, place) for ring in rings for place, name in enumerate(ring)}

    def others(task: str) -> Iterator[str]:
        ring, place = places[task]
        return itertools.chain(itertools.islice(ring, place + 1, None), itertools.islice(ring, place))

    return others


def _kind(task: Task, column: str) -> str:
    value = task.extra.get(column)
    return (task.synopsis(column) or "") if value is None else str(value).strip()


@dataclass(frozen=True)
class PeerPrediction:
    """Mean over defendants and jurors of log p(y | with the informant) - log p(y | without), in nats."""

    name: str
    same: str | None = None
    """The column that says of which kind a task is; None: worked examples are any other tasks."""
    unit: str = "nats"

    @property
    def needs(self) -> Needs:
        return Needs(logprobs=LogprobNeed(synopsis=PROMPT, worked_examples=True, same=self.same))

    def scores(self, data: MetricInput) -> Scores:
        """The value of each response as informant about each defendant, and its mean over defendants.

        A pair is missing where it is missing for one of the jurors who were asked about it. A juror is not asked about
        defendants of its own family.
        """
        asked = wordings(data.evidence.logprobs, "responses", PROMPT, worked=self.same or True)
        if not asked:
            raise MetricError(
                f"{data.study.name} has no recorded log-probabilities after worked examples, which {self.name} needs. "
                "Leave --recorded out to request them"
            )
        by_juror: dict[str, pl.DataFrame] = {}
        for wording, rows in asked.items():
            for (juror,), mine in rows.partition_by("scorer", as_dict=True, maintain_order=True).items():
                name = wording.template if len(asked) > 1 else str(juror)
                name = f"{name}/{juror}" if len(asked) > 1 and rows["scorer"].n_unique() > 1 else name
                others = mine.filter(~pl.col("target").cast(pl.String).is_in(list(data.own_family(str(juror)))))
                by_juror[name] = data.compared(pair_scores(others))
        pairs = mean_over_variants(list(by_juror.values()), of_asked=True)
        settings = {
            **data.evidence.described.get("jurors", data.evidence.described.get("logprobs", {})),
            "template": ",".join(dict.fromkeys(wording.template for wording in asked)),
            "predicted": _predicted(data),
            "peers": data.peers_shown(pairs),
        }
        by_wording = by_juror if len(by_juror) > 1 else {}
        return scores_over_peers(pairs, data.over_peers, by_wording=by_wording, settings=settings)


def _predicted(data: MetricInput) -> str:
    """True if the response that is predicted is another one than the one that informs, for signatures."""
    single = len(Roles.of(data.study.agents).single)
    agents = len({data.study.samples.get(name, name) for name in data.agents})
    return "second-sample" if not single else "only-sample" if single == agents else "second-or-only-sample"
