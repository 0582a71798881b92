"""The page: all sections in one self-contained HTML file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from markupsafe import Markup

from goldless.errors import UserError
from goldless.files import write_text
from goldless.plugins import Catalogue
from goldless.reports.document import Unreadable
from goldless.reports.html.about import verdict_blocks, whole_run_warnings
from goldless.reports.html.blocks import HERE, Block, Section, SectionMaker, lexicon, lines, rendered, unlinked, warning
from goldless.reports.html.charts import theme_css
from goldless.reports.html.labels import label
from goldless.reports.run_folder import RESULTS, RunFolder

REPORT = "report.html"
GROUP = "goldless.sections"
SECTIONS = {
    "ranking": "goldless.reports.html.scores:ranking_section",
    "texts": "goldless.reports.html.texts:texts_section",
    "comparisons": "goldless.reports.html.scores:comparisons_section",
    "review": "goldless.reports.html.about:review_section",
    "agreement": "goldless.meta_evaluation.sections:agreement_section",
    "calibration": "goldless.meta_evaluation.sections:calibration_section",
    "crash-test": "goldless.meta_evaluation.sections:crash_section",
    "bias": "goldless.meta_evaluation.sections:bias_section",
    "cost": "goldless.meta_evaluation.sections:cost_section",
    "consistency": "goldless.meta_evaluation.sections:consistency_section",
    "raters": "goldless.reports.html.scores:raters_section",
    "missing": "goldless.reports.html.about:missing_section",
    "leaderboard": "goldless.reports.html.scores:leaderboard_section",
    "task scores": "goldless.reports.html.scores:task_scores_section",
    "pair scores": "goldless.reports.html.scores:pair_scores_section",
    "asked": "goldless.reports.html.about:asked_section",
}
"""Our sections in page order. Those of apps and packages, of the group ``goldless.sections``, come after them."""


def _imported(place: str, run: RunFolder) -> Section | None:
    """A section whose module is imported when a page is made."""
    make: SectionMaker = resolve_name(place)
    return make(run)


def _wrong_shape(value: Any) -> str | None:
    return None if callable(value) else f"a section must be a function of a run's results, got {type(value).__name__}"


OURS = {name: partial(_imported, place) for name, place in SECTIONS.items()}
CATALOGUE: Catalogue[SectionMaker] = Catalogue(GROUP, OURS, _wrong_shape)


def made_sections(run: RunFolder) -> Iterator[Section]:
    """All sections with content. One of a package that fails is replaced by the reason."""
    for name, make in CATALOGUE.all().items():
        try:
            found = make(run)
        except Exception as error:
            if name in SECTIONS:
                raise
            said = f"This section comes from another package and could not be made ({type(error).__name__}: {error})."
            found = Section(name.replace(" ", "-"), name, (warning(said),))
        if found is not None:
            yield found


def write_report(folder: Path | str) -> Path:
    """Write ``report.html`` with all results of a run folder into it, atomically."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder. Give a folder written by goldless score --out or another verb")
    run = RunFolder(folder)
    unexpected = [found for name in RESULTS if isinstance(found := run.read(name), Unreadable) and found.is_object]
    if not run.results and not unexpected:
        raise UserError(
            f"{folder}: no results to report. Expected one of {', '.join(f'{name}.json' for name in RESULTS)}. "
            "Create them with goldless score --out, goldless review --out or goldless crashtest --out"
            + (f". Problems: {'; '.join(run.unreadable)}" if run.unreadable else "")
        )
    path = folder / REPORT
    write_text(path, report_page(run))
    return path


def report_page(run: RunFolder) -> str:
    """The report as one HTML document."""
    verdict = lines((*whole_run_warnings(run), *verdict_blocks(run)))
    sections = list(made_sections(run))
    html = verdict + lines(block for one in sections for block in one.blocks)
    linked, called = set(re.findall('href="#term-([^"]*)"', html)), lexicon()["names"]
    glossary = [
        (slug, called.get(key, key), meaning)
        for key, meaning in lexicon()["terms"].items()
        if (slug := key.replace(" ", "-")) in linked
    ]
    latest = max((one.at for one in run.made_by.made.values()), default="")
    return _page(
        "report.html",
        switch_css(len(run.standings)),
        _file("report.js"),
        study=label(run.study_name or "study"),
        metrics=list(run.standings),
        made=label(latest.replace("T", " ").replace("+00:00", " UTC")),
        verdict=verdict,
        sections=sections,
        glossary=sorted(glossary, key=lambda row: row[1].lower()),
    )


def run_summary(run: RunFolder) -> tuple[Block, Block]:
    """A run at a glance, for another page: its verdict, and its agents by metrics if several rank them."""
    from goldless.reports.html.scores import ranking_table  # noqa: PLC0415 - only a page of several needs it

    verdict = unlinked(lines(verdict_blocks(run))) if run.results else Markup()
    return verdict, ranking_table(run) if len(run.standings) > 1 else Markup()


def site_page(
    title: str,
    sections: Sequence[Section],
    *,
    site: str,
    file: str,
    contents: Mapping[str, str],
    made_by: str,
    footer: str,
) -> str:
    """A page of a static site: links, no script, nothing from elsewhere, the same bytes for the same sections.

    ``contents``: titles of the pages to list, by file. ``file``: this page's own. ``made_by``: the command.
    """
    about = {"title": title, "site": site, "file": file, "contents": contents, "made_by": made_by, "footer": footer}
    return _page("site.html", "", None, sections=sections, **about)


def _page(template: str, styles: str, script: Markup | None, /, **values: Any) -> str:
    """The page, with a content security policy that allows its styles and script by their hashes, and nothing else."""

    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    used = [*map(_trusted, theme_css()), _file("chart.css"), _file("style.css") + _trusted(styles)]
    allowed = "'none'" if script is None else hashed(script)
    policy = (
        f"default-src 'none'; style-src {' '.join(map(hashed, used))}; script-src {allowed}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    seen: Counter[str] = Counter()

    def numbered(found: re.Match[str]) -> str:
        """A unique name for the files of a figure."""
        seen[found[1]] += 1
        return f'<figure id="{found[1]}-{seen[found[1]]}"'

    page = rendered(template, styles=used, script=script, policy=policy, **values)
    return re.sub('<figure id="([^"]*)"', numbered, page)


def switch_css(metrics: int) -> str:
    """Rules that show what belongs to the metric that the reader chose; all of it if there is only one."""
    if metrics < 2:
        return (
            ".of-0{display:revert}\n.cards:not(.all) .by:not(.by-0),.cards:not(.all) .card:not(.for-0){display:none}\n"
        )
    return "".join(
        f"main:has(#metric-{place}:checked) .of-{place}{{display:revert}}\n"
        f"main:has(#metric-{place}:checked) .cards:not(.all) .card:not(.for-{place}){{display:none}}\n"
        f"main:has(#metric-{place}:checked) .cards:not(.all) .by:not(.by-{place}){{display:none}}\n"
        f"main:has(#metric-{place}:checked) .m-{place}{{background:var(--raised)}}\n"
        for place in range(metrics)
    )


def _file(name: str) -> Markup:
    return _trusted((HERE / name).read_text(encoding="utf-8"))


def _trusted(text: str) -> Markup:
    """Our own styles and script."""
    return Markup(text)  # noqa: S704 - written by us, from files of this package
