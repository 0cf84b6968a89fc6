"""Tables of the report."""

from parley.report.tables import Column, table, text_column


def test_axes_that_differ_are_columns_and_the_others_are_said_once() -> None:
    rows = [{"axes": ["a", 4, 0], "rate": "1%"}, {"axes": ["a", 6, 0], "rate": "2%"}]
    made = table("t", rows, text_column("what", "what"), Column("rate", "rate"), by=["model", "n", "b"], first=1)
    assert [column.label for column in made.columns] == ["what", "n", "rate"]
    assert made.alike == "model=a, b=0"
    assert [row[made.columns[1].key] for row in made.rows] == [4, 6]


def test_many_axes_are_one_column_so_that_no_table_is_too_wide() -> None:
    rows = [{"axes": [1, 1, 1, 1, 9]}, {"axes": [2, 2, 2, "", 9]}]
    made = table("t", rows, by=["a", "b", "c", "d", "e"])
    assert [column.label for column in made.columns] == ["condition"]
    assert [row["axes"] for row in made.rows] == ["a=1, b=1, c=1, d=1", "a=2, b=2, c=2"]
    assert made.alike == "e=9"


def test_no_rows_have_no_axes() -> None:
    assert table("t", [], Column("rate", "rate"), by=["a"]).alike == ""
