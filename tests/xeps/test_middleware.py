"""What is around a handler: its order, and the ready ones."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from pubqueue_xeps.middleware import ErrorReporting, Facts, Timed, Timing, handler_name, wrapped
from pubqueue_xeps.wire.payloads.decoding import DecodeError
from pubqueue_xeps.wire.refusals import Failed, Reject, Release

ITEM = SimpleNamespace(
    node="jobs", id="i1", attempt=3, failures=2, publisher="etl@localhost", payload="secret"
)
FACTS = Facts("job", "jobs", "i1", 3, 2, "etl@localhost")


@pytest.fixture(autouse=True)
def _at_work():
    token = handler_name.set("job")
    yield
    handler_name.reset(token)


def raising(error):
    async def handler(item):
        raise error

    return handler


async def done(item):
    return item.id


class Noted:
    def __init__(self, name, notes):
        self.name, self.notes = name, notes

    async def __call__(self, item, call_next):
        self.notes.append(f"{self.name} begins")
        try:
            return await call_next(item)
        finally:
            self.notes.append(f"{self.name} ends")


async def test_the_first_is_the_outermost():
    notes = []
    call = wrapped([Noted("first", notes), Noted("second", notes)], done)
    assert await call(ITEM) == "i1"
    assert notes == ["first begins", "second begins", "second ends", "first ends"]


async def test_a_plain_coroutine_function_is_a_middleware():
    async def twice(item, call_next):
        await call_next(item)
        return await call_next(item)

    notes = []
    assert await wrapped([twice, Noted("it", notes)], done)(ITEM) == "i1"
    assert notes == 2 * ["it begins", "it ends"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError(), "failed"),
        (Failed("down"), "failed"),
        (Release(), "release"),
        (Reject("no"), "reject"),
        (asyncio.CancelledError(), "release"),
    ],
)
async def test_times_are_reported_with_the_outcome_of_the_item(error, outcome):
    reported = []
    clock = iter([10.0, 12.5])
    with pytest.raises(type(error)):
        await wrapped([Timing(reported.append, clock=clock.__next__)], raising(error))(ITEM)
    assert reported == [Timed(FACTS, 2.5, outcome)]


async def test_by_default_times_are_logged(caplog):
    caplog.set_level(logging.INFO, "pubqueue_xeps")
    clock = iter([10.0, 12.5])
    assert await wrapped([Timing(clock=clock.__next__)], done)(ITEM) == "i1"
    expected = "event=item.timed handler=job node=jobs id=i1 seconds=2.5 outcome=done"
    assert [it.getMessage() for it in caplog.records] == [expected]


async def test_errors_are_reported_with_their_facts_and_raised_again():
    reported, error = [], ValueError("text")
    with pytest.raises(ValueError, match="text"):
        await wrapped([ErrorReporting(lambda *it: reported.append(it))], raising(error))(ITEM)
    assert reported == [(error, FACTS)]
    assert "secret" not in repr(reported)


@pytest.mark.parametrize(
    ("error", "count"), [(Release(), 0), (Failed("x"), 0), (Reject("x"), 0), (DecodeError("x"), 1)]
)
async def test_what_a_handler_raises_on_purpose_is_not_an_error(error, count):
    reported = []
    with pytest.raises(type(error)):
        await wrapped([ErrorReporting(lambda *it: reported.append(it))], raising(error))(ITEM)
    assert len(reported) == count


async def test_a_report_that_fails_changes_nothing(caplog):
    def report(*_):
        raise RuntimeError

    with pytest.raises(ZeroDivisionError):
        await wrapped([ErrorReporting(report)], raising(ZeroDivisionError()))(ITEM)
    assert await wrapped([Timing(report)], done)(ITEM) == "i1"
    logged = [it.getMessage() for it in caplog.records]
    assert logged == 2 * ["event=middleware.report_failed error=RuntimeError"]
