"""Of a handler's exception the user sees the frames of the user's own program."""

import logging
import traceback

import pytest

from pubqueue import Handlers
from pubqueue.testing import Service
from pubqueue_xeps.log import HOME, trimmed
from pubqueue_xeps.sentences import Facts


@pytest.fixture(scope="module")
def running():
    with Service() as service:
        yield service


@pytest.fixture
def service(running):
    running.clear()
    running.create("jobs", backoff_min=0, max_failures=1)
    running.publish("jobs", {"a": 1}, id="a")
    return running


def deep():
    raise ValueError("the user's own words")


async def handler(item):
    try:
        deep()
    except ValueError as error:
        raise KeyError("second") from error


def blocking(item):
    deep()


async def outer(item, call_next):
    return await call_next(item)


def files(error):
    found = []
    while error is not None:
        found += [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        error = error.__cause__ or error.__context__
    return found


def caught(caplog):
    (record,) = [it for it in caplog.records if it.getMessage().startswith("event=item.failed")]
    return record.exc_info[1]


async def run(service, how):
    if how == "plain":
        await service.work(handler, node="jobs")
    else:
        app = Handlers(outer)
        app.handler()(handler if how == "handlers" else blocking)
        await service.work(app, node="jobs")


@pytest.mark.parametrize("how", ["plain", "handlers", "blocking handlers"])
async def test_a_traceback_has_no_frame_of_ours(service, caplog, how):
    with caplog.at_level(logging.ERROR, "pubqueue_xeps"):
        await run(service, how)
    shown = files(caught(caplog))
    assert not [file for file in shown if file.startswith(HOME) or "asyncio" in file]
    assert __file__ in shown


async def test_what_we_raise_in_a_handler_ends_at_the_users_line(service, caplog):
    async def publishes(item):
        await item.publish("nowhere", 1)

    with caplog.at_level(logging.ERROR, "pubqueue_xeps"):
        await service.work(publishes, node="jobs")
    assert files(caught(caplog))[:1] == [__file__]
    assert not [file for file in files(caught(caplog)) if file.startswith(HOME)]


def test_exceptions_that_go_in_a_circle_come_to_an_end():
    one, other = ValueError(), KeyError()
    one.__context__, other.__context__ = other, one
    assert trimmed(one) is one


def test_of_a_group_all_are_looked_at():
    def ours():
        return Facts({})["x"] + 1  # frames of ours and of the test

    try:
        ours()
    except TypeError as error:
        group = ExceptionGroup("all", [error])
    trimmed(group)
    assert files(group.exceptions[0]) == [__file__, __file__]
