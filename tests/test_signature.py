"""A signature is one line of everything that made a number; a hash of evidence is blind to the order of its rows."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.signature import Signature, table_hash


def test_a_line_is_read_part_by_part_and_written_as_it_was():
    line = "m|scorer:a:b|level:0.9|goldless:0.1.0"
    found = Signature.parse(line)
    assert found.parts == {"metric": "m", "scorer": "a:b", "level": "0.9", "goldless": "0.1.0"}
    assert str(found) == line
    assert Signature.parse("").parts == {}


# --- hashes of tables ------------------------------------------------------------------------------------------------

KINDS = {"task": pl.String, "agent": pl.String, "value": pl.Float64}
ROWS = [("t1", "ann", -1.5), ("t1", "bob", 0.0), ("t2", "ann", None), ("t2", None, 2.0)]


def frame(rows) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=KINDS, orient="row")


names = st.none() | st.sampled_from(["", "0", "a", "b", "ä"])
values = st.none() | st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0])
tables = st.lists(st.tuples(names, names, values), max_size=8)


@given(tables.flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows))))
def test_the_order_of_rows_does_not_matter(both):
    rows, turned = both
    assert table_hash(frame(rows)) == table_hash(frame(turned))


@pytest.mark.parametrize("row", range(len(ROWS)))
@pytest.mark.parametrize(("column", "changed"), [(0, "t3"), (1, "cy"), (2, -1.5000000000000002)])
def test_any_other_value_or_name_gives_another_hash(row, column, changed):
    rows = [list(one) for one in ROWS]
    rows[row][column] = changed
    assert table_hash(frame(rows)) != table_hash(frame(ROWS))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("t", "a", None), ("t", "a", 0.0)),
        (("t", None, 1.0), ("t", "", 1.0)),
        (("t", "u", 1.0), ("u", "t", 1.0)),
        (("t", None, 1.0), (None, "t", 1.0)),
        (("tu", "", 1.0), ("t", "u", 1.0)),
    ],
    ids=["null and 0", "null and no text", "columns swapped", "null swapped", "texts shifted"],
)
def test_what_only_looks_alike_is_told_apart(first, second):
    assert table_hash(frame([first])) != table_hash(frame([second]))


def test_minus_zero_is_zero_and_not_a_number_is_missing():
    assert table_hash(frame([("t", "a", -0.0)])) == table_hash(frame([("t", "a", 0.0)]))
    assert table_hash(frame([("t", "a", float("nan"))])) == table_hash(frame([("t", "a", None)]))


def test_how_names_are_kept_in_memory_does_not_matter():
    rows = frame(ROWS)
    # numbers of names in another order than they appear, and names that do not appear
    known = {"task": pl.Enum(["x", "t2", "t1"]), "agent": pl.Enum(["cy", "bob", "ann", "dee"])}
    as_numbers = rows.with_columns(pl.col(name).cast(kind) for name, kind in known.items())
    as_categories = rows.with_columns(pl.col("task", "agent").cast(pl.Categorical))
    assert table_hash(rows) == table_hash(as_numbers) == table_hash(as_categories)
