from datetime import UTC, datetime
from pathlib import Path

import pytest

from pubqueue_spark.client.option import ACCOUNT_OPTIONS, SERVICE, SERVICES, TIMEOUTS
from pubqueue_spark.errors import OptionError
from pubqueue_spark.read.options import OPTIONS, TABLES, USED_BY, data, settings, table
from pubqueue_spark.read.tables import SCHEMAS, schema
from pubqueue_spark.source import PubqueueDataSource

LEAST = {"service": "queue.localhost", "jid": "etl@localhost", "password": "s3cret"}
OWN = [it for it in OPTIONS if it not in (SERVICE, SERVICES, *ACCOUNT_OPTIONS, *TIMEOUTS)]
README = (Path(__file__).parents[2] / "spark" / "README.md").read_text()


def refusal(*, stream=False, **options):
    with pytest.raises(OptionError) as caught:
        settings(LEAST | options, stream=stream)
    assert "s3cret" not in str(caught.value)
    return str(caught.value)


def test_a_batch_reads_all_items_and_a_stream_what_is_new():
    batch = settings(LEAST, stream=False)
    assert (batch.table, batch.nodes, batch.start, batch.end) == ("items", (), "earliest", "latest")
    assert (batch.partitions, batch.payload, batch.fail_on_loss) == (None, True, True)
    stream = settings(LEAST | {"TABLE": "Events"}, stream=True)
    assert (stream.table, stream.start, stream.most) == ("events", "latest", None)


def test_the_table_alone_can_be_asked_for():
    assert (table(LEAST), data(LEAST)) == ("items", False)
    assert data({"INCLUDEDATA": "true", "else": "x"})
    with pytest.raises(OptionError, match=r"^option includeData: 'x' cannot be used"):
        data({"includeData": "x"})
    assert table({"Table": "nodes", "else": "x"}) == "nodes"
    with pytest.raises(OptionError, match=r"^option table: 'x' cannot be used; it takes: items, "):
        table({"table": "x"})


def test_offsets_times_and_nodes():
    found = settings(
        LEAST
        | {"table": "events", "startingOffsets": '{"seq": 0}', "endingOffsets": '{"seq":9}'}
        | {"node": "jobs, a*", "numPartitions": "3", "failOnDataLoss": "FALSE"},
        stream=False,
    )
    assert (found.start, found.end, found.nodes) == (0, 9, ("jobs", "a*"))
    assert (found.partitions, found.fail_on_loss) == (3, False)
    since = settings(
        LEAST | {"table": "events", "startingTimestamp": "2026-11-21T03:00:00Z"}, stream=True
    )
    assert since.start == datetime(2026, 11, 21, 3, tzinfo=UTC)
    assert settings(LEAST | {"startingOffsets": "Earliest"}, stream=False).start == "earliest"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "first"),
        ("startingOffsets", "5"),
        ("startingOffsets", '{"seq":-1}'),
        ("startingOffsets", '{"seq":true}'),
        ("startingOffsets", '{"sq":1}'),
        ("startingTimestamp", "2026-11-21T03:00:00"),
        ("startingTimestamp", "today"),
        ("numPartitions", "0"),
        ("node", "a,,b"),
        ("failOnDataLoss", "maybe"),
        ("retries", "-1"),
    ],
)
def test_a_wrong_value_is_named_with_what_the_option_takes(name, value):
    message = refusal(table="events", **{name: value})
    assert message.startswith(f"option {name}: {value!r} cannot be used; it takes: ")


def test_an_unknown_option_is_refused_with_the_nearest_name():
    assert refusal(startingOffset="x") == (
        "option 'startingOffset' is unknown; did you mean 'startingOffsets'?"
    )
    assert "did you mean" not in refusal(zzzzzz="x")


@pytest.mark.parametrize(
    ("name", "of"),
    [(name, of) for name, tables in USED_BY.items() for of in set(TABLES) - set(tables)],
)
def test_an_option_that_would_do_nothing_is_refused(name, of):
    value = {"startingTimestamp": "2026-11-21T03:00:00Z", "startingOffsets": "earliest"}
    value |= {"endingOffsets": "latest", "includePayload": "true", "failOnDataLoss": "true"}
    value |= {"includeData": "true"}
    message = refusal(table=of, **{name: value.get(name, "1")})
    assert message.startswith(f"option {name} has no effect with table={of}; it goes with ")


def test_data_is_read_of_payloads():
    assert settings(LEAST | {"includeData": "true"}, stream=False).data
    assert refusal(includeData="true", includePayload="false") == (
        "option includeData: data is read from payloads; leave includePayload out."
    )


def test_columns_of_data_come_last_and_only_where_there_are_payloads():
    for name in TABLES:
        found, plain = schema(name, data=True).names, SCHEMAS[name].names
        assert schema(name).names == plain
        assert found == ([*plain, "data", "type", "json"] if "payload" in plain else plain)


@pytest.mark.parametrize(
    ("stream", "options", "start"),
    [
        (True, {"table": "items"}, "option table: items changes in place and cannot be followed"),
        (True, {"endingOffsets": "latest"}, "option endingOffsets: a stream has no end"),
        (False, {"maxEventsPerTrigger": "5"}, "option maxEventsPerTrigger is for streams"),
        (False, {"startingOffsets": "latest"}, "option startingOffsets: a batch that starts at"),
        (False, {"endingOffsets": "earliest"}, "option endingOffsets: a batch that ends at"),
        (
            False,
            {"startingOffsets": "earliest", "startingTimestamp": "2026-11-21T03:00:00Z"},
            "options startingOffsets, startingTimestamp: give one of them at most.",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(stream, options, start):
    assert refusal(stream=stream, **{"table": "events"} | options).startswith(start)


def test_the_password_is_not_in_what_is_shown():
    assert "s3cret" not in repr(settings(LEAST, stream=False))


def test_the_docstring_of_the_source_has_each_option_of_a_read_with_its_default():
    text = PubqueueDataSource.__doc__.split("option of a read")[1]
    rows = [line.split() for line in text.splitlines() if "``" in line]
    assert [row[0].strip("`") for row in rows] == [option.name for option in OWN]
    for row, option in zip(rows, OWN, strict=True):
        assert option.default in (None, row[1])


def test_the_readme_has_each_option_of_a_read_with_its_default():
    rows = cells(README.split("| option of a read |")[1])
    assert [row[1] for row in rows] == [option.name for option in OWN]
    for row, option in zip(rows, OWN, strict=True):
        assert option.default in (None, row[2].strip("`"))


def test_the_readme_has_the_columns_of_each_table():
    rows = cells(README.split("| table |")[1])
    assert [row[1] for row in rows] == list(TABLES)
    for row in rows:
        named = [word for at, word in enumerate(row[2].split("`")) if at % 2]
        columns = SCHEMAS[row[1]].names
        assert [name for name in named if name in columns] == [
            name
            for name in columns
            if row[1] != "deadletters" or name not in SCHEMAS["items"].names
        ]


def cells(text):
    """Return the cells of a Markdown table, to its end."""
    lines = text.split("\n\n")[0].splitlines()[2:]
    return [
        [
            cell.strip(" `") if at == 1 else cell.strip(" ")
            for at, cell in enumerate(line.split("|"))
        ]
        for line in lines
    ]
