"""Which items go together."""

import pytest
from pyspark.sql.types import StringType

from pubqueue_spark.write import bundles as module
from pubqueue_spark.write.bundles import Bundles
from pubqueue_spark.write.forms import form
from pubqueue_spark.write.rows import Rows
from pubqueue_spark.write.schema import Columns

ROWS = Rows(
    Columns(0, StringType(), item_id=1, node=2, priority=3),
    form(StringType(), "auto"),
    "jobs",
    "run",
    0,
)


def items(*rows):
    return [
        ROWS.item(number, (payload, *more, *[None] * (3 - len(more))))
        for number, (payload, *more) in enumerate(rows)
    ]


def gathered(made, most=100):
    return [[it.row for it in publish.items] for publish in Bundles(ROWS, most).gather(made)]


@pytest.mark.parametrize(
    ("count", "most", "sizes"), [(0, 3, []), (1, 3, [1]), (7, 3, [3, 3, 1]), (3, 1, [1, 1, 1])]
)
def test_no_more_than_so_many_go_together(count, most, sizes):
    assert [len(rows) for rows in gathered(items(*[("<a/>",)] * count), most)] == sizes


def test_a_publish_stays_small(monkeypatch):
    made = items(*[("<a/>",)] * 4, (f"<a>{'x' * 500}</a>",), ("<a/>",))
    monkeypatch.setattr(module, "BYTES", 2 * len(made[0].xml))
    assert gathered(made) == [[0, 1], [2, 3], [4], [5]]


def test_rows_go_together_that_agree_on_node_and_metadata():
    made = items(
        ("<a/>", None, "one"),
        ("<a/>", None, "two"),
        ("<a/>", None, "one", 5),
        ("<a/>", None, "one"),
        ("<a/>", None, "one", 5),
    )
    assert gathered(made) == [[0, 3], [1], [2, 4]]


def test_of_two_rows_under_one_id_the_later_goes_later():
    made = items(("<a/>", "x"), ("<b/>", "y"), ("<c/>", "x", None, 5), ("<d/>", "z"))
    assert gathered(made) == [[0, 1], [2], [3]]


def test_the_same_id_in_another_node_is_another_item():
    assert gathered(items(("<a/>", "x"), ("<a/>", "x", "other"))) == [[0], [1]]
    assert gathered(items(("<a/>", "x"), ("<b/>", "y"), ("<a/>", "x", "other"))) == [[0, 1], [2]]
