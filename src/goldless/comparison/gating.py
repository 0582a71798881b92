"""``goldless gate``: may the candidate replace the baseline? Non-inferiority with a margin, and a certified judge.

With the difference candidate - baseline and one-sided bounds at alpha over tasks: SHIP where the lower bound is above
-margin, BLOCK where the upper bound is below -margin, else INCONCLUSIVE. Each of the two claims is wrong with a
probability of at most alpha. The bounds are the differences that ``compare``'s sign-flip test, one-sided at alpha, does
not reject (``statistics.sign_flips``); losses so rare that these tasks have none of them stay unseen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple
from xml.etree import ElementTree as ET

import numpy as np

from goldless.arrays import FloatArray
from goldless.comparison.certificate import Certificate, certify, find_judged
from goldless.comparison.comparing import MetricDifference, PairedComparison, compared
from goldless.comparison.pairing import Paired, Run, Sides, open_sides, paired_scores
from goldless.errors import UserError
from goldless.reports.document import InMemory, Result
from goldless.reports.findings import comparative
from goldless.reports.formats import code_line, markdown_cell
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.statistics.bootstrap import Draws, Estimate, Limits
from goldless.statistics.deciding import AT_LEAST, Tolerance, least_tasks, more_tasks, outlook
from goldless.statistics.sign_flips import mean_test

Verdict = Literal["SHIP", "BLOCK", "INCONCLUSIVE"]


@dataclass(frozen=True)
class Gate(Result):
    """The verdict on a candidate, and everything it rests on."""

    verdict: Verdict
    reason: str
    """The reason for the verdict, in a sentence."""
    baseline: str
    candidate: str
    metric: str
    unit: str
    margin: float
    """In the metric's unit."""
    margin_given: str
    alpha: float
    bounds: Estimate
    """Candidate - baseline with one-sided bounds, each at alpha."""
    more_tasks: int | None
    """The number of more tasks that decides in 80% of cases; 0: decided; None: too far to say, or tasks do not help."""
    certificate: Certificate
    warnings: tuple[str, ...] = field()
    comparison: PairedComparison
    """The difference with its two-sided interval, and the tasks that pull most."""
    spending: InMemory[tuple[Spending, ...]] = ()

    @property
    def difference(self) -> MetricDifference:
        return self.comparison.metrics[0]

    def tables(self) -> list[ReportTable]:
        return [self.table()]

    def table(self) -> ReportTable:
        columns = (
            Column("metric", "metric"),
            Column("first", self.baseline, "number", decimals=2),
            Column("second", self.candidate, "number", decimals=2),
            Column("difference", "difference", "signed", decimals=2),
            Column("low high", f"bounds at {self.alpha:g}", "signed interval", decimals=2),
            Column("limit", "limit", "signed", decimals=2),
            Column("n", "tasks", "count"),
            Column("unit", "unit", wide=True),
            Column("verdict", "verdict", wide=True),
        )
        found = self.difference
        low, high = self.bounds.low, self.bounds.high
        row = found.cells(low=low, high=high, limit=-self.margin, verdict=self.verdict)
        notes = (self.reason, f"A/A certificate: {self.certificate.state}; {self.certificate.words}")
        return ReportTable(
            f"{self.verdict}: {self.candidate} in place of {self.baseline}", columns, (row,), found.signature, notes
        )


async def gate_runs(
    folders: Sequence[Path | str],
    options: Options,
    *,
    baseline: str | None,
    candidate: str | None = None,
    metric: str | None = None,
    margin: str | float | Tolerance | None,
    alpha: float = 0.05,
    aa: int | None = None,
    repeats: Sequence[Path | str] = (),
    uncertified: bool = False,
) -> Gate:
    """Gate a candidate of a run, or of the second of two, against a baseline.

    ``aa``: ask this many verdicts of the judge a second time first. ``repeats``: folders with the second asking, one
    per run. ``uncertified``: decide although the judge was never asked twice.
    """
    if margin is None:
        raise UserError(
            "--margin is missing: how much worse may the candidate be? Give it in the metric's unit, or in standard "
            "deviations of the baseline's scores. Try --margin 0.2sd"
        )
    if not 0 < alpha < 0.5:
        raise UserError(f"alpha must be between 0 and 0.5, got {alpha:g}. Try 0.05")
    if aa is not None and repeats:
        raise UserError("--aa and --second-run exclude each other: ask again, or name the second answers")
    if repeats and len(repeats) != len(folders):
        raise UserError(f"--second-run must be given once per run folder, got {len(repeats)} for {len(folders)}")
    allowed = Tolerance.parse(margin, "margin")
    sides = _sides(folders, baseline, candidate)
    known = sides.common_metrics(() if metric is None else (metric,))
    if metric is None:  # a control decides nothing while there is a metric
        known = [name for name in known if comparative(name) != "longer"] or known
    if len(known) > 1:
        raise UserError(f"a gate decides by one metric. Name it with --metric: {', '.join(known)}")
    name = known[0]
    paired, judged = paired_scores(sides, name), find_judged(sides, name)
    spending: tuple[Spending, ...] = ()
    if aa is not None:
        if judged is None:
            raise UserError(f"--aa asks a judge again, but {name} is not computed from verdicts. Leave it out")
        # a gate that asks nothing needs no model
        from goldless.comparison.asking_again import ask_again  # noqa: PLC0415

        spending = await ask_again(judged, aa, options)
    certificate = certify(sides, name, alpha=alpha, repeats=[Path(folder) for folder in repeats])
    draws: Draws = {"seed": options.statistics.seed, "resamples": options.statistics.resamples, "level": 1 - 2 * alpha}
    limit = allowed.of(paired.first)
    if allowed.value > 0 and limit == 0:
        raise UserError(f"margin {allowed}: the baseline's scores do not vary. Give the margin in {paired.unit}")
    comparison = compared(sides, [paired], {**draws, "level": options.statistics.level})
    return Gate(
        **_decide(paired, limit, alpha, certificate, draws, uncertified=uncertified)._asdict(),
        baseline=comparison.first,
        candidate=comparison.second,
        metric=name,
        unit=paired.unit,
        margin=limit,
        margin_given=str(allowed),
        alpha=alpha,
        certificate=certificate,
        comparison=comparison,
        warnings=comparison.warnings,
        spending=spending,
    )


def _sides(folders: Sequence[Path | str], baseline: str | None, candidate: str | None) -> Sides:
    if len(folders) != 1:
        if (baseline is None) != (candidate is None):
            raise UserError("with two run folders, give both --baseline and --candidate, or neither")
        return open_sides(folders, () if baseline is None or candidate is None else (baseline, candidate))
    run = Run(folders[0])
    if baseline is None:
        raise UserError(
            "--baseline is missing: name the agent that the candidate is to replace, or give the run of the baseline "
            f"first and that of the candidate second. Agents: {', '.join(run.agents)}"
        )
    others = [agent for agent in run.agents if agent != baseline]
    if candidate is None and len(others) == 1:
        candidate = others[0]
    if candidate is None:
        run.check_agent(baseline)
        raise UserError(f"--candidate is missing: name one of {', '.join(others)}")
    if candidate == baseline:
        raise UserError(f"--candidate must differ from --baseline, got {candidate!r} for both")
    return open_sides(folders, (baseline, candidate))


# --- the verdict -----------------------------------------------------------------------------------------------------


class _Decided(NamedTuple):
    verdict: Verdict
    reason: str
    bounds: Estimate
    more_tasks: int | None


def _decide(
    paired: Paired, margin: float, alpha: float, certificate: Certificate, draws: Draws, *, uncertified: bool
) -> _Decided:
    values = paired.differences
    n, fewest = len(values), least_tasks(2 * alpha, AT_LEAST)
    # what a loss of the margin may measure, by the judge's noise
    limits = -margin + certificate.shift, -margin - certificate.shift
    bounds = one_sided_bounds(values, paired.limits, draws, limits)
    low, high = bounds.low, bounds.high
    if low is None or high is None or n < fewest:
        reason = f"{n} common task{'s' * (n != 1)} with both scores are too few: a gate needs {fewest}"
        return _Decided("INCONCLUSIVE", reason, bounds, max(1, fewest - n))
    if not certificate.allows and not (uncertified and certificate.state == "missing"):
        return _Decided("INCONCLUSIVE", "no decision, because the judge is not certified", bounds, None)
    loss = f"a loss beyond the margin of {margin:.2f} ({paired.unit})"
    ships, blocks = low > limits[0], high < limits[1]
    if not ships and not blocks:
        more = more_tasks(values + margin, alpha=2 * alpha)
        return _Decided("INCONCLUSIVE", f"{loss} is neither shown nor excluded: {outlook(n, more)}", bounds, more)
    if blocks:
        return _Decided("BLOCK", f"{loss} is shown: at best {high:+.2f}", bounds, 0)
    lost = len(paired.unanswered)
    if lost:
        # the lowest score seen, on each task where the candidate has none
        lowest = min(paired.first.min(), paired.second.min(), paired.unanswered.min())
        filled = np.concatenate([values, lowest - paired.unanswered])
        worst = one_sided_bounds(filled, paired.limits, draws, limits).low
        if worst is None or worst <= limits[0]:
            reason = (
                f"the candidate has no score on {lost} of {n + lost} tasks; with the lowest there, {loss} is possible"
            )
            return _Decided("INCONCLUSIVE", reason, bounds, None)
    return _Decided("SHIP", f"{loss} is excluded: at worst {low:+.2f}", bounds, 0)


def one_sided_bounds(
    values: FloatArray, limits: Limits | None, draws: Draws, tested: tuple[float, float] = (0.0, 0.0)
) -> Estimate:
    """The mean difference with one-sided bounds: all that sign flips do not reject; ``tested`` as in their test."""
    return mean_test(values, draws).interval(draws["level"], limits, tested)


MARKS = {"SHIP": "✅", "BLOCK": "⛔", "INCONCLUSIVE": "❔"}
NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_markdown(gate: Gate) -> str:
    """The verdict, the numbers, the certificate, and the tasks that pull most; a mention in a text notifies no one."""
    found, certificate = gate.difference, gate.certificate
    title = f"{gate.verdict}: {gate.candidate} in place of {gate.baseline}"
    lines = [
        f"### {MARKS[gate.verdict]} {markdown_cell(title)}",
        "",
        f"By {markdown_cell(gate.metric)}, {markdown_cell(gate.reason)}.",
        "",
        *_without_notes(gate.table().to_markdown()),
        "",
        f"- Rule: at alpha {gate.alpha:g}, no loss of more than {gate.margin_given}"
        + (f" = {gate.margin:.4g}" if gate.margin_given.endswith("sd") else "")
        + f" ({markdown_cell(gate.unit)}); {found.difference.n} common tasks"
        + (f", {found.left_out} left out" if found.left_out else ""),
        f"- A/A certificate: **{certificate.state}**; {markdown_cell(certificate.words)}",
        *(f"- Warning: {markdown_cell(line)}" for line in gate.warnings),
    ]
    if found.pulls:
        table = "\n".join(_without_notes(gate.comparison.pulls_table().to_markdown()))
        lines += ["", "<details><summary>Tasks that pull most</summary>", "", table, "", "</details>"]
    signed = ["", "<details><summary>Signature</summary>", "", code_line(found.signature), "", "</details>", ""]
    return "\n".join([*(line.replace("@", "@\u200b") for line in lines), *signed])


def _without_notes(markdown: str) -> list[str]:
    """The lines of the table itself."""
    return [line for line in markdown.splitlines() if line.startswith("|")]


def as_junit(gate: Gate) -> str:
    """Two test cases: the candidate, and its judge. BLOCK is a failure, INCONCLUSIVE an error."""
    suites = ET.Element("testsuites")
    suite = ET.SubElement(suites, "testsuite", name="goldless gate", tests="2")
    named = f"{gate.candidate} is not worse than {gate.baseline} by {gate.metric}"
    case = ET.SubElement(suite, "testcase", classname="goldless.gate", name=_xml(named))
    if gate.verdict != "SHIP":
        kind = "failure" if gate.verdict == "BLOCK" else "error"
        ET.SubElement(case, kind, type=gate.verdict, message=_xml(gate.reason))
    judge = ET.SubElement(suite, "testcase", classname="goldless.gate", name="the judge repeats itself")
    if gate.certificate.state != "certified":
        kind = "failure" if gate.certificate.state == "refused" else "skipped"
        ET.SubElement(judge, kind, message=_xml(gate.certificate.words))
    for count, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(len(suite.findall(f"testcase/{kind}"))))
    ET.SubElement(suite, "system-out").text = _xml(as_markdown(gate))
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _xml(text: str) -> str:
    return NOT_IN_XML.sub("\ufffd", text)
