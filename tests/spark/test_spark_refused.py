"""Jobs that must fail, and leave nothing: no item, nothing staged, no record of a transaction."""

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


@pytest.fixture(scope="module")
def component(serve, tmp_path_factory):
    """One for all tests: since nothing is left, the next begins with an empty store."""
    with serve(tmp_path_factory.mktemp("component")) as program:
        yield program


GOOD = [(f"<job n='{n}'/>",) for n in range(30)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (None, "payload is null"),
        ("<job n='99'>", "not one well-formed XML element: no element found"),
        ("<job n='99'>\x07</job>", "the character U+0007"),
        (f"<job n='99'>{'x' * 300_000}</job>", "XMPP servers refuse a stanza of more than 262144"),
        (f"<job n='99'>{'x' * 200_000}</job>", "not-acceptable (payload-too-big)"),
    ],
)
def test_one_bad_row_fails_the_job_and_nothing_of_it_is_seen(sink, settled, bad, reason):
    data = sink.spark.createDataFrame([*GOOD, (bad,)], "payload string").coalesce(1)
    message = sink.failure(data)
    assert "row 30 of partition 0" in message
    assert reason in message
    settled(0, records=0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"node": "jbos"}, "option node: queue.localhost answers for 'jbos': item-not-found"),
        ({"node": "private"}, "may not publish to 'private' (it is: none); let the node's owner"),
        ({"node": "small"}, "refused the commit of version 0 of "),
        ({"password": "wr0ngwr0ng"}, "refused etl@localhost: wrong name or password"),
    ],
)
def test_a_job_that_the_service_will_not_have_leaves_nothing(sink, settled, options, sentence):
    assert sentence in sink.failure(sink.frame(20), **options)
    settled(0, records=0)
