"""The page: all sections in one self-contained HTML file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from markupsafe import Markup

from goldless.errors import UserError
from goldless.files import write_text
from goldless.plugins import Catalogue, added_by_apps
from goldless.reports.document import Unreadable
from goldless.reports.html.about import verdict_blocks, whole_run_warnings
from goldless.reports.html.blocks import HERE, Block, Rendered, Section, SectionMaker, environment, lexicon, warning
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
    "sizes": "goldless.reports.html.scores:sizes_section",
    "asked": "goldless.reports.html.about:asked_section",
}
"""Our sections in page order. Those of apps and packages, of the group ``goldless.sections``, come after them."""


def _ours(place: str) -> SectionMaker:
    """A section whose module is imported when a page is made."""

    def made(run: RunFolder) -> Section | None:
        make: SectionMaker = resolve_name(place)
        return make(run)

    return made


def _wrong_shape(value: Any) -> str | None:
    return None if callable(value) else f"a section must be a function of a run's results, got {type(value).__name__}"


CATALOGUE: Catalogue[SectionMaker] = Catalogue(
    GROUP, {name: _ours(place) for name, place in {**SECTIONS, **added_by_apps(GROUP)}.items()}, _wrong_shape
)


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
    used: set[str] = set()
    verdict = drawn((*whole_run_warnings(run), *verdict_blocks(run)), used)
    sections = [(one, drawn(one.blocks, used)) for one in made_sections(run)]
    styles, script = _styles(switch_css(len(run.standings))), _file("report.js")
    latest = max((one.at for one in run.made_by.made.values()), default="")
    terms, called = lexicon()["terms"], lexicon()["names"]
    return _page(
        "report.html",
        styles,
        script,
        study=label(run.study_name or "study"),
        metrics=list(run.standings),
        made=label(latest.replace("T", " ").replace("+00:00", " UTC")),
        verdict=verdict,
        sections=sections,
        glossary=sorted(((key, called.get(key, key), terms[key]) for key in used), key=lambda row: row[1].lower()),
        script=script,
    )


def site_page(
    title: str, sections: Sequence[Section], *, site: str, file: str, contents: Mapping[str, str], footer: str
) -> str:
    """A page of a static site: links, no script, nothing from elsewhere, the same bytes for the same sections.

    ``contents``: titles of the pages to list, by file. ``file``: this page's own.
    """
    found = [(one, drawn(one.blocks, scriptless=True)) for one in sections]
    about = {"title": title, "site": site, "file": file, "contents": contents, "footer": footer}
    return _page("site.html", _styles(), None, sections=found, **about)


def _page(template: str, styles: list[Markup], script: Markup | None, /, **values: Any) -> str:
    """The page, with a content security policy that allows its styles and script by their hashes, and nothing else."""

    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    allowed = "'none'" if script is None else hashed(script)
    policy = (
        f"default-src 'none'; style-src {' '.join(map(hashed, styles))}; script-src {allowed}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return environment().get_template(template).render(styles=styles, policy=policy, **values)


def _styles(more: str = "") -> list[Markup]:
    return [*map(_trusted, theme_css()), _file("chart.css"), _file("style.css") + _trusted(more)]


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


def drawn(blocks: Iterable[Block], used: set[str] | None = None, **more: Any) -> Markup:
    """Blocks as HTML; adds the terms in them to those ``used``. ``bare``: without links into the page."""
    seen: Counter[str] = Counter()

    def numbered(slug: str) -> str:
        """A unique name for the files of a figure."""
        seen[slug] += 1
        return f"{slug}-{seen[slug]}"

    known = {"numbered": numbered, "use": (set() if used is None else used).add, **more}
    module: Any = environment().get_template("blocks.html").make_module(known)
    macros = {name: getattr(module, name) for name in ("inline", "code", "term")}
    found = []
    for block in blocks:
        if isinstance(block, Rendered):
            template = environment().get_template(block.template)
            found.append(_trusted(template.render(**macros, **more, **block.values)))
        else:
            found.append(module.block(block))
    return Markup("").join(found)


def _file(name: str) -> Markup:
    return _trusted((HERE / name).read_text(encoding="utf-8"))


def _trusted(text: str) -> Markup:
    """Our own styles, script and templates, which escape what is from the data."""
    return Markup(text)  # noqa: S704 - written by us, from files of this package
