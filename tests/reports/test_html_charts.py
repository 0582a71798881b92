"""Charts: where things stand, in numbers that can be reckoned by hand, and colours that can be read."""

from __future__ import annotations

import itertools
import re

import pytest

from goldless.reports.html.charts import COLOURS, HEAT_OPACITY, HeatCell, IntervalRow, heat_map, interval_plot
from goldless.reports.html.labels import label, numeral
from goldless.statistics.bootstrap import ABSENT, Estimate


def attributes(svg: str, pattern: str) -> list[dict[str, str]]:
    """The attributes of every element whose tag matches."""
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', found)) for found in re.findall(pattern, svg)]


# --- charts ---------------------------------------------------------------------------------------------------------


def test_an_interval_is_drawn_from_its_low_to_its_high_end_with_its_value_between():
    found = {"a": Estimate(5.0, 4.0, 7.0), "b": Estimate(1.0, 0.0, 10.0), "c": ABSENT}
    rows = [IntervalRow(name, one) for name, one in found.items()]
    svg = str(interval_plot(rows, title="t", axis="x"))
    assert svg.count("missing</text>") == 1
    whiskers = attributes(svg, r"<line[^>]*whisker[^>]*>")
    dots = attributes(svg, r"<circle[^>]*>")
    # both on one scale: b's line of 10 is as long as 10/3 of a's line of 3
    a, b = (float(w["x2"]) - float(w["x1"]) for w in whiskers)
    assert b / a == pytest.approx(10 / 3, rel=0.01)
    assert (float(dots[0]["cx"]) - float(whiskers[0]["x1"])) / a == pytest.approx(1 / 3, abs=0.01)


def test_a_heat_map_writes_numbers_into_cells_while_they_fit_and_signs_where_they_do_not():
    def drawn(n: int) -> str:
        cells = [[HeatCell(0.5, "+1.25", "▲", "hint") for _ in range(n)] for _ in range(n)]
        return str(heat_map([f"a{i}" for i in range(n)], cells, title="t", corner="c", steps=()))

    assert drawn(3).count("+1.25") == 9
    assert drawn(13).count("+1.25") == 0
    assert drawn(13).count("▲") == 169


def test_the_middle_half_of_an_interval_is_drawn_to_scale():
    row = IntervalRow("a", Estimate(3.0, 1.0, 5.0), shape="stroke", inner=(2.0, 4.0))
    svg = str(interval_plot([row], title="t", axis="x"))
    box, bar = (attributes(svg, rf'<line[^>]*class="{kind} blue"[^>]*>')[0] for kind in ("inner", "whisker"))
    # from 2 to 4 is half as long as from 1 to 5
    long, whole = (float(one["x2"]) - float(one["x1"]) for one in (box, bar))
    assert long / whole == pytest.approx(0.5, abs=0.01)


# --- names and numbers ----------------------------------------------------------------------------------------------


def test_two_long_names_that_begin_and_end_alike_are_told_apart():
    first, second = (label("a" * 50 + middle + "z" * 50) for middle in "xy")
    assert first != second
    assert len(first) <= 48


def test_numbers_have_a_minus_sign_and_no_negative_zero():
    assert numeral(-1.5, 1) == "\u22121.5"
    assert numeral(-0.0004, 2) == "0.00"
    assert numeral(None) == "missing"
    assert numeral(1234.5, 1, signed=True) == "+1,234.5"


# --- colours: contrast as WCAG 2.1 defines it -----------------------------------------------------------------------


def luminance(colour: tuple[float, float, float]) -> float:
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def contrast(first: tuple[float, float, float], second: tuple[float, float, float]) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_marks_and_numbers_in_cells_stand_out_from_their_ground(theme):
    colours = {name: rgb(pair[theme]) for name, pair in COLOURS.items()}
    for word, ground in itertools.product(("ink", "muted", "link"), ("ground", "raised")):
        assert contrast(colours[word], colours[ground]) >= 4.5, (word, ground)
    for name in ("blue", "vermilion", "green", "purple", "ochre", "muted"):
        assert contrast(colours[name], colours["ground"]) >= 3.0, name
    for name in ("blue", "vermilion"):
        shares = zip(colours[name], colours["ground"], strict=True)
        red, green, blue = (HEAT_OPACITY * c + (1 - HEAT_OPACITY) * g for c, g in shares)
        assert contrast(colours["ink"], (red, green, blue)) >= 4.5, name
