"""A gate as Markdown for a pull request, and as JUnit XML for a CI server."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from goldless.comparison.gating import Gate
from goldless.reports.formats import code_line, markdown_cell

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
        + f" ({markdown_cell(gate.unit)}); {found.n} common tasks"
        + (f", {found.left_out} left out" if found.left_out else ""),
        f"- A/A certificate **{certificate.state}**: {markdown_cell(certificate.words)}",
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
    inconclusive, refused = gate.verdict == "INCONCLUSIVE", gate.certificate.state == "refused"
    unknown = gate.certificate.state in {"missing", "not needed"}
    suite = ET.SubElement(
        suites,
        "testsuite",
        name="goldless gate",
        tests="2",
        failures=str(int(gate.verdict == "BLOCK") + int(refused)),
        errors=str(int(inconclusive)),
        skipped=str(int(unknown)),
    )
    name = f"{gate.candidate} is not worse than {gate.baseline} by {gate.metric}"
    case = ET.SubElement(suite, "testcase", classname="goldless.gate", name=_xml(name))
    if gate.verdict != "SHIP":
        kind = "error" if inconclusive else "failure"
        ET.SubElement(case, kind, type=gate.verdict, message=_xml(gate.reason))
    judge = ET.SubElement(suite, "testcase", classname="goldless.gate", name="the judge repeats itself")
    if refused or unknown:
        kind = "failure" if refused else "skipped"
        ET.SubElement(judge, kind, message=_xml(gate.certificate.words))
    ET.SubElement(suite, "system-out").text = _xml(as_markdown(gate))
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _xml(text: str) -> str:
    return NOT_IN_XML.sub("\ufffd", text)
